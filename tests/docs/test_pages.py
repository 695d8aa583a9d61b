"""Links, paths and the map of the pages."""

import ast
import re

from tests.docs.conftest import ROOT, blocks

TOP = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES = sorted([*TOP, *ROOT.joinpath("docs").rglob("*.md")])
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def name_of(page):
    return str(page.relative_to(ROOT))


def links(page):
    return _LINK.findall(_FENCE.sub("", page.read_text("utf-8")))


def anchors(page):
    """Return the anchors that a forge gives the headings of a page."""
    headings = _HEADING.findall(_FENCE.sub("", page.read_text("utf-8")))
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


def offenders(find):
    """Return what is found wrong, by page."""
    return {name_of(page): found for page in PAGES if (found := find(page))}


def test_every_relative_link_resolves():
    assert offenders(broken_links) == {}


def broken_links(page):
    broken = []
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    return broken


def test_the_readme_links_to_pages():
    assert len([link for link in links(ROOT / "README.md") if link.startswith("docs/")]) >= 4


def test_no_page_names_a_path_of_the_machine_it_was_written_on():
    path = re.compile(r"(?<![\w.}*])/(?:work|root|tmp|mnt|opt|Users)\b\S*")
    assert offenders(lambda page: path.findall(page.read_text("utf-8"))) == {}


def test_no_page_links_to_an_address_without_encryption():
    wrong = offenders(lambda page: [link for link in links(page) if link.startswith("http:")])
    assert wrong == {}


def test_the_index_names_every_page():
    linked = {(ROOT / "docs" / link).resolve() for link in links(ROOT / "docs" / "index.md")}
    pages = {page for page in PAGES if page.is_relative_to(ROOT / "docs")}
    assert pages - linked == {ROOT / "docs" / "index.md"}


def test_every_python_block_is_python():
    for page in map(name_of, PAGES):
        for each in blocks(page):
            if each.language == "python" and not each.text.startswith("clawhive_"):  # a signature
                compile(each.text, page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_fences_are_closed():
    fence = re.compile(r"^```", re.MULTILINE)
    assert offenders(lambda page: len(fence.findall(page.read_text("utf-8"))) % 2) == {}
