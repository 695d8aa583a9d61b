"""The forms of secrets: keys of common vendors, tokens, private keys, passwords in addresses.

The table is written for two engines, so it uses neither lookaround nor back references: Rust's,
which looks first and takes microseconds, and Python's, which replaces where something was found. A
capturing group is what stays of a match; everything else of it is replaced. Shapes follow the
vendors' pages and the rules of gitleaks (MIT); lengths are lower bounds with room, since a preview
may have cut a token.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache

_WORD = "[A-Za-z0-9_-]"
_ALNUM = "[A-Za-z0-9]"
_SPACE = r"[ \t\r\n]"
_QUOTE = r"[\\\"']{0,4}"
# Where a token of little shape may begin: not within a word, but behind an escape as in "\nTOKEN"
# or behind a terminal's colour.
_START = r"(\b|\\[nrtbf]|\[[0-9;]{0,12}m)"
_WITH_DIGIT = "[A-Za-z._~+/-]{0,64}[0-9][A-Za-z0-9._~+/-]{12,}={0,2}"

_BEGIN = "-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_KEY_BODY = "(?:[^-]|-[^-]|--[^-]|---[^-]|----[^-])*"
_END = "-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_CUT_KEY_BODY = r"(?:[A-Za-z0-9+/=\s:,]|\\[nrt])*"

_BY_PREFIX = (
    f"gh[pousr]_{_ALNUM}{{16,}}",
    f"github_pat_{_WORD}{{16,}}",
    f"gl(?:pat|ptt|dt|rt|cbt|soat|ft|imt|agent)-{_WORD}{{16,}}",
    "gl(?:sa|c)_[A-Za-z0-9_+/]{24,}={0,2}",
    f"xox[abeoprs]-{_WORD}{{10,}}",
    f"xapp-[0-9]-{_WORD}{{16,}}",
    "hooks\\.slack\\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/]{16,}",
    f"(?:sk|rk)_(?:live|test|prod)_{_ALNUM}{{10,}}",
    "whsec_[A-Za-z0-9+/]{16,}={0,2}",
    f"GOCSPX-{_WORD}{{16,}}",
    f"ya29\\.{_WORD}{{16,}}",
    f"npm_{_ALNUM}{{30,}}",
    f"pypi-AgE{_WORD}{{16,}}",
    "rubygems_[a-f0-9]{24,}",
    "shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{16,}",
    "do[opr]_v1_[a-f0-9]{24,}",
    f"dckr_(?:pat|oat)_{_WORD}{{16,}}",
    f"lin_(?:api|oauth)_{_ALNUM}{{16,}}",
    f"figd_{_WORD}{{16,}}",
    f"NRAK-{_ALNUM}{{16,}}",
    f"sntry[su]_{_WORD}{{16,}}[A-Za-z0-9+/=]{{0,400}}",
    f"AGE-SECRET-KEY-1{_ALNUM}{{16,}}",
    f"tskey-[a-z]{{3,10}}-{_WORD}{{12,}}",
    "PMAK-[a-f0-9]{16,}-[a-f0-9]{10,}",
    f"pscale_(?:tkn|oauth|pw)_{_WORD}{{16,}}",
    "sbp_[a-f0-9]{24,}",
    f"HRKU-{_WORD}{{24,}}",
    f"ATATT3{_WORD}{{24,}}",
    f"dp\\.(?:pt|st|ct)\\.{_ALNUM}{{24,}}",
    f"atlasv1\\.{_WORD}{{24,}}",
    f"eyJ{_WORD}{{8,}}\\.eyJ{_WORD}{{5,}}(?:\\.{_WORD}{{0,4000}})?",
    f"{_BEGIN}(?:{_KEY_BODY}{_END}|{_CUT_KEY_BODY})",
)
_BY_PREFIX_AT_START = (
    f"sk-(?:ant|proj|svcacct|admin|None|lf|or-v1)-{_WORD}{{12,}}",
    f"sk-{_ALNUM}{{32,}}",
    "(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\\b",
    f"AIza{_WORD}{{30,}}",
    f"hf_{_ALNUM}{{24,}}",
    f"ntn_{_ALNUM}{{24,}}",
    f"gsk_{_ALNUM}{{24,}}",
    f"xai-{_ALNUM}{{24,}}",
    f"pplx-{_ALNUM}{{24,}}",
    f"r8_{_ALNUM}{{24,}}",
    f"hv[sbr]\\.{_WORD}{{20,}}",
    "dapi[a-f0-9]{32}",
    "SK[a-f0-9]{32}\\b",
    "key-[a-f0-9]{32}\\b",
    f"SG\\.{_WORD}{{16,32}}\\.{_WORD}{{10,}}",
    f":AA{_WORD}{{33}}\\b",
)


def _behind(name: str, value: str) -> str:
    """Return the form of a value that stands behind a name and `:` or `=`, quoted or not."""
    return f"((?:{name}){_QUOTE}{_SPACE}{{0,4}}[:=]{_SPACE}{{0,4}}{_QUOTE}){value}"


_HEADERS = "[Aa]pi-[Kk]ey|API-K(?:EY|ey)|[Aa]uth-[Tt]oken|[Pp]rivate-[Tt]oken|PRIVATE-TOKEN"
_PARAMETERS = "access_token|api_key|apikey|client_secret|X-Amz-Signature|[?&]sig"
_BASIC = (
    f"(?:[Bb]asic|[Tt]oken){_SPACE}{{1,4}}"
    "(?:[A-Za-z0-9+/]{8,}={1,2}|[A-Za-z+/]{0,64}[0-9][A-Za-z0-9+/._~-]{6,}={0,2})"
)
# What a shell or a template fills in ($PASS, {pass}, <pass>, ***) is no password.
_FILLED_IN = r"""[^ \t\r\n/@"'<>\\{}$*`:]{3,128}"""

_BEHIND_A_NAME = (
    f"((?:[Bb]earer|BEARER){_SPACE}{{1,4}}){_WITH_DIGIT}",
    _behind("[Aa]uthorization", _BASIC),
    _behind(_HEADERS, _WITH_DIGIT),
    f"((?:{_PARAMETERS})=)[A-Za-z%._~+/-]{{0,64}}[0-9][A-Za-z0-9%._~+/-]{{12,}}",
    _behind("aws_secret_access_key|AWS_SECRET_ACCESS_KEY", "[A-Za-z0-9/+]{30,}"),
    "(AccountKey=)[A-Za-z0-9+/]{40,}={0,2}",
    f"(://[A-Za-z0-9._~%+-]{{0,64}}:){_FILLED_IN}(@)",
)

PATTERN = "|".join((*_BY_PREFIX, f"{_START}(?:{'|'.join(_BY_PREFIX_AT_START)})", *_BEHIND_A_NAME))
"""The pattern of all that is replaced."""

# Rust's engine skips ahead to a few literals: one pattern with all of them would be five times
# slower than three. Word boundaries would keep it from its fast path; without them it only says
# "perhaps" a little more often.
_LOOKS = tuple(
    "|".join(forms).replace("\\b", "")
    for forms in (_BY_PREFIX, _BY_PREFIX_AT_START, _BEHIND_A_NAME)
)

_SAMPLES = frozenset(
    (
        *("password", "passwd", "pass", "pwd", "pw", "passphrase", "mypassword", "yourpassword"),
        *("your_password", "your-password", "secret", "token", "changeme", "example", "xxx"),
    )
)
"""The words that instructions write where a password belongs; compared in lower case."""

_DULL = 2
"""A token of so few different characters is none: `sk_live_xxxxxxxxxxxx`."""


def absence(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Return what tells whether a text holds no match of any pattern, at a gigabyte a second.

    Its library is imported here: when something is first written.
    """
    from jsonschema_rs import RegexOptions, validator_for

    schema = {"not": {"anyOf": [{"pattern": each} for each in patterns]}}
    options = RegexOptions(size_limit=64 * 1024 * 1024)
    return validator_for(schema, pattern_options=options).is_valid


@cache
def holding_no_token() -> Callable[[str], bool]:
    """Return what tells whether a text, JSON or not, surely holds nothing like a secret."""
    return absence(_LOOKS)


@cache
def _compiled() -> re.Pattern[str]:
    return re.compile(PATTERN, re.ASCII)


def may_hold_token(data: bytes) -> bool:
    """Return whether a text in UTF-8, JSON or not, holds something that looks like a secret."""
    return not holding_no_token()(data.decode("utf-8", "replace"))


def without_tokens(text: str, mark: str) -> str:
    """Return a text with a mark in place of each thing that looks like a secret."""

    def replaced(found: re.Match[str]) -> str:
        kept = [part for part in found.groups() if part is not None]
        before, after = (*kept, "", "")[:2]
        inner = found[0][len(before) : len(found[0]) - len(after)]
        return found[0] if _is_sample(inner) else f"{before}{mark}{after}"

    return _compiled().sub(replaced, text)


def _is_sample(value: str) -> bool:
    """Return whether pages of instructions write this where a secret belongs."""
    longest = max(re.split("[_-]", value), key=len)
    return value.lower() in _SAMPLES or value.endswith("...") or len(set(longest)) <= _DULL
