"""A page tells an agent to mail a secret away: what happens without ClawHive, and through it.

Runs offline: a scripted client makes the calls of a model that obeys the page (`script.json`),
and the two MCP servers are the programs beside this one. Everything happens in a temporary folder.

    pip install ".[mcp]" && python examples/mcp-firewall/demo.py
"""

import asyncio
import json
import os
import pty
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from clawhive_core import UserFile

HERE = Path(__file__).resolve().parent
CLAWHIVE = str(Path(sys.executable).with_name("clawhive"))
SERVERS = {"web": HERE / "web_server.py", "desk": HERE / "desk_server.py"}
SCRIPT = json.loads((HERE / "script.json").read_text("utf-8"))
SECRET = "API_KEY=not-a-real-key-7f3a"
ALLOWED = {"allow": ["net.http:https://shop.example/**"]}


def headline(text):
    print(f"\n== {text}\n", flush=True)


def mails(project):
    """Print and return what was sent, with what the receivers know now."""
    outbox = project / "outbox.jsonl"
    sent = [json.loads(line) for line in outbox.read_text().splitlines()] if outbox.exists() else []
    for mail in sent:
        print(f"mail to {', '.join(mail['to'])}: {mail['subject']}")
        for name, text in mail["attachments"].items():
            print(f"  attached {name}: {text.strip()}")
    return sent


def server(*words, project, env=None):
    """Return how an MCP client starts a server: what stands in its configuration."""
    from mcp import StdioServerParameters

    return StdioServerParameters(command=words[0], args=[*words[1:]], cwd=str(project), env=env)


async def without_clawhive(project):
    """Make the calls with a plain client of each server, as most agents do."""
    from mcp import Client

    for call in SCRIPT:
        program = server(sys.executable, str(SERVERS[call["server"]]), project=project)
        async with Client(program) as client:
            await client.call_tool(call["tool"], call["input"])
        print(f"{call['server']}.{call['tool']}: done")


async def through_clawhive(clawhive):
    """Make the same calls with the same client, of one server: `clawhive serve mcp`."""
    from mcp import Client

    program = server(CLAWHIVE, "serve", "mcp", project=clawhive.project, env=clawhive.env)
    async with Client(program) as client:
        names = {tool.title: tool.name for tool in (await client.list_tools()).tools}
        for call in SCRIPT:
            name = names[f"mcp.{call['server']}.{call['tool']}"]
            answer = await client.call_tool(name, call["input"])
            print(f"{name} {json.dumps(call['input'])}")
            print("".join(f"  {line}\n" for line in answer.content[0].text.splitlines()))
            if (answer.structured_content or {}).get("error") == "approval_required":
                await asyncio.to_thread(clawhive.approve_edited, call["input"])
                answer = await client.call_tool(name, call["input"])
                print("The client makes the same call again:")
                print("".join(f"  {line}\n" for line in answer.content[0].text.splitlines()))


class ClawHive:
    """The command line, in a project and with a configuration of their own."""

    def __init__(self, project, home):
        self.project = project
        own = {"XDG_CONFIG_HOME": str(home), "XDG_CACHE_HOME": str(home), "NO_COLOR": "1"}
        self.env = {**os.environ, **own, "MCP_CONNECT_TIMEOUT_MS": "60000"}
        self.env.pop("CLAWHIVE_RUN", None)
        self.file = UserFile(home / "clawhive", {})

    def __call__(self, *words, show=True):
        done = subprocess.run(
            [CLAWHIVE, *words],
            cwd=self.project,
            env=self.env,
            text=True,
            capture_output=True,
            check=False,
        )
        if show:
            self.shown(words, done.stdout + done.stderr)
        return done

    def shown(self, words, text):
        print(f"$ clawhive {shlex.join(words)}")
        for line in text.replace(f"{self.project}/", "").splitlines():
            print(f"  {line}")
        print(flush=True)

    def configure(self):
        """Add the servers, and accept what is proposed for their tools, as a person would."""
        for name, program in SERVERS.items():
            table = {"command": sys.executable, "args": [str(program)]}
            self.file.put({("mcp", "servers", name): table})
        self.file.put({("policy",): ALLOWED})
        self("mcp", "test")
        found = json.loads(self("tools", "declare", "mcp.*", "--json", show=False).stdout)
        for tool in found["tools"]:
            declared = tool["declaration"]
            if "net.http" in declared.get("effects", {}).values():
                del declared["sinks"]  # the rule above says which addresses are good
            self.file.put({("tools", "declared", tool["name"]): declared})
            print(tool["name"])
            for key, value in declared.items():
                if key != "definition":
                    print(f"  {key} = {value}")

    def approve_edited(self, given):
        """Leave the stranger out and approve, as a person does in another terminal."""
        wanted = {**given, "to": [each for each in given["to"] if each != "audit@eve.example"]}
        (self.project / "edited.json").write_text(json.dumps(wanted))
        words = ("approvals", "approve", "last", "--edit-json", "edited.json")
        process, terminal = pty.fork()
        if process == 0:
            os.chdir(self.project)
            os.execve(CLAWHIVE, [CLAWHIVE, *words], self.env)
        text = ""
        while True:
            try:
                part = os.read(terminal, 4096).decode()
            except OSError:
                break
            text += part
            if text.endswith("[y/N]: "):
                os.write(terminal, b"y\n")
        os.waitpid(process, 0)
        self.shown(words, text.replace("\r", ""))


def story(project, home):
    clawhive = ClawHive(project, home)
    headline("The same with ClawHive: what its tools may touch, as proposed and accepted")
    clawhive.configure()
    headline("The same client makes the same calls, of `clawhive serve mcp`")
    asyncio.run(through_clawhive(clawhive))
    sent = mails(project)
    headline("What would one more rule change? Nothing runs")
    rule = {"deny": ["tool.call:mcp.desk.send_mail"]}
    clawhive.file.put({("policy",): {**ALLOWED, **rule}})
    clawhive("runs", "replay", "last", "--mode", "policy")
    headline("The whole session as one page")
    clawhive("runs", "export", "last", "--out", "firewall.html")
    clawhive("audit", "verify")
    return sent


def project_in(folder):
    """Make a project with a secret in it."""
    folder.mkdir()
    (folder / ".env").write_text(SECRET + "\n")
    return folder


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        headline("Without ClawHive: a plain MCP client")
        before = project_in(folder / "before")
        asyncio.run(without_clawhive(before))
        leaked = SECRET in json.dumps(mails(before))
        after = project_in(folder / "after")
        sent = story(after, folder / "home")
        held = leaked and [mail["to"] for mail in sent] == [["ana@example.com"]]
        end = "Without ClawHive the secret went; through it one mail, to Ana"
        headline(end if held else "This is not the story: something else happened")
        if len(sys.argv) > 1:
            shutil.copy(after / "firewall.html", sys.argv[1])
        return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
