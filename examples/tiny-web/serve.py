"""A small web on loopback: the pages of `pages/`, a search engine over them, and some bad manners.

Run `python serve.py [--port 8765] [--slow 3]`; Ctrl-C ends it. It needs nothing but Python. Search
answers in the shape of SearXNG's JSON API. What is not as it should be, on purpose:

- `/old/ferry` redirects to `/ferry-times`, and that to `/ferry.html`;
- `/slow.html` waits before it answers; `/huge.html` has eight megabytes;
- `/links.html` has 100,000 links;
- `/umlaute.html` is Windows-1252 and says that it is UTF-8;
- `/mackerel-secrets.html` holds hidden instructions for whoever reads it;
- `/gone.html` is found by the search and is not there; `/broken.html` fails;
- `/private/` is closed by `robots.txt`.
"""

from __future__ import annotations

import argparse
import html
import json
import math
import re
import threading
from collections import Counter
from contextlib import contextmanager
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

PAGES = Path(__file__).resolve().parent / "pages"
KINDS = {".html": "text/html; charset=utf-8", ".pdf": "application/pdf"}
REDIRECTS = {"/old/ferry": (301, "/ferry-times"), "/ferry-times": (302, "/ferry.html")}
ROBOTS = "User-agent: *\nDisallow: /private/\n"
HUGE = 8 * 1024 * 1024
LINKS = 100_000
RESULTS = 20
SNIPPET = 200
# What the search knows beside the pages: by other addresses, or without their being there.
ALIASES = {"/ferry.html": "/old/ferry", "/index.html": "/"}
REPORT = (
    "/saltworks-report.pdf",
    "Annual report of the saltworks",
    "Annual report of the saltworks of Kestrel Bay: tonnes of salt produced in 2019, its price.",
)
ABSENT = ("/gone.html", "Mackerel prices", "What smoked mackerel costs on the quay this week.")
GIANT = (
    "/huge.html",
    "The chronicle of the town",
    "The chronicle of Kestrel Bay, year by year: storms, herring, bells, the great fire of 1702.",
)


