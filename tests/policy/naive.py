"""The decision once more, as slow and plain as possible: it shares no code with the real one.

Capabilities come as canonical text, which `parse` made; here they are taken apart by hand.
"""

import json
import re
from dataclasses import replace
from functools import cache

SENSITIVE = re.compile(r"(\.env.*|.*\.pem|id_.*|\.netrc)")
OWN = [".clawhive", "clawhive.toml", "clawhive.lock"]
GIT = ["config", "config.worktree", "hooks", "credentials"]
CLOSED = [".git", ".husky", ".envrc", ".vscode"]
ASKS = [".npmrc", "pyproject.toml"]
"""Of these two, those that the calls at random name."""


def split(text):
    """Return verb, dimensions (lists of segments) and constraints of a canonical text."""
    bare, _, constraints = text.partition("?")
    verb, resource = bare.split(":", 1)
    if verb == "net.http":
        if resource == "**":
            parts = [["*", "*"], ["**"], ["**"]]
        else:
            scheme, rest = resource.split("://", 1)
            host, path = rest.split("/", 1)
            host, _, port = host.partition(":")
            ports = {"https": "443", "http": "80", "*": "*"}
            labels = [host] if re.fullmatch("[0-9.]+", host) else host.split(".")[::-1]
            parts = [[scheme, port or ports[scheme]], labels, path.split("/") if path else []]
    elif verb.startswith("tool"):
        parts = [resource.split(".")]
    elif verb.startswith("fs"):
        parts = [resource[1:].split("/") if resource != "/" else []]
    else:
        parts = [resource.split("/")]
    return verb, parts, [each for each in constraints.split("&") if each]


def covers_part(pattern, wanted):
    if not pattern:
        return not wanted
    if pattern == ["**"]:
        return True
    if not wanted or wanted[0] == "**":
        return False
    return pattern[0] in ("*", wanted[0]) and covers_part(pattern[1:], wanted[1:])


def meets_part(one, other):
    if one == ["**"] or other == ["**"]:
        return True
    if not one or not other:
        return not one and not other
    same = one[0] == other[0] or "*" in (one[0], other[0])
    return same and meets_part(one[1:], other[1:])


def fits(pattern, wanted, part):
    (verb, mine, _), (other, theirs, _) = split(pattern), split(wanted)
    return verb == other and all(part(a, b) for a, b in zip(mine, theirs, strict=True))


def satisfied(pattern, call):
    for constraint in split(pattern)[2]:
        name, operator, bound = re.fullmatch(r"(\w+)(<=|>=| in )(.*)", constraint).groups()
        value = call.get(name)
        values = value if isinstance(value, list) else [value]
        if not values or not all(one(operator, bound, each) for each in values):
            return False
    return True


def one(operator, bound, value):
    is_number = type(value) in (int, float)
    if operator == "<=":
        return is_number and value <= float(bound)
    if operator == ">=":
        return is_number and value >= float(bound)
    for each in bound.strip("{}").split(","):
        if is_number and re.fullmatch("[0-9.]+", each) and float(each) == value:
            return True
        if isinstance(value, str) and (each.strip("'") == value) and not re.match("[0-9]", each):
            return True
    return False


def protected(wanted):
    verb, parts, _ = split(wanted)
    if not verb.startswith("fs."):
        return None
    names = [each.lower() for each in parts[0]]
    after_git = names[names.index(".git") + 1 :] if ".git" in names else []
    if any(each in OWN for each in names) or any(each in GIT for each in after_git):
        return "own"
    changes = verb != "fs.read"
    if changes and (any(each in CLOSED for each in names) or names[-1:] == ["head"]):
        return "closed"
    if any(SENSITIVE.fullmatch(each) for each in names):
        return "sensitive"
    return "asks" if changes and any(each in ASKS for each in names) else None


def authority(wanted, call, grants, denies, asks):
    """Return the verdict on one capability, and whether a person allowed it."""
    part = covers_part if wanted.startswith(("fs.read:", "fs.write:")) else meets_part
    for deny in denies:
        if fits(deny, wanted, part) and satisfied(deny, call):
            return "deny", False
    why = protected(wanted)
    covering = [
        each
        for each in grants
        if fits(each.capability, wanted, covers_part) and satisfied(each.capability, call)
    ]
    people = {"user", "config", "approval"}
    exact = [
        each
        for each in covering
        if each.issuer in people and each.capability.partition("?")[0] == wanted
    ]
    if why in ("own", "closed") or (why == "sensitive" and not exact):
        return "deny", False
    if why == "sensitive" or (why == "asks" and exact):
        covering = exact
    if why == "asks" and covering and not exact:
        return "ask", False
    allowing = [each for each in covering if each.mode == "allow"]
    if any(each.issuer in people for each in allowing):
        return "allow", True
    if not covering:
        return "deny", False
    asked = any(fits(each, wanted, meets_part) and satisfied(each, call) for each in asks)
    return ("allow" if allowing and not asked else "ask"), False


def risk(tool):
    """Return the risk under which a tool outside every engine is admitted."""
    if tool.risk != "safe":
        return tool.risk
    effects = [tool.effects[each] for each in tool.effects]
    texts = [text for each in effects for text in ([each] if isinstance(each, str) else each)]
    reading = "agent.spawn env.read fs.read mem.read model.call sandbox.read secret.use tool."
    level, writes_own, requests = 0, False, False
    for text in texts:
        if re.match(r"fs\.(write|delete):\$\{run\}(/(?!.*\.\.).*)?$", text) or re.match(
            r"mem\.write:own(/(?!.*\.\.).*)?$|sandbox\.write(:|$)", text
        ):
            level, writes_own = max(level, 1), True
        elif re.match(r"sandbox\.exec(:|$)", text):
            level, writes_own = 2, True
        elif re.match(r"net\.http(:|$)", text):
            level, requests = 2, True
        elif not text.startswith(tuple(reading.split())):
            return "guarded"
    if tool.side_effects and (requests or not writes_own):
        return "guarded"
    return "guarded" if int(tool.capability_level[1]) > level else "safe"


CONTRACT = ["input_schema", "output_schema", "capability_level", "risk", "requires_confirm"]
CONTRACT += ["effects", "sinks", "idempotent"]
TEXT = ["description", "annotations", "examples"]


def suspended(given, tool):
    """Whether a grant was given for this tool, which has changed since."""
    if given.tool is None:
        return False
    before = loaded(given.tool)
    if before["name"] != tool.name:
        return False
    fields = CONTRACT + (TEXT if tool.text_counts else [])
    shown = {key: value for key, value in before["contract"].items() if key != "name"}
    return set(shown) != set(fields) or any(shown[each] != plain(tool, each) for each in fields)


@cache
def loaded(text):
    return json.loads(text)


def plain(tool, field):
    value = getattr(tool, field)
    return list(value) if isinstance(value, tuple) else value


def decide(request, grants, denies, asks, checks):
    """Return the verdict on a call of a tool as its author declares it."""
    tool = replace(request.tool, risk=risk(request.tool))
    grants = [each for each in grants if not suspended(each, tool)]
    found = [authority(each, request.input, grants, denies, asks) for each in request.capabilities]
    verdicts = [verdict for verdict, _ in found] + [each.verdict for each in checks]
    careful = tool.risk != "safe" or tool.requires_confirm
    if tool.risk == "unsafe" or (careful and not all(by for _, by in found)):
        verdicts.append("ask")
    if not found or "deny" in verdicts:
        return "deny"
    return "ask" if "ask" in verdicts else "allow"
