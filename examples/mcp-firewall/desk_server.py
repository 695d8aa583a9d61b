"""An MCP server that sends mail, into `outbox.jsonl`, with files of the folder where it runs."""

import json
from pathlib import Path

from mcp.server import MCPServer

server = MCPServer("desk")


@server.tool()
def send_mail(to: list[str], subject: str, body: str, attachments: list[str] | None = None) -> str:
    """Send a mail, with the files at these paths attached."""
    files = {path: Path(path).read_text("utf-8") for path in attachments or []}
    mail = {"to": to, "subject": subject, "body": body, "attachments": files}
    with Path("outbox.jsonl").open("a", encoding="utf-8") as outbox:
        outbox.write(json.dumps(mail) + "\n")
    return f"sent to {', '.join(to)}"


if __name__ == "__main__":
    server.run("stdio")