class Text(HTMLParser):
    """The title and the visible text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.title, self.text = "", []
        self._inside = ""

    def handle_starttag(self, tag, _attrs):
        self._inside = tag

    def handle_endtag(self, _tag):
        self._inside = ""

    def handle_data(self, data):
        if self._inside == "title":
            self.title = data.partition(" | ")[0]
        elif data.strip():
            self.text.append(data.strip())


def words(text: str) -> list[str]:
    """Return the words of a text; of Chinese and Japanese each pair of letters."""
    found = []
    for word in re.findall(r"\w+", text.casefold()):
        if re.search("[\u3040-\u9fff]", word):
            found += [word[at : at + 2] for at in range(max(1, len(word) - 1))]
        else:
            found.append(word.removesuffix("s"))
    return found


class Index:
    """A search engine over the pages."""

    def __init__(self) -> None:
        self.pages = [REPORT, ABSENT, GIANT]
        for path in sorted(PAGES.rglob("*.html")):
            reader = Text()
            reader.feed(path.read_bytes().decode("utf-8", "replace"))
            name = f"/{path.relative_to(PAGES).as_posix()}"
            self.pages.append((ALIASES.get(name, name), reader.title, " ".join(reader.text)))
        self.counts = [Counter(words(f"{title} {title} {text}")) for _, title, text in self.pages]

    def search(self, query: str) -> list[tuple[float, str, str, str]]:
        """Return score, path, title and snippet of the best pages."""
        asked = list(dict.fromkeys(words(query)))
        having = {word: sum(word in counts for counts in self.counts) for word in asked}
        found = []
        for (path, title, text), counts in zip(self.pages, self.counts, strict=True):
            score = sum(
                math.log(1 + len(self.pages) / having[word]) * counts[word] / (counts[word] + 1.5)
                for word in asked
                if counts[word]
            )
            if score:
                found.append((round(score, 4), path, title, snippet(text, asked)))
        return sorted(found, key=lambda each: (-each[0], each[1]))[:RESULTS]


def snippet(text: str, asked: list[str]) -> str:
    """Return the beginning of the part of a text where a word first stands."""
    places = [at for word in asked if (at := text.casefold().find(word)) > 0]
    start = max(0, min(places, default=0) - SNIPPET // 4)
    return text[start : start + SNIPPET]


def huge() -> bytes:
    """Return a page that nobody reads to its end."""
    start = (
        "<!doctype html><html lang=en><head><meta charset=utf-8><title>The chronicle of the town"
        "</title></head><body><main><article><h1>The chronicle of the town</h1><p>The great fire"
        " of 1702 began in a bakery behind the Fish Gate and burned for four days. Ninety houses"
        " were lost, and the bells of Saint Orla melted where they hung.</p>"
    )
    line = "<p>In the year {} the herring came late, the bells were cast anew, and snow lay.</p>"
    parts, size, year = [start], len(start), 1
    while size < HUGE:
        parts.append(line.format(year))
        size += len(parts[-1])
        year += 1
    return "".join([*parts, "</article></main></body></html>"]).encode()


def many_links() -> bytes:
    """Return a page of links."""
    rows = "".join(f'<li><a href="/p/{n}">Page {n}</a></li>' for n in range(LINKS))
    text = "<p>The register of Kestrel Bay lists every page that was ever planned.</p>"
    return f"<!doctype html><title>Register</title><main>{text}<ul>{rows}</ul></main>".encode()


class TinyWeb(ThreadingHTTPServer):
    """The server. `requests` holds the paths that were asked for, in order."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port: int = 0, slow: float = 3.0) -> None:
        self.index, self.slow = Index(), slow
        self.requests: list[str] = []
        self.closing = threading.Event()
        super().__init__(("127.0.0.1", port), Handler)

    @property
    def url(self) -> str:
        """The address, without a slash at its end."""
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"
    server: TinyWeb

    def log_message(self, format, *args):
        pass

    def do_GET(self):
        address = urlsplit(self.path)
        self.server.requests.append(address.path)
        query = {name: values[0] for name, values in parse_qs(address.query).items()}
        if address.path in REDIRECTS:
            status, target = REDIRECTS[address.path]
            self.answer(status, b"", "text/plain", {"Location": target})
        elif address.path == "/robots.txt":
            self.answer(200, ROBOTS.encode(), "text/plain")
        elif address.path == "/search":
            self.search(query)
        elif address.path == "/broken.html":
            self.answer(500, b"<title>Broken</title>Something broke.", KINDS[".html"])
        elif address.path in {"/huge.html", "/links.html"}:
            made = huge() if address.path == "/huge.html" else many_links()
            self.answer(200, made, KINDS[".html"])
        else:
            self.page(address.path)

    def page(self, path: str) -> None:
        if path == "/slow.html":
            self.server.closing.wait(self.server.slow)
        file = (PAGES / (path.lstrip("/") or "index.html")).resolve()
        if not file.is_relative_to(PAGES) or not file.is_file():
            self.answer(404, b"<title>Not here</title>There is no such page.", KINDS[".html"])
            return
        self.answer(200, file.read_bytes(), KINDS[file.suffix])

    def search(self, query: dict[str, str]) -> None:
        """Answer as SearXNG does: https://docs.searxng.org/dev/search_api.html."""
        asked = query.get("q", "")
        found = self.server.index.search(asked) if query.get("pageno", "1") == "1" else []
        results = [
            {
                "url": self.server.url + quote(path),
                "title": title,
                "content": text,
                "engine": "tiny",
                "engines": ["tiny"],
                "category": "general",
                "score": score,
            }
            for score, path, title, text in found
        ]
        if query.get("format") != "json":
            rows = "".join(
                f'<li><a href="{each["url"]}">{html.escape(each["title"])}</a></li>'
                for each in results
            )
            self.answer(200, f"<title>Search</title><ul>{rows}</ul>".encode(), KINDS[".html"])
            return
        body = {
            "query": asked,
            "number_of_results": len(results),
            "results": results,
            "answers": [],
            "corrections": [],
            "infoboxes": [],
            "suggestions": [],
            "unresponsive_engines": [],
        }
        self.answer(200, json.dumps(body, ensure_ascii=False).encode(), "application/json")

    def answer(self, status: int, body: bytes, kind: str, headers: dict | None = None) -> None:
        try:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
        except ConnectionError:  # whoever asked has had enough
            self.close_connection = True


@contextmanager
def tiny_web(port: int = 0, slow: float = 3.0):
    """Serve in a thread for the length of the block, and give the server."""
    server = TinyWeb(port, slow)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve a small web on loopback.")
    parser.add_argument("--port", type=int, default=8765)
    parser.add_argument("--slow", type=float, default=3.0, help="seconds that /slow.html takes")
    options = parser.parse_args()
    server = TinyWeb(options.port, options.slow)
    print(f"{server.url}/ serves {len(server.index.pages)} pages; {server.url}/search?q= searches")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main()
