"""`clawhive grants` and `clawhive policy` as people and scripts use them."""

import json

import pytest

TASK = ("run", "--task", "run_code_snippet", "--input", "language=python", "--input")


def test_a_grant_is_issued_listed_and_revoked(clawhive):
    done = clawhive("grants", "issue", "fs.write:${workspace}/docs/**", "--always")
    assert done.code == 0
    assert done.out == f"granted: fs.write:{clawhive.root}/docs/** to agent:default, always\n"
    assert "clawhive grants revoke" in done.err
    (row,) = clawhive("grants", "list", "--json").json["grants"]
    assert (row["scope"], row["issuer"]) == ("persistent", "user")
    assert row["grant_id"][6:14] in clawhive("grants", "list").out
    assert clawhive("grants", "revoke", row["grant_id"][6:14]).code == 0
    assert clawhive("grants", "list", "--json").json["grants"] == []


def test_listing_and_a_grant_for_good_make_no_log(clawhive):
    clawhive("grants", "list")
    assert not clawhive.root.joinpath(".clawhive").exists()


def test_a_session_grant_counts_in_that_session(clawhive, bad_tools):
    args = ("tools", "call", "bad.keep", "--args", '{"path": "docs/a.md"}')
    assert clawhive(*args).code == 1
    clawhive("grants", "issue", "fs.write:${workspace}/docs/**", "--session", "mine")
    explain = ("policy", "explain", *args[2:], "--json")
    assert clawhive(*explain).json["verdict"] == "ask"
    assert clawhive(*explain, "--session", "mine").json["verdict"] == "allow"
    clawhive("grants", "revoke", "last")
    assert clawhive(*explain, "--session", "mine").json["verdict"] == "ask"


def test_a_grant_for_good_counts_in_calls_and_is_told_at_the_start_of_a_run(clawhive, bad_tools):
    clawhive("grants", "issue", "fs.write:${workspace}/docs/**", "--always")
    done = clawhive("tools", "call", "bad.keep", "--args", '{"path": "docs/a.md"}')
    assert (done.code, done.out) == (0, "kept docs/a.md\n")
    wipe = clawhive("tools", "call", "bad.wipe")
    assert wipe.code == 1
    verbose = clawhive(*TASK, "code=print(1)", "--verbose")
    assert verbose.code == 0
    told = clawhive("--verbose", "run", "look", "--model", "scripted:demo").err
    assert f"fs.write:{clawhive.root}/docs/**  (user, from " in told
    assert ", until 20" in told


def test_a_grant_for_good_expires(clawhive, bad_tools, monkeypatch):
    clawhive("grants", "issue", "fs.write:${workspace}/**", "--always", "--expires", "2h")
    file = clawhive.home / ".config" / "clawhive" / "grants.json"
    stored = json.loads(file.read_text())
    stored["grants"][0]["expires_at"] = "2020-01-01T00:00:00.000000Z"
    file.write_text(json.dumps(stored))
    assert clawhive("tools", "call", "bad.keep", "--args", '{"path": "a"}').code == 1
    assert clawhive("grants", "list", "--json").json["grants"] == []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("fs.write:/x",), "usage"),
        (("fs.write:/x", "--always", "--session", "s"), "usage"),
        (("fs.write:/x", "--session", " "), "usage"),
        (("fs.write:/x", "--always", "--expires", "soon"), "usage"),
        (("fs.write:/x", "--always", "--subject", "me"), "usage"),
        (("fs.write", "--always"), "invalid_capability"),
        (("fs.write:${run}/**", "--always"), "invalid_capability"),
        (("fs.write:/x", "--task", "none"), "unknown_id"),
        (("fs.write:/x", "--task", "last"), "unknown_id"),
    ],
)
def test_a_wrong_grant_is_refused_with_a_fix_and_nothing_is_given(clawhive, words, code):
    done = clawhive("grants", "issue", *words, "--json")
    assert (done.code, done.json["error"]) == (2, code)
    assert done.json["fix"]
    assert clawhive("grants", "list", "--json").json["grants"] == []


def test_a_task_that_has_ended_gets_no_right(clawhive):
    clawhive("run", "look", "--model", "scripted:demo")
    done = clawhive("grants", "issue", "fs.write:/x", "--task", "last", "--json")
    assert (done.code, done.json["error"]) == (2, "usage")
    assert "has ended" in done.json["message"]


def test_the_grants_of_a_run_that_ended_are_no_longer_listed(clawhive):
    clawhive("run", "look", "--model", "scripted:demo", "--grant", "fs.write:/srv/**")
    assert clawhive("grants", "list", "--all", "--json").json["grants"] == []


def test_policy_explain_prints_verdict_rules_and_the_command_that_helps(clawhive, bad_tools):
    done = clawhive("policy", "explain", "bad.keep", "--args", '{"path": "a.md"}')
    assert done.code == 0
    assert done.out.startswith("ask: bad.keep of bad\n")
    assert "the tool's risk is guarded" in done.out
    assert f"--grant fs.write:{clawhive.root}/a.md" in done.out
    assert "clawhive tools call bad.keep" in done.out


def test_policy_explain_and_show_record_no_run(clawhive):
    clawhive("policy", "explain", "file.read", "--args", '{"path": "a.md"}')
    clawhive("policy", "show")
    assert clawhive("runs", "list", "--json").json["runs"] == []


