"""A plugin that is another one after a person gave a right to its tool."""

import pytest

from clawhive_core.plugins.sync import sync
from tests.cli.test_json import check, one_object

CODE = """
from clawhive_core import tool

@tool(risk="guarded"{more})
def greet(name: str{parameter}) -> str:
    "{text}"
    return "{said}"
"""
TASK = """
id: user
tasks:
  hello:
    steps: [{name: greet, tool: pulled.greet, input: {name: Ana}}]
"""
CALL = ("tools", "call", "pulled.greet", "--args", '{"name": "Ana"}', "--json")
FIRST = {"more": "", "parameter": "", "text": "Greet someone.", "said": "Hello"}
LATER = {
    '"cc": {': {"parameter": ", cc: str = ''"},
    '"capability_level": "L2"': {"more": ', level="L2"'},
    '"name": "fs.write"': {"more": ', effects={"name": "fs.write"}'},
}


@pytest.fixture
def pulled(site, clawhive):
    """Return what replaces the plugin's release, as an upgrade does."""
    folder = site.plugin("pulled", CODE.format(**FIRST))

    def release(*, synced=True, **change):
        site.forget()
        folder.joinpath("__init__.py").write_text(CODE.format(**{**FIRST, **change}), "utf-8")
        if synced:
            sync("pulled")
        site.forget()

    return release


def error(done):
    assert done.code == 1, done.out
    return one_object(done)["error"]


@pytest.mark.promise("P-115")
@pytest.mark.parametrize("shown", LATER)
def test_a_plugin_whose_contract_changed_after_a_grant_is_suspended_with_the_difference(
    clawhive, pulled, shown
):
    assert error(clawhive(*CALL)) == "approval_required"
    clawhive("grants", "issue", "tool.call:pulled.greet", "--always")
    assert clawhive(*CALL).code == 0
    pulled(**LATER[shown])
    assert error(clawhive(*CALL)) == "tool_suspended"
    (held,) = check(clawhive, one_object(clawhive("grants", "list", "--json")), "grants")["grants"]
    added = [line[1:].strip() for line in held["suspended"].splitlines() if line[0] == "+"]
    assert shown in added or f"{shown}," in added
    pulled()
    assert clawhive(*CALL).code == 0


def test_a_plugin_whose_code_is_not_its_manifest_any_more_is_not_called(clawhive, pulled):
    clawhive("grants", "issue", "tool.call:pulled.greet", "--always")
    assert clawhive(*CALL).code == 0
    pulled(synced=False, **LATER['"capability_level": "L2"'])
    assert error(clawhive(*CALL)) == "tool_suspended"
    clawhive("grants", "resume", "last")
    done = clawhive(*CALL)
    assert (done.code, done.json["structured"]["reason_code"]) == (1, "manifest_differs")
    assert "Hello" not in done.out


@pytest.mark.promise("P-115")
@pytest.mark.parametrize("change", [{"said": "Bye"}, {"text": "Greet, and more."}])
def test_a_plugin_of_which_the_code_alone_changed_is_suspended_until_a_person_looked_at_it(
    clawhive, pulled, change
):
    clawhive("grants", "issue", "tool.call:pulled.greet", "--always")
    assert "Hello" in clawhive(*CALL).out
    pulled(synced=False, **change)
    assert error(clawhive(*CALL)) == "tool_suspended"
    (held,) = one_object(clawhive("grants", "list", "--json"))["grants"]
    changed = [line for line in held["suspended"].splitlines() if "__init__.py" in line]
    assert [line[0] for line in changed] == ["-", "+"]
    clawhive("grants", "resume", "last")
    assert clawhive(*CALL).code == 0
    assert "suspended" not in one_object(clawhive("grants", "list", "--json"))["grants"][0]


@pytest.mark.promise("P-115")
@pytest.mark.parametrize(
    ("change", "shown"),
    [(LATER['"cc": {'], '+      "cc": {'), ({"said": "Bye"}, '+    "__init__.py": ')],
)
def test_a_plugin_that_changed_while_its_call_waited_for_a_person_is_asked_about_anew(
    clawhive, pulled, change, shown
):
    folder = clawhive.root / "skills" / "user"
    folder.mkdir(parents=True)
    folder.joinpath("clawhive.yaml").write_text(TASK, "utf-8")
    assert clawhive("run", "--task", "user.hello").code == 3
    pulled(**change)
    assert shown in clawhive("approvals", "show", "last").out
    assert clawhive("approvals", "approve", "last").code == 0
    resumed = clawhive("runs", "resume", "last")
    assert "error[tool_suspended]" in resumed.err
    assert (
        clawhive("approvals", "list", "--all", "--json").json["approvals"][0]["state"] == "drifted"
    )
