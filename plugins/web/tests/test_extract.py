"""`web.extract`: pages of the tiny web over real HTTP, and documents that do harm."""

import hashlib
import io
import sys
from pathlib import Path

import pytest

from clawhive_core import Refusal, ToolError
from clawhive_core.runs.requests import RunOptions
from clawhive_core.testing import memory_hive
from clawhive_web.pages import WebPages
from clawhive_web.readers import Readers

TINY = Path(__file__).parents[3] / "examples" / "tiny-web"
sys.path.append(str(TINY))
serve = pytest.importorskip("serve")
BUILTIN = {"plugins.enabled": ["builtin"]}


@pytest.fixture(scope="module")
def web():
    with serve.tiny_web(slow=0) as server:
        yield server


@pytest.fixture
async def readers():
    made = Readers(most=1)
    yield made
    await made.close()


async def extract(web, path, grants=None):
    given = (f"net.http:{web.url}/**",) if grants is None else grants
    async with memory_hive(providers=[WebPages()], settings=BUILTIN) as hive:
        options = RunOptions(grants=given, approve="deny")
        _, made = await hive.call("web.extract", {"url": web.url + path}, options=options)
        return made.to_dict() if isinstance(made, Refusal) else made.value


def pages():
    return sorted(each.name for each in (TINY / "pages").glob("*.html"))


async def test_the_text_of_a_page_is_that_of_trafilatura_in_its_fast_mode(readers):
    from trafilatura import extract as theirs

    for name in pages():
        body = (TINY / "pages" / name).read_bytes()
        charset = "windows-1252" if name == "umlaute.html" else "utf-8"
        found = await readers.read(body, "html", url="http://x/", charset=charset)
        expected = theirs(
            body.decode(charset), output_format="markdown", fast=True, include_comments=False
        )
        assert (found["text"], found["extractor"]) == (expected, "trafilatura"), name


async def test_title_author_date_language_and_links_are_told(readers):
    body = (TINY / "pages" / "lighthouse.html").read_bytes()
    found = await readers.read(body, "html", url="http://tiny.example/lighthouse.html")
    assert found["title"] == "The lighthouse on Gannet Point"
    assert (found["author"], found["date"], found["language"]) == ("Edda Moore", "2024-05-14", "en")
    assert found["links"] == [
        {"url": "http://tiny.example/opening-hours.html", "text": "opening hours"}
    ]
    assert "cookies" not in found["text"]


async def test_a_charset_that_the_server_states_wrongly_is_not_believed(readers):
    body = (TINY / "pages" / "umlaute.html").read_bytes()
    found = await readers.read(body, "html", charset="utf-8")
    assert "Die Bäckerei Müßig bäckt seit 1911" in found["text"]


async def test_one_worker_reads_page_after_page(readers):
    body = (TINY / "pages" / "tides.html").read_bytes()
    await readers.read(body, "html")
    (worker,) = readers._idle
    for _ in range(20):
        await readers.read(body, "html")
    assert readers._idle == [worker]


async def test_a_huge_page_is_read_by_the_quick_extractor_and_cut(readers):
    found = await readers.read(serve.huge(), "html")
    assert (found["extractor"], found["cut"], len(found["text"])) == ("resiliparse", True, 10**6)
    assert "great fire" in found["text"]


async def test_a_page_of_a_hundred_thousand_links_is_read(readers):
    found = await readers.read(serve.many_links(), "html")
    assert found["text"] == "The register of Kestrel Bay lists every page that was ever planned."


async def test_a_worker_that_hangs_is_killed_and_the_next_page_is_read_by_another():
    readers = Readers(seconds=0.3, most=1)
    deep = b"<div>" * 40_000 + b"some words of text " * 20 + b"</div>" * 40_000
    try:
        with pytest.raises(ToolError) as stopped:
            await readers.read(deep, "html")
        assert (stopped.value.code, readers._idle) == ("limit_reached", [])
        found = await readers.read(b"<p>Words.</p>", "text")
    except ToolError:
        found = None  # a machine so slow that no worker starts within the time says the same
    finally:
        await readers.close()
    assert found is None or found["text"] == "<p>Words.</p>"


