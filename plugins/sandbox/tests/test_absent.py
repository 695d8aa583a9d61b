import pytest

from clawhive_sandbox.absent import absent_in_python, absent_in_quickjs


@pytest.mark.parametrize(
    ("code", "line", "what"),
    [
        ("x = 1\nimport numpy as np", 2, "`numpy`"),
        ("def f():\n    from pandas.io import json", 2, "`pandas.io`"),
        ("import ssl", 1, "`ssl`"),
        ("import threading\nthreading.Thread(target=print).start()", 2, "`threading.Thread`"),
        ("from concurrent.futures import ThreadPoolExecutor", 1, "`ThreadPoolExecutor`"),
    ],
)
def test_what_cpython_on_wasi_lacks_is_named_with_its_line(code, line, what):
    found = absent_in_python(code)
    assert (found.line, found.what) == (line, what)


@pytest.mark.parametrize(
    "code",
    ["import json, helper, threading", "from . import numpy", "'import ssl'", "x = (", "\0"],
)
def test_python_that_may_run_is_left_to_run(code):
    assert absent_in_python(code) is None


@pytest.mark.parametrize(
    ("code", "line", "what"),
    [
        ("const a = 1\nconst fs = require('fs')", 2, "`require`"),
        ("import fs from 'node:fs'", 1, "`import`"),
        ("await import('x')", 1, "`import`"),
        ("fetch('http://x')", 1, "`fetch`"),
        ("console.log(new URL('http://x').host)", 1, "`URL`"),
        ("Buffer.from('x')", 1, "`Buffer`"),
        ("new Intl.NumberFormat()", 1, "`Intl`"),
    ],
)
def test_what_quickjs_lacks_is_named_with_its_line(code, line, what):
    found = absent_in_quickjs(code)
    assert (found.line, found.what) == (line, what)


@pytest.mark.parametrize(
    "code",
    [
        "// require('x')",
        "'fetch(1)' + `import x`",
        "class URL {}\nnew URL()",
        "function fetch() {}\nfetch()",
        "o.fetch(); ({ crypto: 1 }).crypto.x; important(); exporter.x",
        "const o = { import: 1 }",
    ],
)
def test_javascript_that_may_run_is_left_to_run(code):
    assert absent_in_quickjs(code) is None
