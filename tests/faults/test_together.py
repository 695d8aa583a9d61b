"""Several processes on one project at once."""

import pytest

pytestmark = pytest.mark.slow


def test_runs_of_several_processes_share_one_log(processes):
    started = [processes.snippet(f"print({number})") for number in range(4)]
    done = [processes.end(process) for process in started]
    assert [each.code for each in done] == [0] * 4, [each.err for each in done]
    assert [each.out for each in done] == [f"{number}\n" for number in range(4)]
    runs = processes("runs", "list", "--json").json["runs"]
    assert [run["status"] for run in runs] == ["succeeded"] * 4
    verified = processes("audit", "verify", "--json").json
    assert (verified["ok"], verified["window_rows"]) == (True, 0)
    assert verified["rows"] == 40
    assert processes("runs", "replay", "last").code == 0


def test_a_run_of_another_living_process_is_left_running(processes):
    loop = "import sys\nprint('looping', file=sys.stderr)\nwhile True:\n    pass\n"
    process = processes.snippet(loop)
    while b"looping" not in process.stderr.readline():
        assert process.poll() is None
    assert processes.end(processes.snippet("print(1)")).code == 0
    statuses = [run["status"] for run in processes("runs", "list", "--json").json["runs"]]
    assert statuses == ["succeeded", "running"]
    shown = processes("runs", "show", statuses and "last", "--json").json
    assert shown["status"] == "succeeded"