def test_policy_show_names_pattern_mode_and_issuer(clawhive):
    clawhive.root.joinpath("clawhive.toml").write_text('[policy]\ndeny = ["net.http:**"]\n')
    out = clawhive("policy", "show", "--grant", "fs.write:/srv/**").out
    lines = {" ".join(line.split()) for line in out.splitlines()}
    assert {"deny net.http:** config", "allow fs.write:/srv/** user"} <= lines
    assert "protected: fs.*:.clawhive/**" in lines


@pytest.mark.promise("P-096")
def test_a_right_with_a_constraint_covers_the_calls_that_satisfy_it(clawhive, bad_tools):
    right = "fs.write:${workspace}/docs/**?path in {docs/a,docs/b}"
    keep = ("tools", "call", "bad.keep", "--grant", right, "--args")
    assert clawhive(*keep, '{"path": "docs/a"}').code == 0
    assert clawhive(*keep, '{"path": "docs/c"}').code == 1
    assert not clawhive.root.joinpath("docs/c").exists()
    clawhive("grants", "issue", right, "--session", "mine")
    explain = ("policy", "explain", "bad.keep", "--session", "mine", "--args", '{"path": "docs/c"}')
    assert "not so: path in {docs/a,docs/b}" in clawhive(*explain).out
    shown = clawhive("policy", "show", "--session", "mine").out
    assert f"fs.write:{clawhive.root}/docs/**?path in {{docs/a,docs/b}}" in shown


def test_uses_and_an_end_can_be_written_in_the_right_itself(clawhive):
    right = "tool.call:a.b?uses<=3&until=2100-01-01T00:00:00Z"
    given = clawhive("grants", "issue", right, "--session", "mine", "--json").json["grants"][0]
    assert (given["capability"], given["uses"]) == ("tool.call:a.b", 3)
    assert given["expires_at"] == "2100-01-01T00:00:00.000000Z"


def test_a_right_that_asks_is_listed_as_one_and_asks(clawhive, bad_tools):
    right = "fs.write:${workspace}/docs/**"
    clawhive("grants", "issue", right, "--always", "--mode", "ask", "--delegate", "none")
    (row,) = clawhive("grants", "list", "--json").json["grants"]
    assert (row["mode"], row["delegate"]) == ("ask", "")
    assert "children: nothing" in clawhive("policy", "show").out
    explain = ("policy", "explain", "bad.keep", "--args", '{"path": "docs/a"}', "--json")
    assert clawhive(*explain).json["verdict"] == "ask"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--always", "--uses", "3"), "give it to a session"),
        (("--session", "s", "--uses", "0"), "is no number of uses"),
        (("--session", "s", "--delegate", "fs.read:/**"), "is more than the right itself"),
    ],
)
def test_terms_that_cannot_be_kept_are_refused_with_what_can(clawhive, words, said):
    done = clawhive("grants", "issue", "fs.read:/srv/**", *words)
    assert done.code == 2
    assert said in done.err
    assert clawhive("grants", "list", "--json").json["grants"] == []


def test_a_right_that_is_over_is_refused(clawhive):
    right = "fs.read:/srv/**?until=2020-01-01T00:00:00Z"
    done = clawhive("grants", "issue", right, "--session", "s")
    assert done.code == 2
    assert "the right ended at" in done.err


STEPS = """\
id: keeper
permissions: ["fs.read:${home}/notes/**"]
tasks:
  job:
    steps:
      - {name: look, tool: file.list}
      - {name: collect, tool: file.read, permissions: ["fs.read:${home}/notes/**"]}
"""


def test_the_rights_of_a_task_types_steps_are_shown_before_it_runs(clawhive):
    skill = clawhive.root / "skills" / "keeper" / "clawhive.yaml"
    skill.parent.mkdir(parents=True)
    skill.write_text(STEPS)
    show = ("policy", "show", "--task", "job", "--json")
    explain = ("policy", "explain", "file.read", "--args")
    note = json.dumps({"path": str(clawhive.home / "notes" / "a.md")})

    def verdict(*more):
        return clawhive(*explain, note, "--json", *more).json["verdict"]

    def of_steps():
        return [
            (each["step"], each["mode"])
            for each in clawhive(*show).json["rules"]
            if each["issuer"] == "skill" and each["step"]
        ]

    assert of_steps() == [("collect", "ask")]
    assert verdict("--task", "job", "--step", "collect") == "ask"
    assert clawhive("skills", "trust", "keeper", "--yes").code == 0
    assert of_steps() == [("collect", "allow")]
    assert verdict("--task", "job", "--step", "collect") == "allow"
    assert verdict("--task", "job", "--step", "look") == verdict("--task", "job") == "deny"
    done = clawhive(*explain, note, "--task", "job")
    assert "fix: clawhive run --task job --grant" in done.out
    assert clawhive(*explain, note, "--task", "jobb").code == 2


def test_what_a_step_that_goes_on_has_is_listed(clawhive):
    from clawhive_core.events import grants as grant_events
    from clawhive_core.model.grants import CapabilityGrant
    from clawhive_core.storage.sqlite.log import EventLog
    from clawhive_core.storage.sqlite.tables import PROJECT

    assert clawhive("run", "look", "--model", "scripted:demo").code == 0
    held = CapabilityGrant(
        "grant_1", "fs.read:/x", "agent:default", "step", "run_1a2b/collect", "skill"
    )
    log = EventLog.open(clawhive.root / ".clawhive" / "hive.db", PROJECT)
    log.append_now(grant_events.issued([held]))
    log.close()
    assert "step collect of 1a2b" in clawhive("grants", "list").out
    assert clawhive("grants", "revoke", "grant_1").code == 0
    assert "collect" not in clawhive("grants", "list").out