@pytest.mark.parametrize(
    "body", [b"", b"<", b"<p>only", b"\xff\xfe<", b"</div></p><table><tr><b>x</i>", b"\0" * 99]
)
async def test_broken_markup_gives_what_text_there_is(readers, body):
    found = await readers.read(body, "html")
    assert isinstance(found["text"], str)
    assert "\0" not in found["text"]


@pytest.mark.parametrize("body", [b"%PDF-1.4 broken", b"", b"%PDF-1.7\n1 0 obj\n<<"])
async def test_a_broken_pdf_is_an_error_with_a_code(readers, body):
    with pytest.raises(ToolError) as failed:
        await readers.read(body, "pdf")
    assert failed.value.code == "not_readable"


async def test_a_pdf_with_a_password_is_an_error_with_a_code(readers):
    from pypdf import PdfWriter

    writer, made = PdfWriter(), io.BytesIO()
    writer.add_blank_page(72, 72)
    writer.encrypt("secret", algorithm="RC4-128")
    writer.write(made)
    with pytest.raises(ToolError) as failed:
        await readers.read(made.getvalue(), "pdf")
    assert failed.value.code == "encrypted"


async def test_a_document_beyond_the_cap_reaches_no_worker(readers):
    with pytest.raises(ToolError) as failed:
        await readers.read(b"x" * (16 * 1024 * 1024 + 1), "html")
    assert (failed.value.code, readers._idle) == ("too_large", [])


def test_a_worker_opens_no_socket_no_program_and_no_file_of_the_user(tmp_path):
    """The fence is tried where it stands, in a process that has taken it on."""
    import subprocess

    from clawhive_core import confine
    from clawhive_web import _reader

    if confine.landlock_version() < 1:
        pytest.skip("this kernel has no Landlock")
    secret = tmp_path / "secret"
    secret.write_text("x")
    program = (
        f"import sys; sys.path.insert(0, {str(Path(_reader.__file__).parent)!r})\n"
        "import _reader, os, socket\n"
        f"_reader.fence({confine.__file__!r}, 1 << 30)\n"
        f"tries = [lambda: open({str(secret)!r}), socket.socket,"
        " lambda: os.execv('/bin/true', ['t'])]\n"
        "for each in tries:\n"
        "    try: each(); print('done')\n"
        "    except OSError: print('refused')\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert said.stdout.split() == ["refused"] * 3, said.stderr


async def test_a_page_is_read_over_http_and_its_text_is_hashed(web):
    page = await extract(web, "/old/ferry")
    assert (page["asked"], page["url"]) == (f"{web.url}/old/ferry", f"{web.url}/ferry.html")
    assert page["sha256"] == hashlib.sha256(page["text"].encode()).hexdigest()
    body = (TINY / "pages" / "ferry.html").read_bytes()
    assert page["body_sha256"] == hashlib.sha256(body).hexdigest()
    assert "18:40" in page["text"]


async def test_a_pdf_is_read_over_http(web):
    page = await extract(web, "/saltworks-report.pdf")
    assert (page["extractor"], page["media_type"]) == ("pypdf", "application/pdf")
    assert "2,310 tonnes" in page["text"]


@pytest.mark.parametrize(
    ("path", "code"), [("/gone.html", "page_failed"), ("/broken.html", "page_failed")]
)
async def test_a_page_that_is_not_there_is_an_error_with_a_code(web, path, code):
    made = await extract(web, path)
    assert made["error"] == code


async def test_loopback_needs_an_explicit_grant(web):
    made = await extract(web, "/tides.html", grants=("net.http:**",))
    assert made["error"] in {"denied", "approval_denied", "approval_required"}
    assert "/tides.html" not in web.requests


async def test_a_page_that_robots_txt_closes_is_not_asked_for(web):
    made = await extract(web, "/private/ledger.html")
    assert made["error"] == "robots_denied"
    assert "/private/ledger.html" not in web.requests
