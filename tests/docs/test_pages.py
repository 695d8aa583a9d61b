"""Links, paths and the map of the pages."""

import re

import pytest

from tests.docs.conftest import ROOT, blocks

PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *ROOT.joinpath("docs").rglob("*.md")])
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


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_relative_link_resolves(page):
    broken = []
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_the_readme_links_to_pages():
    assert len([link for link in links(ROOT / "README.md") if link.startswith("docs/")]) >= 4


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_page_names_a_path_of_the_machine_it_was_written_on(page):
    paths = re.findall(
        r"(?<![\w.}*])/(?:work|root|tmp|mnt|opt|Users)\b\S*", page.read_text("utf-8")
    )
    assert paths == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_page_links_to_an_address_without_encryption(page):
    assert [link for link in links(page) if link.startswith("http:")] == []


def test_the_index_names_every_page():
    linked = {(ROOT / "docs" / link).resolve() for link in links(ROOT / "docs" / "index.md")}
    pages = {page for page in PAGES if page.is_relative_to(ROOT / "docs")}
    assert pages - linked == {ROOT / "docs" / "index.md"}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_python_block_is_python(page):
    for each in blocks(name_of(page)):
        if each.language == "python" and not each.text.startswith("clawhive_"):  # a signature
            compile(each.text, name_of(page), "exec")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_fences_are_closed(page):
    fences = re.findall(r"^```", page.read_text("utf-8"), re.MULTILINE)
    assert len(fences) % 2 == 0
