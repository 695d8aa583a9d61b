"""Every promise is kept by a test, and every mark names a promise."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
_LINE = re.compile(r"^- \*\*(P-\d{3})\*\* (.+) \(([A-Z]\d+(?:, [A-Z]\d+)*)\)$", re.MULTILINE)
PAGE = ROOT.joinpath("tests", "promises.md").read_text("utf-8")
PROMISES = {name: (text, ids.split(", ")) for name, text, ids in _LINE.findall(PAGE)}
REQUIREMENTS = ROOT.joinpath("docs", "reference", "requirements.md").read_text("utf-8")
_TESTS = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def marks():
    """Return each promise's id and the tests that carry it."""
    found = {}
    for path in (*ROOT.glob("tests/**/*.py"), *ROOT.glob("plugins/*/tests/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"), str(path))):
            if isinstance(node, _TESTS):
                for name in map(promise_of, node.decorator_list):
                    if name is not None:
                        found.setdefault(name, []).append(f"{path.relative_to(ROOT)}::{node.name}")
    return found


def promise_of(decorator):
    if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.promise":
        return ast.literal_eval(decorator.args[0])
    return None


def test_every_promise_is_kept_by_a_test():
    assert [f"{name}: {text}" for name, (text, _) in PROMISES.items() if name not in marks()] == []


def test_every_mark_names_a_promise():
    assert {name: tests for name, tests in marks().items() if name not in PROMISES} == {}


def test_only_tests_carry_promises():
    for tests in marks().values():
        for each in tests:
            assert each.partition("::")[2].startswith("test_")
            assert Path(each.partition("::")[0]).name.startswith("test_")


def test_promises_are_numbered_without_gaps():
    assert list(PROMISES) == [f"P-{number:03}" for number in range(1, len(PROMISES) + 1)]
    assert len(re.findall(r"\*\*P-", PAGE)) == len(PROMISES)


def test_a_promise_is_one_sentence():
    for name, (text, _) in PROMISES.items():
        assert text.endswith("."), name
        assert ". " not in text, name


def test_every_promise_cites_requirements_that_at_least_partly_stand():
    states = dict(re.findall(r"^\| ([A-Z]\d+) \| .+ \| \*\*(\w+)\*\*", REQUIREMENTS, re.MULTILINE))
    wrong = [
        f"{name}: {each}"
        for name, (_, ids) in PROMISES.items()
        for each in ids
        if states.get(each) not in {"stands", "partly"}
    ]
    assert wrong == []
