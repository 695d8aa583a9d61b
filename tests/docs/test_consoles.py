"""Every console block of the pages is typed, and shows what the page shows."""

import asyncio
import os
import shutil
import sqlite3
import subprocess

import pytest

from clawhive_core.plugins.template import new_plugin
from tests.docs.conftest import ROOT, block, blocks

LOG_PAGE = "docs/reference/log.md"
TUTORIAL = "docs/tutorial/first-plugin.md"
SKILL_TUTORIAL = "docs/tutorial/first-skill.md"
TYPED = {
    "README.md",
    "docs/skill-contracts.md",  # by test_contracts_page
    TUTORIAL,
    SKILL_TUTORIAL,
    *(f"docs/how-to/{page.name}" for page in ROOT.glob("docs/how-to/*.md")),
}


def consoles(page):
    return [each for each in blocks(page) if each.language == "console"]


@pytest.mark.promise("P-001")
def test_the_readme_shows_what_its_commands_print(terminal):
    examples = terminal.project / "examples"
    examples.mkdir()
    for file in ROOT.joinpath("examples").iterdir():
        if file.is_file():
            examples.joinpath(file.name).write_bytes(file.read_bytes())
    for each in consoles("README.md"):
        terminal.run(each)


def test_the_readmes_first_screen_is_short():
    assert len(ROOT.joinpath("README.md").read_text("utf-8").splitlines()) <= 60


def test_the_readmes_two_commands_make_an_environment_each():
    one, two = [each.text for each in blocks("README.md") if each.language == "bash"]
    for command in (one, two):
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install -q ")
        assert command.count("\n") == 1
    assert "clawhive run --task run_code_snippet" in one
    assert "requirements-dev.txt && .venv/bin/pytest" in two


@pytest.mark.promise("P-032")
def test_the_tutorial_shows_what_its_commands_print(terminal):
    make, use, sync = consoles(TUTORIAL)
    terminal.run(make)
    module = terminal.project / "hello" / "clawhive_hello" / "__init__.py"
    greet = block(TUTORIAL, "python", 0).partition("@tool")
    assert greet[1] + greet[2] in module.read_text("utf-8")
    terminal.run(use)
    added = block(TUTORIAL, "python", 1)
    module.write_text(f"{module.read_text('utf-8')}\n\n{added}", "utf-8")
    terminal.run(sync)


def test_the_skill_tutorial_shows_what_its_commands_print(terminal):
    for each in blocks(SKILL_TUTORIAL):
        if each.language == "console":
            terminal.run(each)
        elif each.language == "python":
            exec(each.text, {})
        else:
            made = terminal.project.joinpath("skills", "words", "clawhive.yaml").read_text("utf-8")
            assert each.text in made


def test_a_skill_offers_a_tool_as_the_page_says(terminal):
    page = "docs/how-to/skill-handlers.md"
    make, refused = consoles(page)
    terminal.run(make)
    made = terminal.project / "skills" / "words" / "handlers.py"
    assert block(page, "python", 0) in made.read_text("utf-8")
    terminal.run(refused)


def test_the_tutorials_test_passes(terminal, tmp_path):
    new_plugin("hello", terminal.project)
    terminal.type("pip install -e ./hello")
    names = {}
    exec(block(TUTORIAL, "python", 2), names)
    names["test_it_greets_through_the_executor"](tmp_path)


def test_a_right_is_given_as_the_page_says(terminal):
    page = "docs/how-to/give-a-right.md"
    file = terminal.project / "clawhive.toml"
    skill = terminal.project / "skills" / "notes" / "clawhive.yaml"
    skill.parent.mkdir(parents=True)
    for each in blocks(page):
        if each.language == "toml":
            file.write_text(each.text, "utf-8")
        elif each.language == "yaml":
            skill.write_text(each.text, "utf-8")
        elif each.language == "console":
            terminal.run(each)


def test_a_call_is_approved_as_the_page_says(terminal):
    page = "docs/how-to/approvals.md"
    for each in consoles(page):
        terminal.run(each)
    names = {}
    exec(block(page, "python"), names)
    asyncio.run(names["change"]())
    assert terminal.project.joinpath("page.md").read_text("utf-8") == "all new\n"


