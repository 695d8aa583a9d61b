"""A server over stdio, of the standard library alone, that misbehaves as its argument says.

The argument is a JSON object; without it the server is a good one of the era 2025-11-25.
"""

import json
import os
import signal
import socket
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
    elif PLAN.get("list") == "endless":
        result = {"tools": tools()[:1], "nextCursor": str(start + 1)}
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
        say(method=f"notifications/{PLAN.get('of', 'tools')}/list_changed")


def ask(message):
    form = {"message": "Your password?", "requestedSchema": {"type": "object", "properties": {}}}
    asked = PLAN.get("asked") or (
        ("elicitation/create", form),
        ("sampling/createMessage", {"messages": [], "maxTokens": 5}),
        ("roots/list", {}),
    )
    for number, (method, params) in enumerate(asked):
        say(id=f"{method} {number}", method=method, params=params)
        note(json.loads(sys.stdin.readline()))


def raw(line):
    """Return what writes bytes before the answer, with the call's id for ID."""

    def write_raw(message):
        sys.stdout.flush()
        sys.stdout.buffer.write(line.replace(b"ID", str(message["id"]).encode()) + b"\n")
        sys.stdout.buffer.flush()

    return write_raw


def spam(message):
    token = message["params"]["_meta"]["progressToken"]
    for done in range(3_000):
        told = {"progressToken": token, "progress": done, "message": "z" * 1_000}
        say(method="notifications/progress", params=told)
        say(method="notifications/message", params={"level": "info", "data": "z" * 1_000})


def pester(message):
    for number in range(200):
        say(id=f"x{number}", method="ping" if number % 2 else "own/method", params={})


def peek(message):
    """Note nothing, and tell by the result what can be reached."""
    seen = {"file": Path(PLAN["peek"]).exists()}
    try:
        (Path(PLAN["peek"]).parent / "written").touch()
        seen["written"] = True
    except OSError:
        seen["written"] = False
    try:
        socket.create_connection(("127.0.0.1", PLAN["port"]), 5).close()
        seen["network"] = True
    except OSError:
        seen["network"] = False
    PLAN["result"] = {"content": [{"type": "text", "text": json.dumps(seen)}]}


def hang_up(message):
    os.close(1)


def run_on(message):
    for _ in range(40):
        sys.stdout.write("x" * 1_000_000)
    sys.stdout.flush()


RESULT = b'{"jsonrpc":"2.0","id":ID,"result":'
RAW = {
    "batch": b"[" + RESULT + b'{"content":[]}}]',
    "both": RESULT + b'{"content":[]},"error":{"code":1,"message":"m"}}',
    "null id": b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}',
    "early": b'{"jsonrpc":"2.0","id":ID9,"result":{"content":[]}}',
    "bytes": b"\xff\xfe{\x00",
    "twice": RESULT + b'{"content":[{"type":"text","text":"first"}]}}',
    "surrogate": RESULT + b'{"content":[{"type":"text","text":"\\ud800!"}]}}',
    "control": RESULT + b'{"content":[{"type":"text","text":"\\u001b[2J\\u0000"}]}}',
    "numbers": RESULT
    + b'{"content":[],"structuredContent":{"n":1e999,"m":'
    + b"9" * 5_000
    + b"}}}",
    "odd block": RESULT + b'{"content":[{"type":"hologram","x":1}]}}',
    "odd structure": RESULT + b'{"content":[],"structuredContent":[1]}}',
    "no result": RESULT + b"null}",
    "same keys": RESULT + b'{"content":[]},"result":{"content":[]}}',
    "cancels": b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":ID}}',
}
BEFORE = {
    **{name: raw(line) for name, line in RAW.items()},
    "spam": spam,
    "peeks": peek,
    "pester": pester,
    "hangs up": hang_up,
    "runs on": run_on,
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


def words():
    """Return what it says beside its tools, of a file where the plan names one."""
    path = Path(PLAN.get("words_file", ""))
    return json.loads(path.read_text("utf-8")) if path.is_file() else PLAN.get("words", {})


def greet(message):
    has = {"prompts": {"listChanged": True}, "resources": {}} if words() else {}
    result = {
        "protocolVersion": PLAN.get("version", message["params"]["protocolVersion"]),
        "capabilities": {"tools": {"listChanged": True}, **has},
        "serverInfo": {"name": "rough", "version": "1.0"},
        "instructions": words().get("instructions", ""),
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
    elif method == "prompts/list" and words():
        say(id=number, result={"prompts": words().get("prompts", [])})
    elif method == "resources/templates/list" and words():
        say(id=number, result={"resourceTemplates": words().get("templates", [])})
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
