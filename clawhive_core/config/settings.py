"""Every configuration key in one closed table, and how a path is found in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from clawhive_core.config.setting import Setting
from clawhive_core.config.table import TABLE

Path = tuple[str, ...]
"""A key as its segments; a name may itself hold dots: `("tools", "pin", "web.search")`."""

SETTINGS: Mapping[str, Setting] = {setting.key: setting for setting in TABLE}
"""Every configuration key; a segment in capitals stands for any name."""

_SAME: Mapping[Path, Path] = {
    ("catalog", name): ("tools", name)
    for name in ("preferred_provider_order", "conflict", "alias", "pin", "declared")
}
"""Other spellings: TOML forbids `[tools.alias]` beside `[[tools]]` in one file."""

_FIXED: Mapping[Path, Setting] = {
    setting.path: setting for setting in SETTINGS.values() if not setting.is_family
}
_FAMILIES: tuple[Setting, ...] = tuple(
    setting for setting in SETTINGS.values() if setting.is_family
)
_TABLES: frozenset[Path] = frozenset(
    setting.path[:length] for setting in SETTINGS.values() for length in range(1, len(setting.path))
)


def canonical_path(path: Path) -> Path:
    """Return the path of a key that may be written in another spelling (`catalog.pin`)."""
    same = _SAME.get(path[:2])
    return path if same is None else same + path[2:]


def find(path: Path) -> Setting | None:
    """Return the setting at exactly this path, None where there is none."""
    fixed = _FIXED.get(path)
    if fixed is not None or path in _TABLES:
        return fixed
    return next((family for family in _FAMILIES if _fits(family.path, path)), None)


def owner(path: Path) -> tuple[Setting, Path] | None:
    """Return the setting at or above this path, and the path where it stands.

    Above counts only where the setting is a table whose inside is free.
    """
    for length in range(len(path), 0, -1):
        setting = find(path[:length])
        if setting is not None and (length == len(path) or setting.is_open):
            return setting, path[:length]
    return None


@lru_cache(maxsize=1024)
def place(key: str) -> tuple[Path, tuple[Setting, Path] | None]:
    """Return the path of a key and what `owner` says of it; the table of settings never changes.

    Raises:
        KeyError: The text is no key.
    """
    path = canonical_path(split(key))
    return path, owner(path)


def is_table(path: Path) -> bool:
    """Return whether keys of the table stand below this path."""
    return (
        path in _TABLES
        or path == ("catalog",)
        or any(_fits(table, path) for table in _TABLES if any(map(str.isupper, table)))
    )


def _fits(pattern: Path, path: Path) -> bool:
    """Whether a path is one of the pattern's; a name never stands for a key of the table."""
    if len(pattern) != len(path):
        return False
    for index, (want, have) in enumerate(zip(pattern, path, strict=True)):
        if want.isupper():
            sibling = (*pattern[:index], have)
            if sibling in _FIXED or sibling in _TABLES:
                return False
        elif want != have:
            return False
    return True


def families_below(base: Path) -> tuple[Setting, ...]:
    """Return the families of which some member may stand at or below this path."""
    return tuple(
        family
        for family in _FAMILIES
        if all(
            want.isupper() or want == have for want, have in zip(family.path, base, strict=False)
        )
    )


def fixed_below(base: Path) -> tuple[Setting, ...]:
    """Return the settings without a name in their key that stand below this path."""
    return tuple(
        setting
        for path, setting in _FIXED.items()
        if len(path) > len(base) and path[: len(base)] == base
    )


def suggest(path: Path) -> Path | None:
    """Return the known key that was probably meant by an unknown one."""
    from clawhive_core.diagnostics.suggestions import nearest

    candidates = {dotted(known): known for known in _candidates(path) if known != path}
    by_end: dict[str, list[Path]] = {}
    for known in candidates.values():
        by_end.setdefault(known[-1], []).append(known)
    guess = nearest(dotted(path), candidates)
    if guess is not None and candidates[guess][:-1] == path[:-1]:
        return candidates[guess]
    same_end = by_end.get(path[-1], [])
    if len(same_end) == 1:
        return same_end[0]
    return candidates[guess] if guess else None


def _candidates(path: Path) -> Iterable[Path]:
    """Yield every known key and table; in families that `path` is in, with its own name."""
    for pattern in (*(setting.path for setting in SETTINGS.values()), *_TABLES, *_SAME):
        at = next((index for index, name in enumerate(pattern) if name.isupper()), None)
        if at is None:
            yield pattern
        elif len(path) > at + 1 and path[:at] == pattern[:at] and at + 1 < len(pattern):
            yield (*pattern[:at], path[at], *pattern[at + 1 :])


def dotted(path: Path) -> str:
    """Return a path as TOML writes it: segments that are no bare keys are quoted."""
    return ".".join(segment if _is_bare(segment) else _quoted(segment) for segment in path)


def _is_bare(segment: str) -> bool:
    return bool(segment) and segment.isascii() and segment.replace("-", "_").isidentifier()


def _quoted(segment: str) -> str:
    import json

    return json.dumps(segment)


def split(key: str) -> Path:
    """Return the path of a dotted key; quoted segments may hold dots.

    Raises:
        KeyError: The text is no key.
    """
    if '"' not in key:
        return tuple(key.split("."))
    import re

    segments = re.findall(r'(?:^|\.)(?:"((?:[^"\\]|\\.)*)"|([^".]+))', key)
    import json

    path = tuple(json.loads(f'"{quoted}"') if quoted else bare for quoted, bare in segments)
    if dotted(path) != key:
        raise KeyError(key)
    return path
