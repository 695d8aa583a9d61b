"""Write `project.tar.gz`: a small project with a log of each kind, as one commit left it.

Run with the code of that commit, with nothing else installed but what it needs:

    PYTHONPATH=OLD:OLD/plugins/builtin python tests/data/record_project.py OUT.tar.gz

What that code said of its log is stored beside it, in `said.json`; the last run was killed in a
call, after all of that was said.
"""

import gzip
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
import time
from contextlib import closing
from pathlib import Path

TOP = Path("/tmp/clawhive-recorded")
"""A run goes on only where it began, so the tests put what was recorded there again."""

SKILL = """\
id: letter
exports:
  api_version: "1.0"
  tools:
    - name: send
      description: Send a letter.
      risk: guarded
      output_schema: {}
      input_schema: {type: object, properties: {to: {type: string}}}
    - name: buy
      description: Buy a stamp.
      risk: safe
      output_schema: {}
      input_schema: {type: object}
  access: {requires_subscription: true, rate_limit: {buy: 5/day}}
tasks:
  post:
    input_schema: {type: object, properties: {to: {type: string}}, required: [to]}
    steps:
      - {name: stamp, tool: letter.buy, input: {}}
      - {name: send, tool: letter.send, input: {to: "${input.to}"}}
    output: "${steps.send.output.sent}"
"""
HANDLERS = """\
async def send(input, ctx):
    await ctx.call("save", {"path": "skills.letter.last", "data": input["to"]})
    return {"sent": "to " + input["to"]}


async def buy(input, ctx):
    return {"stamp": 1}
"""
PROGRAM = """\
from datetime import timedelta
from clawhive_core.cli import main
from clawhive_core.policy import approvals, grants
approvals.EXPIRY = grants._LONGEST = timedelta(weeks=5000)  # or nothing could be tested tomorrow
main()
"""
LONG = ("--expires", "5000w")
HANGING = [
    {
        "tool_calls": [
            {
                "name": "sandbox.exec",
                "input": {"command": ["python", "-c", "while True:\n    pass"]},
            }
        ]
    },
    "done",
]
SAID = {
    "runs": ("runs", "list"),
    "approvals": ("approvals", "list", "--all"),
    "grants": ("grants", "list", "--all"),
    "subscriptions": ("subscriptions", "list"),
}


class Recording:
    def __init__(self):
        self.root, self.home = TOP / "project", TOP / "home"
        shutil.rmtree(TOP, ignore_errors=True)
        self.root.joinpath("skills", "letter").mkdir(parents=True)
        self.home.mkdir()
        self.root.joinpath("skills", "letter", "clawhive.yaml").write_text(SKILL)
        self.root.joinpath("skills", "letter", "handlers.py").write_text(HANDLERS)
        self.root.joinpath("hanging.json").write_text(json.dumps(HANGING))

    def start(self, *words):
        return subprocess.Popen(
            [sys.executable, "-P", "-c", PROGRAM, *words],
            cwd=self.root,
            env={**os.environ, "HOME": str(self.home), "XDG_CONFIG_HOME": f"{self.home}/.config"},
            stdout=subprocess.PIPE,
            text=True,
        )

    def clawhive(self, *words, code=0):
        process = self.start(*words)
        out = process.communicate()[0]
        assert process.returncode == code, (words, process.returncode, out)
        return out

    def work(self):
        self.clawhive("run", "look around", "--model", "scripted:demo")
        self.clawhive("run", "Hi", "--model", "scripted:demo", "--session", "mine")
        self.clawhive("run", "And?", "--model", "scripted:demo", "--session", "mine")
        self.clawhive("subscriptions", "add", "letter")
        self.clawhive("subscriptions", "add", "letter", "--user", "bob")
        self.clawhive("subscriptions", "remove", "letter", "--user", "bob")
        self.clawhive("grants", "issue", "fs.write:${workspace}/a/**", "--session", "mine")
        self.clawhive("grants", "revoke", "last")
        uses = ("--session", "notes", "--uses", "3")
        self.clawhive("grants", "issue", "fs.write:${workspace}/docs/**", *uses)
        note = self.root / "note.json"
        call = {"name": "file.write", "input": {"path": "docs/a.md", "text": "kept"}}
        note.write_text(json.dumps([{"tool_calls": [call]}, "noted"]))
        self.clawhive("run", "note it", "--model", f"scripted:{note}", "--session", "notes")
        self.clawhive("run", "--task", "post", "--input", "to=ann", code=3)
        self.clawhive("approvals", "approve", "last", "--scope", "always", *LONG)
        self.clawhive("runs", "resume", "last")
        self.clawhive("grants", "issue", "fs.write:${workspace}/b/**", "--always", *LONG)
        call = {"name": "file.write", "input": {"path": "other.md", "text": "refused"}}
        note.write_text(json.dumps([{"tool_calls": [call]}, "noted"]))
        self.clawhive("run", "note it elsewhere", "--model", f"scripted:{note}", code=3)
        self.clawhive("approvals", "deny", "last", "--reason", "not there")
        self.clawhive("runs", "resume", "last")
        call = {"name": "artifacts.write", "input": {"files": {"x.md": "text"}}}
        note.write_text(json.dumps([{"tool_calls": [call]}, "filed"]))
        self.clawhive("run", "file it", "--model", f"scripted:{note}")
        self.clawhive("run", "--task", "post", "--input", "to=eve")
        self.clawhive("grants", "revoke", self.sending())
        self.clawhive("run", "--task", "post", "--input", "to=bob", code=3)

    def sending(self):
        """Return the id of the right to send that was given for good."""
        rows = json.loads(self.clawhive("grants", "list", "--json"))["grants"]
        (found,) = [row for row in rows if "letter.send" in row["capability"]]
        return found["grant_id"]

    def killed(self):
        process = self.start("run", "think", "--model", "scripted:hanging.json")
        while not self.count("kind = 'invocation.start' AND tool = 'sandbox.exec'"):
            assert process.poll() is None, "it ended"
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def count(self, condition):
        with closing(sqlite3.connect(self.root / ".clawhive" / "hive.db")) as database:
            return database.execute(f"SELECT count(*) FROM events WHERE {condition}").fetchone()[0]

    def say(self):
        self.clawhive("audit", "verify")
        said = {
            name: json.loads(self.clawhive(*words, "--json"))[name] for name, words in SAID.items()
        }
        TOP.joinpath("said.json").write_text(json.dumps(said, indent=1))

    def pack(self, target):
        with closing(sqlite3.connect(self.root / ".clawhive" / "hive.db")) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with (
            gzip.GzipFile(target, "wb", mtime=0) as file,
            tarfile.open(fileobj=file, mode="w") as archive,
        ):
            for path in sorted(TOP.rglob("*")):
                if path.suffix not in (".db-wal", ".db-shm"):
                    archive.add(path, path.relative_to(TOP).as_posix(), recursive=False)


if __name__ == "__main__":
    recording = Recording()
    recording.work()
    recording.say()
    recording.killed()
    recording.pack(sys.argv[1])
    shutil.rmtree(TOP)
