"""A server over stdio, of the standard library alone, that misbehaves as its argument says.

The argument is a JSON object; without it the server is a good one of the era 2025-11-25.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

PLAN = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
NUMBER = {"type": "integer"}
OBJECT = {"type": "object", "properties": {"a": NUMBER, "b": NUMBER}}
TOOLS = [
    {"name": "add", "description": "Add two numbers.", "inputSchema": OBJECT},
    {"name": "echo", "description": "Say it again.", "inputSchema": {"type": "object"}},
]


def say(**message):
    write(json.dumps({"jsonrpc": "2.0", **message}))


def write(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def note(what):
    if "notes" in PLAN:
        with Path(PLAN["notes"]).open("a", encoding="utf-8") as file:
            file.write(json.dumps(what) + "\n")


def tools():
    """Return the tools of now, of a file where the plan names one: a test changes it."""
    path = Path(PLAN.get("tools_file", ""))
    return json.loads(path.read_text("utf-8")) if path.is_file() else PLAN.get("tools", TOOLS)


def listed(params):
    if PLAN.get("list") == "error":
        return {"error": {"code": -32603, "message": "no list today"}}
    start, size = int(params.get("cursor") or 0), PLAN.get("page", 1_000)
    result = {"tools": tools()[start : start + size]}
    if PLAN.get("list") == "repeats":
        result["nextCursor"] = "1"
    elif start + size < len(tools()):
        result["nextCursor"] = str(start + size)
    return {"result": result}


def die(message=None):
    if message is not None and "mark" in PLAN:
        if Path(PLAN["mark"]).exists():
            return
        Path(PLAN["mark"]).touch()
    sys.stderr.write("the disk is on fire\n")
    sys.stderr.flush()
    os._exit(3)


def make_noise(message):
    write("Listening on port 3000\n\n{not json")
    say(method="notifications/message", params={"level": "info", "data": "hello"})


def flood(message):
    for _ in range(2_000):
        write("x" * 1_000)


def nest(message):
    deep = "[" * 9_000 + "1" + "]" * 9_000
    write('{"jsonrpc":"2.0","id":' + str(message["id"]) + ',"result":' + deep + "}")


def tell_progress(message):
    token = message["params"]["_meta"]["progressToken"]
    for done in (1, 2):
        told = {"progressToken": token, "progress": done, "total": 2, "message": f"part {done}"}
        say(method="notifications/progress", params=told)


def change(message):
    for _ in range(PLAN.get("times", 1)):
        say(method="notifications/tools/list_changed")


def ask(message):
    form = {"message": "Your password?", "requestedSchema": {"type": "object", "properties": {}}}
    asked = (
        ("elicitation/create", form),
        ("sampling/createMessage", {"messages": [], "maxTokens": 5}),
        ("roots/list", {}),
    )
    for method, params in asked:
        say(id=method, method=method, params=params)
        note(json.loads(sys.stdin.readline()))


BEFORE = {
    "die": die,
    "noise": make_noise,
    "flood": flood,
    "nested": nest,
    "progress": tell_progress,
    "changed": change,
    "asks": ask,
}
UNANSWERED = {"hang", "nested"}


def called(message):
    """Answer a call, or not, as the plan says."""
    number, params = message["id"], message["params"]
    name, arguments = params["name"], params.get("arguments") or {}
    how = PLAN.get("calls", {}).get(name, PLAN.get("call"))
    BEFORE.get(how, lambda _: None)(message)
    if how in UNANSWERED:
        return
    if how == "unknown":
        say(id=number, error={"code": -32602, "message": f"Unknown tool: {name}"})
    elif name == "add":
        total = arguments.get("a", 0) + arguments.get("b", 0)
        content = [{"type": "text", "text": str(total)}]
        say(id=number, result={"content": content, "structuredContent": {"sum": total}})
    else:
        text = "y" * PLAN["size"] if "size" in PLAN else json.dumps(arguments)
        result = PLAN.get("result", {"content": [{"type": "text", "text": text}]})
        say(id=number + (1_000 if how == "wrong id" else 0), result=result)


def greet(message):
    result = {
        "protocolVersion": message["params"]["protocolVersion"],
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": "rough", "version": "1.0"},
        "instructions": PLAN.get("instructions", ""),
    }
    say(id=message["id"], result=result)


def answer(message):
    method, number = message.get("method"), message.get("id")
    note(message)
    if PLAN.get("mute") == method:
        PLAN["mute"] = "*"
    if PLAN.get("mute") == "*" or number is None or method is None:
        return
    if method == "initialize":
        greet(message)
    elif method == "tools/list":
        params = message.get("params") or {}
        is_text = int(params.get("cursor") or 0) >= PLAN.get("text_ids_from", 1_000)
        say(id=str(number) if is_text else number, **listed(params))
    elif method == "tools/call":
        called(message)
    elif not (method == "server/discover" and PLAN.get("ignores discover")):
        say(id=number, error={"code": -32601, "message": "Method not found"})


def main():
    note({"started": os.getpid()})
    note({"run": os.environ.get("CLAWHIVE_RUN"), "names": sorted(os.environ)})
    if PLAN.get("start") == "die" and not Path(PLAN.get("mark", "")).is_file():
        sys.stderr.write("no such database: \x1b[31mx.db\n")
        sys.exit(4)
    if PLAN.get("stubborn"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if PLAN.get("family"):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        note({"child": child.pid})
    if PLAN.get("stderr"):
        threading.Thread(target=sys.stderr.write, args=("z" * PLAN["stderr"],), daemon=True).start()
    for line in sys.stdin:
        answer(json.loads(line))
    while PLAN.get("stubborn"):
        time.sleep(600)


main()
