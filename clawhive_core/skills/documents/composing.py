"""From a YAML text to its nodes and its value, by PyYAML's parser in C."""

from __future__ import annotations

from typing import Any, cast

MERGE_TAG = "tag:yaml.org,2002:merge"
TEXT_TAG = "tag:yaml.org,2002:str"
TAGS = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq")
)
"""The tags of JSON's types."""

MAX_DEPTH = 64
"""How deep collections may be nested: composing them recurses in C, which has no bound."""


class TooDeep(Exception):
    """A text is nested deeper than `MAX_DEPTH`."""


class _Odd(Exception):
    """A node needs PyYAML's own constructor, or a finding."""


def compose(text: str) -> tuple[Any, Any, bool]:
    """Return the root node of a text, its value, and whether nothing about its nodes is odd.

    Nothing is odd: no key stands twice or is no text, there are JSON's types only, and no alias.

    Raises:
        yaml.YAMLError: It is no YAML.
        ValueError: A number cannot be read.
        TooDeep: It is nested deeper than `MAX_DEPTH`.
    """
    loader = _loader()(text)
    try:
        node = loader.get_single_node()
        try:
            return node, _value(node, loader, set()), True
        except _Odd:
            return node, None if node is None else loader.construct_document(node), False
    finally:
        loader.dispose()


def _value(node: Any, loader: Any, seen: set[int]) -> Any:
    """Return what a node stands for, where no alias repeats it.

    PyYAML's own constructor does the same through a table of generators.

    Args:
        node: The node.
        loader: What it was read by.
        seen: The collections so far, by identity.
    """
    if node is None or id(node) in seen:
        raise _Odd
    tag, kind = node.tag, node.id
    if kind == "scalar":
        return node.value if tag == TEXT_TAG else _scalar(node, loader)
    seen.add(id(node))
    if kind == "mapping" and tag == "tag:yaml.org,2002:map":
        entries = cast("list[tuple[Any, Any]]", node.value)
        made: dict[str, Any] = {}
        for key, value in entries:
            if key.tag != TEXT_TAG or key.id != "scalar":
                raise _Odd
            made[key.value] = _value(value, loader, seen)
        if len(made) < len(entries):
            raise _Odd
        return made
    if kind == "sequence" and tag == "tag:yaml.org,2002:seq":
        return [_value(each, loader, seen) for each in node.value]
    raise _Odd


def _scalar(node: Any, loader: Any) -> Any:
    try:
        return getattr(loader, _SCALARS[node.tag])(node)
    except (KeyError, ValueError):
        raise _Odd from None


_SCALARS = {
    f"tag:yaml.org,2002:{name}": f"construct_yaml_{name}"
    for name in ("int", "float", "bool", "null")
}


def _loader() -> Any:
    """Return the safe loader in C, without its reading of dates."""
    if not _LOADERS:
        _LOADERS.append(_made_loader())
    return _LOADERS[0]


_LOADERS: list[Any] = []


def _made_loader() -> Any:
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    dates = "tag:yaml.org,2002:timestamp"
    resolvers = {
        first: [(tag, pattern) for tag, pattern in rules if tag != dates]
        for first, rules in base.yaml_implicit_resolvers.items()
    }
    tags = {
        yaml.ScalarNode: TEXT_TAG,
        yaml.SequenceNode: base.DEFAULT_SEQUENCE_TAG,
        yaml.MappingNode: base.DEFAULT_MAPPING_TAG,
    }

    def resolve(self: Any, kind: Any, value: Any, implicit: Any) -> str:
        """Return a node's tag: what PyYAML finds, which looks for paths of nodes too."""
        if kind is yaml.ScalarNode:
            if implicit[0]:
                for tag, pattern in resolvers.get(value[:1], ()):
                    if pattern.match(value):
                        return tag
        elif self.depth > MAX_DEPTH:
            raise TooDeep
        return tags[kind]

    def descend(self: Any, *_: Any) -> None:
        """Count a node more around the next one."""
        self.depth += 1
        if self.depth > MAX_DEPTH + 1:
            raise TooDeep

    def ascend(self: Any) -> None:
        """Count a node less."""
        self.depth -= 1

    members = {
        "depth": 0,
        "yaml_implicit_resolvers": resolvers,
        "resolve": resolve,
        "descend_resolver": descend,
        "ascend_resolver": ascend,
    }
    return type("Loader", (base,), members)
