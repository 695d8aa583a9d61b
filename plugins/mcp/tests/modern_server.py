"""A server made with the SDK, as most are, over stdio: it speaks both eras."""

from mcp.server import MCPServer

server = MCPServer("modern")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("it is broken")


if __name__ == "__main__":
    server.run("stdio")
