"""Proposals: what a tool's name, schema and annotations suggest that a person declares of it.

Guesses of a table of words, each with its reason. Two readings are made, one of the words and one
of the annotations, and the stricter counts: annotations of a server that nobody vouches for lower
nothing, and what no word explains is guarded. A proposal is nothing until a person accepts it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Literal, cast

from clawhive_core.catalog.declarations import Declaration, definition_of
from clawhive_core.model.effects import beyond_own_state, level_of
from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern
from clawhive_core.model.tools import Level, Risk, ToolMeta

_WORD = pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_ADDRESS = pattern(r"\b(URL|URI|url|uri|web address)s?\b")
_SQL = pattern(r"\bSQL\b|\bquery to execute\b|\bstatement\b|\bSELECT\b")
_PATH = pattern(r"\b(file ?path|path (to|of)|absolute path|relative path)\b|^path\b", re.IGNORECASE)
_OPEN = frozenset(("$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties"))
_MAX_DEPTH = 4
_LEAD = 200
"""Characters of a description that say what a tool is; later ones say how to use it."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_READING = _words(
    "get list read search find show describe view count fetch lookup check compare calculate "
    "compute convert explain validate parse summarize summarise inspect preview echo ping browse "
    "retrieve think thinking sequentialthinking analyze analyse translate query estimate detect "
    "lists returns shows gets reads finds searches retrieves fetches calculates computes converts "
    "describes counts echoes return provides checks displays"
)
_THINGS = _words("status diff tree info head stat stats current history help log")
"""Words for what is read, which say so where no verb says something else: `git_diff_staged`."""
_CHANGING = _words(
    "create add write update edit set put append insert save upload move rename copy commit push "
    "merge checkout reset post send reply forward publish share invite book reserve schedule "
    "reschedule close reopen assign comment archive star follow subscribe unsubscribe toggle "
    "enable disable start stop restart trigger register apply submit upsert patch replace import "
    "sync mark accept approve reject request fork label pin navigate click fill type press select "
    "hover drag download install deploy join leave make build generate gzip zip extract mount "
    "connect change modify store record clear undo redo stash rebase tag notify email call dial "
    "order creates adds writes updates sets sends appends inserts moves records stores switches "
    "unarchive restore lock unlock configure convene"
)
_EACH_TIME = _words(
    "delete deletes remove removes drop truncate purge wipe destroy erase cancel cancels execute "
    "executes exec run runs eval evaluate shell bash powershell terminal kill pay purchase buy "
    "withdraw charge refund grant revoke sudo transfer terminate shutdown uninstall ban kick"
)
_PLAIN = _words(
    "create update write insert edit set move upload publish install upsert send append save add "
    "clear overwrite mark"
)
"""Words that are verbs wherever they stand: `get_or_create`, and not `get_commit`."""
_JOINING = frozenset(("and", "or", "then"))
_SECRETS = _words(
    "env environment secret secrets password passwords credential credentials token tokens key keys"
)
_MONEY = _words("pay payment money transaction transfer invoice charge purchase buy iban donate")
_ONLINE = _words("web internet online browser http https www url website page")

_URL = _words("url urls href webhook")
_FILE = _words("path paths file files filepath filename filenames filepaths attachments")
_FOLDER = _words("dir directory folder root cwd directories folders")
_REMOTE = _words(
    "owner org organization bucket drive database db url uri host server channel site page repo "
    "repository project space"
)
_COMMAND = _words("command cmd commands script code javascript python shell program expression")
_RECIPIENT = _words(
    "to cc bcc recipient recipients receiver email emails attendee attendees participant "
    "participants invitee invitees member members user users username usernames assignee assignees "
    "reviewer reviewers phone mention mentions contact contacts"
)
_PLACE = _words("channel channels chat room conversation thread")
_ACCOUNT = _words("iban account wallet payee beneficiary card")
_CHOSEN = _words("id ids uuid guid key keys number sha hash ref slug name names title")
_HOLDER = _words(
    "owner repo repository org organization project workspace team bucket database table "
    "collection index branch calendar folder board list space site base document page issue event"
)
_VALUE = _words("password secret token pin role permission permissions scope access visibility")
_FROM = _words("source src from origin")
_TO = _words("destination dest dst target to")