def test_agents_work_for_an_agent_as_the_page_says(terminal):
    page = "docs/how-to/sub-agents.md"
    project = terminal.project
    project.joinpath("clawhive.toml").write_text(block(page, "toml"), "utf-8")
    for number, name in enumerate(("parent", "reader", "judge")):
        project.joinpath(f"{name}.json").write_text(block(page, "json", number), "utf-8")
    for each in consoles(page):
        terminal.run(each)
    names = {}
    exec(block(page, "python"), names)
    assert asyncio.run(names["ask"]()) == "Cats purr."


def test_a_planner_is_chosen_and_written_as_the_page_says(terminal):
    page, project = "docs/how-to/planners.md", terminal.project
    for number, name in enumerate(("plan", "program")):
        project.joinpath(f"{name}.json").write_text(block(page, "json", number), "utf-8")
    shutil.copytree(ROOT / "examples" / "planner-plugin", project / "examples" / "planner-plugin")
    module = project / "examples" / "planner-plugin" / "clawhive_read_first" / "__init__.py"
    assert block(page, "python") in module.read_text("utf-8")
    for each in consoles(page):
        terminal.run(each)
    steps = terminal.json("runs", "show", "last", "--json")[1]["steps"]
    assert [step["label"] for step in steps] == ["file-1", "file-2", "answer"]


def test_a_program_in_a_sandbox_calls_tools_as_the_page_says(terminal):
    page, project = "docs/how-to/programs-that-call-tools.md", terminal.project
    project.joinpath("program.json").write_text(block(page, "json"), "utf-8")
    shutil.copytree(ROOT / "examples" / "host-proxy", project / "examples" / "host-proxy")
    for each in consoles(page):
        terminal.run(each)


def test_the_question_on_a_terminal_is_the_one_that_the_page_shows():
    from clawhive_core.cli.asking import _CHOICES

    assert block("docs/how-to/approvals.md", "text").strip() == _CHOICES.strip()


@pytest.mark.promise("P-024")
def test_the_log_is_verified_by_hand_as_the_page_says(terminal):
    page = "docs/how-to/verify-the-log.md"
    assert terminal.clawhive("run", "Look", "--model", "scripted:demo")[0] == 0
    program = next(text for text in _programs() if "sys.argv[1]" in text)
    terminal.project.joinpath("check_log.py").write_text(program, "utf-8")
    for each in blocks(page):
        if each.language == "python":
            exec(each.text, {})
        else:
            terminal.run(each)
    code, output = terminal.clawhive("audit", "verify")
    assert code == 1
    assert terminal.shell("python3 check_log.py .clawhive/hive.db")[0] == 1, output


def _programs():
    return [each.text for each in blocks(LOG_PAGE) if each.language == "python"]


def test_a_query_of_the_logs_page_can_be_made(terminal):
    assert terminal.clawhive("run", "Look", "--model", "scripted:demo")[0] == 0
    (each,) = consoles(LOG_PAGE)
    query = each.text.partition('"')[2].rpartition('"')[0]
    log = sqlite3.connect(".clawhive/hive.db")
    rows = log.execute(query).fetchall()
    log.close()
    assert [row[:2] for row in rows] == [("file.list", "refused")]


@pytest.mark.promise("P-067")
def test_a_report_is_made_and_checked_as_the_page_says(terminal):
    page = "docs/how-to/research-report.md"
    first, gone, check = consoles(page)
    terminal.run(first)
    (made,) = terminal.project.glob("clawhive-out/*/evidence.json")
    terminal.project.joinpath("check.py").write_text(block(page, "python"), "utf-8")
    terminal.run(check)
    terminal.run(gone)
    assert made.is_file()


def test_a_policy_check_is_written_as_the_page_says(terminal):
    page = "docs/how-to/policy-check.md"
    code, trial = block(page, "python", 0), block(page, "python", 1)
    new_plugin("freeze", terminal.project)
    module = terminal.project / "freeze" / "clawhive_freeze" / "__init__.py"
    module.write_text(code, "utf-8")
    for each in consoles(page):
        terminal.run(each)
    names = {}
    exec(trial, names)
    names["test_the_check_keeps_the_rules_of_checks"]()


