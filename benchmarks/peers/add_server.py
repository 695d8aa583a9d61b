"""An MCP server over stdio, of the standard library alone: tools that add two numbers.

`python -S -E add_server.py [COUNT]` offers COUNT of them, `add` and `add1` to `add<COUNT - 1>`.
"""

import json
import sys

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 1
NUMBER = {"type": "integer"}
SCHEMA = {
    "type": "object",
    "properties": {"a": NUMBER, "b": NUMBER},
    "required": ["a", "b"],
    "additionalProperties": False,
}
TOOLS = [
    {"name": f"add{n or ''}", "description": "Add two whole numbers.", "inputSchema": SCHEMA}
    for n in range(COUNT)
]
GREETING = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "add", "version": "1.0"},
}


def answer(message):
    """Return the rest of the answer to a request."""
    method = message["method"]
    if method == "tools/call":
        given = message["params"]["arguments"]
        text = str(given["a"] + given["b"])
        return {"result": {"content": [{"type": "text", "text": text}]}}
    if method == "tools/list":
        return {"result": {"tools": TOOLS}}
    if method == "initialize":
        return {"result": GREETING}
    return {"error": {"code": -32601, "message": "there is no such method"}}


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer(asked)}) + "\n")
        sys.stdout.flush()
