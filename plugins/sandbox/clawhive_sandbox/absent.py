"""The things that programs use and a guest lacks, found in their source before any of it runs.

What is missed here is found by the program itself, as an error; what is named here lets another
engine run the program, where there is one.
"""

from __future__ import annotations

import ast
import re

from clawhive_core import Unsupported

_MODULES = frozenset(
    """
    _ctypes ctypes curses dbm.gnu fcntl grp lzma mmap multiprocessing pwd readline resource
    ssl syslog termios tkinter turtle
    """.split()  # noqa: SIM905 - a list of one name a line would be five times as long
)
"""Modules of the standard library that this build of CPython has not, or cannot use."""
_PACKAGES = frozenset(
    """
    PIL aiohttp altair anyio attr attrs bokeh boto3 bs4 cryptography cv2 django docx fastapi
    flask geopandas httpx httpx2 jinja2 lxml matplotlib networkx nltk numpy openai openpyxl
    orjson pandas plotly polars psutil psycopg pyarrow pydantic pypdf pytest requests rich
    scipy seaborn shapely skimage sklearn spacy sqlalchemy statsmodels sympy tabulate
    tensorflow torch tqdm transformers yaml
    """.split()  # noqa: SIM905 - a list of one name a line would be five times as long
)
"""Packages that programs use most, none of which can be installed in a guest."""
_NAMES = frozenset({"ProcessPoolExecutor", "ThreadPoolExecutor"})
_ATTRIBUTES = frozenset({("threading", "Thread"), ("os", "fork"), ("os", "system")})

_OF_NODE = re.compile(
    r"(?<![\w$.])(?:"
    r"(?P<call>require|fetch|structuredClone)(?=\s*\()"
    r"|(?P<made>(?<=new )(?:URL|URLSearchParams|TextEncoder|TextDecoder|AbortController|Worker|"
    r"Event|EventTarget|Blob|FormData|Headers|Request|Response|ReadableStream|MessageChannel))\b"
    r"|(?P<used>Buffer|Intl|crypto|performance|module|__dirname|__filename|WebAssembly)(?=\s*\.)"
    r")"
)
_MODULE = re.compile(r"^[ \t]*(?P<word>import|export)\b(?!\s*[(.])", re.MULTILINE)
_DYNAMIC = re.compile(r"(?<![\w$.])(?P<word>import)\s*\(")
_QUIET = re.compile(
    r"""//[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`""", re.DOTALL
)
"""Comments, strings and templates."""


def absent_in_python(code: str) -> Unsupported | None:
    """Return the first module or function of a program that CPython on WASI lacks."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # the program's own affair, which it is told as it runs
    found = [problem for node in ast.walk(tree) if (problem := _lacking(node)) is not None]
    return min(found, key=lambda one: (one.line, one.column), default=None)


def _lacking(node: ast.AST) -> Unsupported | None:
    if isinstance(node, ast.Import):
        names = [each.name for each in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = [node.module or ""] if node.level == 0 else []
        names += [each.name for each in node.names if each.name in _NAMES]
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        pair = (node.value.id, node.attr)
        names = [".".join(pair)] if pair in _ATTRIBUTES or node.attr in _NAMES else []
    else:
        return None
    for name in names:
        if name.partition(".")[0] in _PACKAGES or name in _MODULES or name.split(".")[-1] in _NAMES:
            return Unsupported(node.lineno, node.col_offset + 1, f"`{name}`")
        if isinstance(node, ast.Attribute):
            return Unsupported(node.lineno, node.col_offset + 1, f"`{name}`")
    return None


def absent_in_quickjs(code: str) -> Unsupported | None:
    """Return the first interface of node or the Web in a program that QuickJS lacks.

    A name that the program itself declares is its own.
    """
    plain = _QUIET.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), code)
    matches = [*_OF_NODE.finditer(plain), *_MODULE.finditer(plain), *_DYNAMIC.finditer(plain)]
    for found in sorted(matches, key=lambda each: each.start()):
        name = next(each for each in found.groups() if each)
        if re.search(rf"\b(?:function|class|const|let|var)\s+{name}\b", plain):
            continue
        line = plain.count("\n", 0, found.start()) + 1
        column = found.start() - plain.rfind("\n", 0, found.start())
        return Unsupported(line, column, f"`{name}`")
    return None