@pytest.mark.promise("P-126")
def test_a_policy_is_held_as_the_page_says(terminal):
    page = "docs/how-to/policy-in-ci.md"
    for name, language in (("policy.yaml", "yaml"), ("clawhive.toml", "toml")):
        terminal.project.joinpath(name).write_text(block(page, language), "utf-8")
    for each in consoles(page):
        terminal.run(each)


@pytest.mark.promise("P-175")
def test_skills_are_checked_in_ci_as_the_page_says(terminal):
    page = "docs/how-to/skills-in-ci.md"
    folder = terminal.project / "skills" / "words"
    folder.mkdir(parents=True)
    folder.joinpath("clawhive.yaml").write_text(block(page, "yaml"), "utf-8")
    for each in consoles(page):
        terminal.run(each)


@pytest.mark.promise("P-207")
def test_a_contract_is_changed_as_the_page_says(terminal, monkeypatch):
    page, project = "docs/how-to/change-a-contract.md", terminal.project
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.delenv("GIT_DIR", raising=False)
    file = project / "skills" / "sky" / "clawhive.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(block(page, "yaml", 0), "utf-8")
    who = ("-c", "user.name=ana", "-c", "user.email=a@b.c")
    for words in (("init", "-q"), ("add", "-A"), (*who, "commit", "-q", "-m", "one")):
        subprocess.run(["git", *words], cwd=project, check=True)
    subprocess.run(["git", "update-ref", "refs/remotes/origin/main", "HEAD"], check=True)
    file.write_text(block(page, "yaml", 1), "utf-8")
    for each in consoles(page):
        terminal.run(each)


def test_skills_are_pinned_as_the_page_says(terminal):
    page = "docs/how-to/pin-skills.md"
    skills = terminal.project / "skills"
    for name, number in (("stars", 0), ("diary", 1)):
        skills.joinpath(name).mkdir(parents=True)
        skills.joinpath(name, "clawhive.yaml").write_text(block(page, "yaml", number), "utf-8")
    skills.joinpath("stars", "handlers.py").write_text("def sign(input, ctx): ...\n", "utf-8")
    before, *after = consoles(page)
    terminal.run(before)
    skills.joinpath("stars", "clawhive.yaml").write_text(block(page, "yaml", 2), "utf-8")
    for each in after:
        terminal.run(each)


def test_a_tool_that_calls_tools_is_written_as_the_page_says(terminal):
    page = "docs/how-to/tools-that-call-tools.md"
    new_plugin("press", terminal.project)
    module = terminal.project / "press" / "clawhive_press" / "__init__.py"
    module.write_text(block(page, "python"), "utf-8")
    terminal.project.joinpath("press.json").write_text(block(page, "json"), "utf-8")
    for each in consoles(page):
        terminal.run(each)
    assert terminal.project.joinpath("two.md").read_text("utf-8") == "# two"


@pytest.mark.promise("P-003")
def test_everything_runs_without_network_as_the_page_says(terminal, monkeypatch):
    import socket

    def refuse(self, address):
        raise AssertionError(f"a connection to {address}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    config = terminal.project.parent / ".config" / "clawhive"
    config.mkdir(parents=True)
    page = "docs/how-to/without-network.md"
    config.joinpath("config.toml").write_text(block(page, "toml"), "utf-8")
    terminal.project.joinpath("look.json").write_text(block(page, "json"), "utf-8")
    for each in consoles(page):
        terminal.run(each)
    assert terminal.clawhive("tools", "call", "web.search", "--args", '{"query": "x"}')[0] == 0
    snippet = ("--input", "language=python", "--input", "code=print(1)")
    assert terminal.clawhive("run", "--task", "run_code_snippet", *snippet)[0] == 0


def test_every_page_with_a_console_is_typed():
    pages = [ROOT / "README.md", *ROOT.joinpath("docs").rglob("*.md")]
    shown = {str(page.relative_to(ROOT)) for page in pages if consoles(page.relative_to(ROOT))}
    assert shown - TYPED - {LOG_PAGE} == set()
