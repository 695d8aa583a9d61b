"""An MCP server that fetches pages, from a folder, so that the demonstration needs no network."""

from pathlib import Path

from mcp.server import MCPServer

PAGES = Path(__file__).with_name("pages")
server = MCPServer("web")


@server.tool()
def fetch_page(url: str) -> str:
    """Fetch a web page and return its text."""
    name = url.rstrip("/").rpartition("/")[2]
    known = {page.stem: page for page in PAGES.glob("*.txt")}
    if name not in known:
        raise ValueError(f"there is no page {url}")
    return known[name].read_text("utf-8")


if __name__ == "__main__":
    server.run("stdio")