Need = Literal["fs.read", "fs.write", "fs.delete"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed declaration of one tool, and what speaks for it."""

    name: str
    declaration: Declaration
    reasons: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "name": self.name,
            "declaration": self.declaration.to_table(),
            "reasons": list(self.reasons),
        }


@dataclass(frozen=True, slots=True)
class _Argument:
    """One argument of a tool, or a field of the objects in one."""

    path: str
    """As a sink names it: `to`, `edits/*/id`."""
    words: tuple[str, ...]
    type: str
    text: str
    """Its description."""

    @property
    def is_text(self) -> bool:
        """Whether it may hold a text, or texts."""
        return self.type in {"", "string", "array"}

    def has(self, words: frozenset[str]) -> bool:
        """Whether one of its words is one of these."""
        return not words.isdisjoint(self.words)


@dataclass(frozen=True, slots=True)
class _Reading:
    """A tool, taken apart."""

    meta: ToolMeta
    words: tuple[str, ...]
    arguments: tuple[_Argument, ...]
    hints: Mapping[str, Any]
    trusted: bool
    """Whether the user vouches for the server's annotations, which are its risk then."""

    @property
    def verb(self) -> str:
        """The first word of the name that says what it does, else that of the description."""
        known = _READING | _CHANGING | _EACH_TIME
        things = self.words[-1:] if "log" in self.words else self.words
        named = (each for each in (*self.words, *self._lead) if each in known)
        if not known & {*self.words} and (thing := {*things} & _THINGS):
            return min(thing)
        return next(named, "")

    @property
    def reads(self) -> bool:
        """Whether its words, and its arguments, say that it only reads."""
        if self.verb not in _READING | _THINGS or self._also:
            return False
        if {*self._lead} & (_CHANGING | _EACH_TIME) or self.words[1:2] in {("in",), ("out",)}:
            return False
        return not any(_asks_to_write(each) for each in self.top)

    @property
    def is_grave(self) -> bool:
        """Whether its words or arguments say that each call of it deserves a look."""
        grave = self.verb in _EACH_TIME or bool(self._also & _EACH_TIME)
        commands = any(each.is_text and each.words[-1] in _COMMAND for each in self.top)
        changing = not self.reads and any(_is_statement(self, each) for each in self.top)
        return grave or commands or changing

    @property
    def is_online(self) -> bool:
        """Whether it reaches what does not belong to its server, as far as anything says so."""
        if self.hints.get("openWorldHint") is True:
            return True
        said = {*self.words, *_split(self.meta.description[:_LEAD])}
        return any(_is_address(each) for each in self.top) or bool(_ONLINE & said)

    @property
    def top(self) -> tuple[_Argument, ...]:
        """The arguments themselves."""
        return tuple(each for each in self.arguments if "/" not in each.path)

    @property
    def _lead(self) -> tuple[str, ...]:
        """The word that the description begins with."""
        return _split(self.meta.description[:_LEAD])[:1]

    @property
    def _also(self) -> frozenset[str]:
        """The further words of the name that are verbs for sure."""
        first = self.words.index(self.verb) if self.verb in self.words else -1
        rest = self.words[first + 1 :]
        joined = {
            word
            for before, word in pairwise(rest)
            if before in _JOINING and word in _CHANGING | _EACH_TIME
        }
        plain = _PLAIN | (_EACH_TIME - {"run", "runs", "shell", "terminal", "order", "transfer"})
        return frozenset(joined | {word for word in rest if word in plain})


def propose(meta: ToolMeta) -> Proposal:
    """Return what is proposed for a tool as its provider lists it.

    Args:
        meta: The tool, without a declaration of the user's; its annotations count where its risk
            is known, which says that the user vouches for its server.
    """
    reading = _read(meta)
    reasons: list[str] = []
    effects = dict(_effects(reading, reasons))
    risk = _risk(reading, reasons)
    sinks = tuple(_sinks(reading, effects, reasons))
    says_so = reading.reads and reading.hints.get("readOnlyHint") is not False
    side_effects = meta.side_effects if reading.trusted else not says_so
    if effects and risk != "safe" and _only_reads(effects):
        # A right to read what it is given must not be a right to what it does with it.
        effects[""] = f"tool.call:{meta.name}"
    level = _level(reading, effects, risk)
    if risk == "safe" and (why := beyond_own_state(effects, level, side_effects=side_effects)):
        risk = "guarded"
        reasons.append(f"guarded: it {why}")
    records = tuple(_records(reading, reasons)) if risk == "safe" else ()
    declaration = Declaration(
        definition_of(meta), risk, level, side_effects, effects, sinks, records
    )
    return Proposal(meta.name, declaration, tuple(reasons))


def _only_reads(effects: Mapping[str, str | tuple[str, ...]]) -> bool:
    return all(need.startswith("fs.read") for each in effects.values() for need in _each(each))


def _risk(reading: _Reading, reasons: list[str]) -> Risk:
    """Return the stricter of what the words and what the annotations say."""
    if reading.is_grave:
        reasons.append("unsafe: it deletes, cancels, pays or executes, so each call is shown")
        return "unsafe"
    why = next(_guarding(reading), None)
    if why is not None:
        reasons.append(f"guarded: {why}")
        return "guarded"
    trusted = "so say the annotations of its server, which you trust"
    reasons.append(f"safe: {trusted if reading.trusted else f'`{reading.verb}` reads'}")
    return "safe"


def _guarding(reading: _Reading) -> Iterator[str]:
    """Yield what speaks against a tool's being safe."""
    hints, words, fields = reading.hints, {*reading.words}, reading.arguments
    if reading.trusted and reading.meta.risk != "safe":
        yield "so say the annotations of its server, which you trust"
    if hints.get("readOnlyHint") is False or hints.get("destructiveHint") is True:
        yield "its annotations say that it changes something"
    if not reading.reads and not reading.trusted:
        yield f"`{reading.verb}` changes something" if reading.verb else "no word says it reads"
    if reading.is_online:
        yield "it reaches addresses outside of its server"
    if not _is_closed(reading.meta.input_schema):
        yield "its schema does not list all its arguments"
    if any("/" in each.path and (_names_file(each) or _is_address(each)) for each in fields):
        yield "it names files or addresses inside of an argument"
    if _SECRETS & words:
        yield "what it returns may be secret"
    if any(_is_statement(reading, each) for each in reading.top):
        yield "it takes a statement, which may do more than read"


def _level(reading: _Reading, effects: Mapping[str, Any], risk: Risk) -> Level:
    if risk == "safe":
        return level_of(effects)
    local = any(need.startswith("fs.") for each in effects.values() for need in _each(each))
    if reading.is_online or not local or risk == "unsafe":
        return "L2" if reading.is_online or not reading.reads else level_of(effects)
    return level_of(effects)


def _effects(reading: _Reading, reasons: list[str]) -> Iterator[tuple[str, str | tuple[str, ...]]]:
    """Yield the arguments that name a file or an address, and the capability for each."""
    for each in reading.top:
        if each.is_text and each.words[-1] in _URL:
            reasons.append(f"net.http of `{each.path}`: it is an address")
            yield each.path, "net.http"
    places = [each for each in reading.top if _is_path(reading, each)]
    remote = [each for each in reading.top if each not in places and each.has(_REMOTE)]
    if remote or reading.hints.get("openWorldHint") is True:
        return  # a path inside of what they name
    folders = [each for each in places if _is_folder(each)]
    roots = folders if len(places) > len(folders) and not _is_creating(reading) else []
    for each in roots or places:
        needs = _needs(reading, each)
        deep = "repo" in each.words or (_is_folder(each) and not _is_creating(reading))
        deep = deep or bool({*reading.words} & {"search", "find", "grep", "glob", "tree"})
        found = tuple(f"{need}:{{}}/**" if deep else need for need in needs)
        reasons.append(f"{', '.join(needs)} of `{each.path}`: it is a path")
        yield each.path, found[0] if len(found) == 1 else found


def _needs(reading: _Reading, argument: _Argument) -> tuple[Need, ...]:
    """Return what a tool does with a path that it is given."""
    words = {*reading.words}
    if reading.verb in {"delete", "remove", "erase", "wipe"}:
        return ("fs.delete",)
    if words & {"move", "rename"}:
        return ("fs.write",) if argument.has(_TO) else ("fs.read", "fs.delete")
    if words & {"copy", "import", "upload", "send"} and not argument.has(_TO):
        return ("fs.read",)
    if reading.reads:
        return ("fs.read",)
    if words & {"edit", "patch", "update", "replace", "append", "insert", "commit"}:
        return ("fs.read", "fs.write")
    return ("fs.write",)


def _sinks(
    reading: _Reading, effects: Mapping[str, str | tuple[str, ...]], reasons: list[str]
) -> Iterator[str]:
    """Yield the arguments that say where something goes, or what is changed."""
    for each in reading.arguments:
        kind = _sink(reading, each, effects)
        if kind:
            reasons.append(f"sink `{each.path}`: it names {_NOUN[kind.partition('.')[0]]}")
            yield f"{each.path}:{kind}"


def _sink(
    reading: _Reading, each: _Argument, effects: Mapping[str, str | tuple[str, ...]]
) -> str | None:
    if each.is_text and _is_address(each):
        return "url"
    if reading.reads or each.type not in {"", "string", "array", "integer", "number"}:
        return None
    if each.path in effects:
        changes = any(need[:7] in {"fs.writ", "fs.dele"} for need in _each(effects[each.path]))
        return "path" if changes else None
    return _named(reading, each) if each.is_text or each.has(_CHOSEN) else None


def _named(reading: _Reading, each: _Argument) -> str | None:
    """Return the kind of an argument that names a person, a place or a thing."""
    is_id = each.words[-1] in {"id", "ids", "uuid", "number"}
    if each.has(_VALUE):
        return "value!"
    if each.has(_ACCOUNT) or (each.has(_RECIPIENT) and _MONEY & {*reading.words}):
        return "account!"
    if each.has(_PLACE):
        return "recipient.channel"
    if each.has(_RECIPIENT) and not is_id and not (each.words == ("to",) and "/" in each.path):
        return "recipient"
    makes = reading.verb in {"create", "add", "write", "append", "make", "insert"}
    chosen = each.words[-1] in _CHOSEN - {"title"} and not makes
    if is_id or chosen or each.words[-1] in _HOLDER:
        return f"selector{_type(reading, each)}"
    return None


def _type(reading: _Reading, each: _Argument) -> str:
    """Return the type of a selector, so that the id of an event is none of a file."""
    noun = [word for word in each.words if word not in _CHOSEN]
    if not noun:
        known = _READING | _CHANGING | _EACH_TIME
        noun = [word for word in reading.words if word not in known]
    return f".{_single(noun[-1])}" if noun else ""


def _records(reading: _Reading, reasons: list[str]) -> Iterator[str]:
    """Yield the ids in the output, where it is the server's own: no names, nobody's words."""
    if not reading.reads or reading.is_online or reading.meta.output_schema is None:
        return
    noun = reading.words[-1] if reading.words else ""
    for path in _ids(reading.meta.output_schema, (), 0):
        words = [each for each in _split(path.rpartition("/")[2]) if each not in _CHOSEN]
        type_ = _single(words[-1] if words else noun)
        reasons.append(f"record `{path}`: an id that a reading tool returns")
        yield f"{path}:selector.{type_}"


def _ids(schema: Any, path: tuple[str, ...], depth: int) -> Iterator[str]:
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return
    given = cast("Mapping[str, Any]", schema)
    if isinstance(items := given.get("items"), Mapping):
        yield from _ids(items, (*path, "*"), depth + 1)
    fields: Any = given.get("properties")
    if isinstance(fields, Mapping):
        for name, inner in cast("Mapping[str, Any]", fields).items():
            words = _split(name)
            is_scalar = _type_of(inner) in {"string", "integer", "number"}
            if is_scalar and words and words[-1] in {"id", "uuid"} and "/" not in name:
                yield "/".join((*path, name))
            else:
                yield from _ids(inner, (*path, name), depth + 1)


def _read(meta: ToolMeta) -> _Reading:
    segments = str(meta.annotations.get("mcp_name") or meta.name.rpartition(".")[2])
    return _Reading(
        meta,
        _split(segments),
        tuple(_arguments(meta.input_schema)),
        meta.annotations,
        meta.risk != "unknown",
    )


def _arguments(schema: Any, path: str = "", depth: int = 0) -> Iterator[_Argument]:
    """Yield the arguments, and the fields of objects in them, down to some depth."""
    for name, inner in _properties(schema):
        yield _argument(f"{path}{name}", name, inner)
        below, at = inner, f"{path}{name}"
        while _type_of(below) == "array" and at.count("/*") <= _MAX_DEPTH:
            below, at = cast("Mapping[str, Any]", below).get("items"), f"{at}/*"
        if depth < _MAX_DEPTH:
            yield from _arguments(below, f"{at}/", depth + 1)


def _properties(schema: Any) -> Iterator[tuple[str, Any]]:
    given: Any = (
        cast("Mapping[str, Any]", schema).get("properties") if isinstance(schema, Mapping) else None
    )
    if isinstance(given, Mapping):
        for name, inner in cast("Mapping[str, Any]", given).items():
            if _is_nameable(name):
                yield name, inner


def _is_nameable(name: str) -> bool:
    """Whether a sink or an effect can name an argument, in a text that a person reads."""
    return bool(name) and name.isprintable() and not {"/", "*", "[", ":"} & {*name}


def _is_closed(schema: Mapping[str, Any]) -> bool:
    """Whether a schema lists its arguments, so that no others can matter."""
    given: Any = schema.get("properties", {})
    if not isinstance(given, Mapping) or not _OPEN.isdisjoint(schema):
        return False
    if schema.get("additionalProperties", False) is not False:
        return False
    return all(map(_is_nameable, cast("Mapping[str, Any]", given)))


def _argument(path: str, name: str, schema: Any) -> _Argument:
    given: Any = cast("Mapping[str, Any]", schema) if isinstance(schema, Mapping) else {}
    words = _split(name) or (name,)
    chosen = "choice" if "enum" in given or "const" in given else _type_of(schema)
    return _Argument(path, words, chosen, str(given.get("description") or ""))


def _type_of(schema: Any, depth: int = 0) -> str:
    """Return the type of a value, of several the one that holds most; empty where none is said."""
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return ""
    given = cast("Mapping[str, Any]", schema)
    types: Any = given.get("type")
    if types is None:
        several: Any = given.get("anyOf") or given.get("oneOf")
        types = [_type_of(each, depth + 1) for each in several] if _is_list(several) else []
    found = types if _is_list(types) else [types]
    order = ("object", "array", "string", "number", "integer", "boolean", "null")
    return next((each for each in order if each in found), "")


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _is_address(each: _Argument) -> bool:
    if each.words[-1] in _URL | {"uri", "uris", "link", "links"}:
        return True
    return each.type == "string" and _ADDRESS.match(each.text) is not None


def _is_path(reading: _Reading, each: _Argument) -> bool:
    if not each.is_text or "/" in each.path or _is_address(each):
        return False
    if _names_file(each):
        return True
    return each.words[-1] in (_FROM | _TO) - {"to", "from"} and bool(
        (_FILE | _FOLDER) & {*reading.words}
    )


def _names_file(each: _Argument) -> bool:
    return each.words[-1] in _FILE | _FOLDER or _PATH.search(each.text) is not None


def _is_folder(each: _Argument) -> bool:
    return each.has(_FOLDER) or "repo" in each.words or "workspace" in each.words


def _is_creating(reading: _Reading) -> bool:
    return reading.verb in {"create", "make", "list"}


def _asks_to_write(each: _Argument) -> bool:
    """Whether an argument makes a reading tool leave something: `output_path`, `delete_after`."""
    if each.type == "boolean":
        return not {*each.words}.isdisjoint(_PLAIN | _EACH_TIME)
    places = {"output", "out", *_TO}
    return each.is_text and each.has(frozenset(places)) and each.words[-1] in _FILE | _FOLDER


def _is_statement(reading: _Reading, each: _Argument) -> bool:
    if each.words[-1] in {"sql", "statement"}:
        return True
    text = f"{each.text} {reading.meta.description}"
    return each.words[-1] == "query" and _SQL.search(text) is not None


def _each(effect: str | tuple[str, ...]) -> tuple[str, ...]:
    return (effect,) if isinstance(effect, str) else effect


def _split(name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORD.findall(name))


def _single(noun: str) -> str:
    for end, other in (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("s", "")):
        if noun.endswith(end) and not noun.endswith("ss") and len(noun) > len(end) + 1:
            return noun[: -len(end)] + other
    return noun


_NOUN: Mapping[str, str] = {
    "url": "an address",
    "path": "a file",
    "value!": "a secret or right",
    "account!": "where money goes",
    "recipient": "who gets something",
    "selector": "what is changed",
}
