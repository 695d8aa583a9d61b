import importlib
import sys
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_builtin._monty_names import MISSING_BUILTINS, MODULES
from clawhive_builtin._monty_source import EXIT, with_exits
from clawhive_builtin.monty import MontyEngine
from clawhive_core import SandboxCommand


def unsupported(code):
    return MontyEngine().unsupported(SandboxCommand(("python", "-c", code)))


@pytest.mark.parametrize(
    ("code", "line", "column", "what"),
    [
        ("def f():\n    yield 1", 2, 5, "`yield` (generators)"),
        ("class A:\n    pass\nclass B(A):\n    pass", 3, 1, "class inheritance and metaclasses"),
        ("class E(Exception): pass", 1, 1, "class inheritance and metaclasses"),
        ("try:\n    pass\nexcept* ValueError:\n    pass", 1, 1, "`except*` (exception groups)"),
        ("x = {1: 2}\ndel x[1]", 2, 1, "`del`"),
        ("async def f():\n    async for x in y: pass", 2, 5, "`async for`"),
        ("from math import *", 1, 1, "`from ... import *`"),
        ("print(1)\nimport numpy as np", 2, 1, "the module `numpy`"),
        ("import helper", 1, 1, "the module `helper`"),
        ("from . import helper", 1, 1, "relative imports"),
        ("import os.path, socket", 1, 1, "the module `socket`"),
        ("from collections import OrderedDict", 1, 1, "`collections.OrderedDict`"),
        ("import os\nprint(os.getpid())", 2, 7, "`os.getpid`"),
        ("import os as o\nif 1: o.fork()", 2, 7, "`os.fork`"),
        ("import sys\nsys.stdin.read()", 2, 1, "`sys.stdin`"),
        ("import sys\nhandler = sys.exit", 2, 11, "`sys.exit`"),
        ("import os\nos.path.sameopenfile('a', 'b')", 2, 1, "`os.path.sameopenfile`"),
        ("x = 1\nx = callable(x)", 2, 5, "`callable`"),
        ("raise KeyError(3)", 1, 7, "`KeyError` with anything but one string"),
        ("raise ValueError('a', 'b')", 1, 7, "`ValueError` with anything but one string"),
        ("é = 1; import numpy", 1, 8, "the module `numpy`"),
    ],
)
def test_the_first_thing_that_cannot_run_is_named_with_its_place(code, line, column, what):
    found = unsupported(code)
    assert found is not None
    assert (found.line, found.column, found.what) == (line, column, what)


@pytest.mark.parametrize(
    "code",
    [
        "print('hello')",
        "import sys\nif __name__ == '__main__':\n    sys.exit(0)",
        "import os\nprint(os.path.join('a', 'b'), os.environ.get('X'), os.linesep)",
        "try:\n    import numpy\nexcept ImportError:\n    numpy = None",
        "try:\n    from os import fork\nexcept (ImportError, ValueError):\n    pass",
        "import os\ntry:\n    os.getpid()\nexcept AttributeError:\n    pass",
        "def callable(x):\n    return True\ncallable(1)",
        "os = {'getpid': 1}\nprint(os)",
        "import os\ndef f(os):\n    return os.getpid",
        "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int = 0\nprint(A(1))",
        "from __future__ import annotations\nprint(1)",
        "print(input())",
        "raise ValueError(f'{1}')",
        "name = 'x'\nraise KeyError(name)",
        "x = (",
        "x = [" * 300,
        "x = " + "-" * 5000 + "1",
        "x = " + "1 + " * 5000 + "1",
        "\0",
        "\ud800",
        "",
    ],
)
def test_what_the_engine_runs_or_is_the_programs_own_error_is_not_held_back(code):
    assert unsupported(code) is None


def test_nothing_of_a_program_runs_while_it_is_checked(tmp_path, capfd):
    code = "print('ran')\nopen('made', 'w').write('x')\nclass A(B): pass"
    command = SandboxCommand(("python", "-c", code))
    assert MontyEngine().unsupported(command) is not None
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr().out == ""


def test_arguments_after_the_code_are_not_supported():
    command = SandboxCommand(("python", "-c", "print(1)", "x"))
    assert MontyEngine().unsupported(command).what == "arguments after the code"


def test_exits_are_rewritten_without_moving_anything():
    source = textwrap.dedent("""\
        import sys
        if a: sys.exit(1); é = "sys.exit"
        raise SystemExit(2)
        sys.exit
        (sys
          .exit(3))
    """)
    written = with_exits(source)
    assert written.splitlines() == [
        "import sys",
        f'if a: {EXIT}  (1); é = "sys.exit"',
        f"raise {EXIT}    (2)",
        "sys.exit",
        "(sys",
        "  .exit(3))",
    ]


@given(st.text(max_size=200))
def test_any_text_survives_rewriting_and_keeps_its_lines(source):
    written = with_exits(source)
    assert written.count("\n") == source.replace("\r\n", "\n").replace("\r", "\n").count("\n")


EXTERNAL = {"os": {"environ"}}
"""Names that this engine's host answers, not the interpreter."""


@pytest.fixture(scope="module")
def known():
    """Ask the installed engine for each module and name of this Python's standard library."""
    from pydantic_monty import Monty

    with Monty() as pool:

        def printed(code):
            lines = []
            with pool.checkout(limits={"max_suspensions": 100_000}) as session:
                session.feed_run(code, print_callback=lambda _, text: lines.append(text))
            return set("".join(lines).split())

        yield printed


def test_the_table_of_modules_is_what_the_installed_engine_imports(known):
    names = sorted({*sys.stdlib_module_names, *MODULES, "numpy", "yaml", "collections.abc"})
    code = "\n".join(
        f"try:\n    import {name}\n    print({name!r})\nexcept ImportError: pass"
        for name in names
        if name != "__future__"
    )
    assert known(code) == set(MODULES)


@pytest.mark.parametrize("module", sorted(MODULES))
def test_the_table_of_names_is_what_the_installed_engine_has(known, module):
    here = {name for name in dir(importlib.import_module(module)) if name[0] != "_"}
    names = sorted((here | MODULES[module]) - EXTERNAL.get(module, set()))
    code = f"import {module}\n" + "\n".join(
        f"try:\n    {module}.{name}\n    print({name!r})\nexcept AttributeError: pass"
        for name in names
    )
    assert known(code) == MODULES[module] - EXTERNAL.get(module, set())


def test_the_missing_builtins_are_missing_from_the_installed_engine(known):
    code = "\n".join(
        f"try:\n    {name}\n    print({name!r})\nexcept NameError: pass"
        for name in sorted(MISSING_BUILTINS)
    )
    assert known(code) == set()
