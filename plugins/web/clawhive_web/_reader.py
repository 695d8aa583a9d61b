"""The worker process of `web.extract`: documents in, their text out, one after another.

It imports nothing of ClawHive but `confine`, by the path that it is given. Each request on stdin is
two parts, a JSON object and the document's bytes, each behind its length; each answer on stdout is
one such part. After its first breath it can open only what Python's own folders hold, no socket and
no program, and it dies with whoever started it.
"""

from __future__ import annotations

import codecs
import importlib.util
import json
import os
import re
import resource
import signal
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urldefrag, urljoin

CAREFUL = 1_000_000
"""Characters of a page beyond which the quick extractor reads it."""
MAX_LINKS = 500
MAX_LINK_TEXT = 200
MAX_PAGES = 2_000
"""Pages of a PDF that are read."""
_PDEATHSIG = 1
_CALLS = {"x86_64": (41, 59, 322), "aarch64": (198, 221, 281)}
"""The numbers of `socket`, `execve` and `execveat`."""
_META = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE
)


class Unreadable(Exception):
    """A document that holds no text for us: a code, and what it says."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def decoded(body: bytes, charset: str) -> str:
    """Return a text: by its mark, by what the server says, by what it says itself, else by guess.

    A charset counts only where all bytes are possible in it.
    """
    marks = ((codecs.BOM_UTF8, "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
    named = _META.search(body[:4096])
    tried = [name for mark, name in marks if body.startswith(mark)]
    tried += [charset, named[1].decode("ascii") if named else "", "utf-8"]
    for name in filter(None, tried):
        if name.lower() not in {"idna", "punycode", "unicode_escape", "raw_unicode_escape"}:
            with suppress(LookupError, ValueError):
                return body.decode(name)
    with suppress(UnicodeDecodeError):  # a body that was cut inside of a character
        return body[:-3].decode("utf-8")
    return _guessed(body)


def _guessed(body: bytes) -> str:
    from charset_normalizer import from_bytes

    best = from_bytes(body[:200_000]).best()
    return body.decode("windows-1252" if best is None else best.encoding, "replace")


def read_html(text: str, url: str, *, quick: bool) -> dict[str, Any]:
    """Return what a page holds; `quick` is for huge ones and for those that took too long."""
    return _quickly(text, url) if quick or len(text) > CAREFUL else _carefully(text, url)


def _carefully(text: str, url: str) -> dict[str, Any]:
    from trafilatura.core import bare_extraction, determine_returnstring
    from trafilatura.settings import Extractor

    options = Extractor(
        output_format="markdown", fast=True, comments=False, url=url or None, with_metadata=True
    )
    found = bare_extraction(text, options=options)
    if found is None or isinstance(found, dict):
        return _quickly(text, url)
    options.with_metadata = False  # else its text begins with them
    return {
        "text": determine_returnstring(found, options),
        "title": found.title or "",
        "author": found.author or "",
        "date": found.date or "",
        "language": _language(text),
        "links": _links(text, url),
        "extractor": "trafilatura",
    }


def _quickly(text: str, url: str) -> dict[str, Any]:
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.html import HTMLTree

    tree = HTMLTree.parse(text)
    found = extract_plain_text(tree, main_content=True, preserve_formatting=True)
    made = {"text": found, "title": tree.title or "", "author": "", "date": ""}
    links = _links(text, url) if len(text) <= CAREFUL else []
    return {**made, "language": _language(text), "links": links, "extractor": "resiliparse"}


def _language(text: str) -> str:
    found = re.search(r"<html[^>]{0,500}?\blang\s*=\s*[\"']?([A-Za-z0-9-]{2,20})", text[:4096])
    return found[1] if found else ""


def _links(text: str, url: str) -> list[dict[str, str]]:
    """Return the http(s) links of a page outside of its navigation, each address once."""
    from trafilatura.utils import load_html

    tree = load_html(text)
    found: dict[str, str] = {}
    outside = "not(ancestor::nav or ancestor::header or ancestor::footer or ancestor::aside)"
    root: Any = tree
    places: list[Any] = [] if root is None else root.xpath(f"//a[@href][{outside}]")
    for place in places:
        with suppress(ValueError):
            address = urldefrag(urljoin(url, str(place.get("href")).strip())).url
            if address.startswith(("http://", "https://")) and address not in found:
                found[address] = " ".join("".join(place.itertext()).split())[:MAX_LINK_TEXT]
        if len(found) >= MAX_LINKS:
            break
    return [{"url": address, "text": label} for address, label in found.items()]


def read_pdf(body: bytes) -> dict[str, Any]:
    """Return the text of a PDF, its pages apart by an empty line.

    Raises:
        Unreadable: It needs a password, or is broken.
    """
    import io
    import logging

    from pypdf import PdfReader
    from pypdf.errors import DependencyError, FileNotDecryptedError

    logging.disable(logging.CRITICAL)
    try:
        reader = PdfReader(io.BytesIO(body))
        if reader.is_encrypted:
            reader.decrypt("")  # many need no password to be read
        pages = [page.extract_text() for page in reader.pages[:MAX_PAGES]]
        facts = reader.metadata
        title, author = (facts.title, facts.author) if facts else (None, None)
        made = facts.creation_date if facts else None
    except (DependencyError, FileNotDecryptedError):
        raise Unreadable("encrypted", "the PDF needs a password or a cipher") from None
    except Exception as error:  # pypdf raises many kinds for what is broken
        raise Unreadable("not_readable", f"the PDF is broken: {str(error)[:200]}") from error
    text = "\n\n".join(page.strip() for page in pages if page.strip())
    return {
        "text": text,
        "title": str(title or "").strip(),
        "author": str(author or "").strip(),
        "date": made.date().isoformat() if made else "",
        "language": "",
        "links": [],
        "extractor": "pypdf",
    }


def read(request: dict[str, Any], body: bytes) -> dict[str, Any]:
    """Return the text of a document, and what is known of it."""
    found: dict[str, Any]
    if request["kind"] == "pdf":
        found = read_pdf(body)
    else:
        text = decoded(body, request["charset"])
        if request["kind"] == "html":
            found = read_html(text, request["url"], quick=request["quick"])
        else:
            found = dict.fromkeys(("title", "author", "date", "language"), "")
            found |= {"text": text, "extractor": "text", "links": list[Any]()}
    clean = str(found["text"]).replace("\r\n", "\n").replace("\0", "\ufffd")
    clean = clean.encode("utf-8", "replace").decode()
    kept = clean[: request["characters"]]
    return {**found, "text": kept, "cut": len(kept) < len(clean)}


def answer(request: dict[str, Any], body: bytes) -> dict[str, Any]:
    """Return what is said of one document, whatever it is."""
    try:
        return read(request, body)
    except Unreadable as error:
        return {"error": error.code, "message": str(error)}
    except MemoryError:
        return {"error": "limit_reached", "message": "the document takes too much memory"}
    except Exception as error:  # noqa: BLE001 - libraries raise many kinds for broken markup
        return {"error": "not_readable", "message": f"{type(error).__name__}: {str(error)[:200]}"}


def fence(confine_path: str, memory: int) -> None:
    """Take from this process what no document needs, as far as the kernel can."""
    limits = ((resource.RLIMIT_AS, memory), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0))
    for kind, value in limits:
        with suppress(OSError, ValueError):
            resource.setrlimit(kind, (value, value))
    spec = importlib.util.spec_from_file_location("confine", confine_path)
    if sys.platform != "linux" or spec is None or spec.loader is None:
        return
    confine = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(confine)
    confine.kernel().prctl(_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() == 1:
        os._exit(0)
    confine.forbid_new_privileges()
    folders = {sys.base_prefix, sys.prefix, *(each for each in sys.path if Path(each).is_dir())}

    def grant(give: Any) -> None:
        for folder in (*sorted(folders), "/usr/lib", "/lib", "/usr/share/zoneinfo"):
            give(folder, confine.READING)

    confine.restrict_files(grant, connections=False)
    confine.refuse([(call, 0, None) for call in _CALLS.get(os.uname().machine, ())])


def part(stream: BinaryIO) -> bytes:
    """Return the next part; at the end of the stream this process ends."""
    head = stream.read(4)
    if len(head) < 4:  # noqa: PLR2004 - the bytes of a length
        os._exit(0)
    (length,) = struct.unpack(">I", head)
    return stream.read(length)


def main(confine_path: str, memory: str) -> None:
    """Serve until nobody asks any more."""
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # what a library prints is no answer
    fence(confine_path, int(memory))
    while True:
        request = json.loads(part(stdin))
        said = json.dumps(answer(request, part(stdin))).encode()
        stdout.write(struct.pack(">I", len(said)) + said)
        stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
