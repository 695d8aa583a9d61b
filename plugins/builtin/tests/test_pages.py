"""`web.search` over saved pages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_builtin import clawhive_tool_providers
from clawhive_builtin._saved_page import read_page
from clawhive_builtin.pages import PagesProvider
from clawhive_builtin.stub import SEARCH
from clawhive_core import HookContext, ToolError

HTML = (
    "<html><head><title>Structured &amp; logging</title>"
    '<link rel="canonical" href="https://one.example/log"></head><body><p>Write JSON lines.</p>'
    "<script>var logging = 'logging logging logging'</script></body></html>"
)
SHARED = '<meta property="og:url" content="http://two.example/"><p>Nothing of interest.'
MARKDOWN = (
    "---\ntitle: A guide\nurl: https://three.example/guide\n---\n"
    "# Heading\nlogging, twice: logging\n"
)
PLAIN = "url: https://four.example/\nplain words on logging\n"


@pytest.fixture
def pages(project):
    folder = project / "saved"
    (folder / "deep").mkdir(parents=True)
    folder.joinpath("one.html").write_text(HTML)
    folder.joinpath("two.htm").write_text(SHARED)
    folder.joinpath("deep", "three.md").write_text(MARKDOWN)
    folder.joinpath("four.txt").write_text(PLAIN)
    folder.joinpath("none.txt").write_text("logging without an address")
    folder.joinpath("file.md").write_text("url: file:///etc/passwd\nlogging")
    folder.joinpath("five.json").write_text("logging")
    return folder


@pytest.fixture
def provider(project, pages):
    return PagesProvider("saved", str(project))


async def search(provider, call, query, **more):
    from jsonschema_rs import validator_for

    result = await provider.invoke("web.search", {"query": query, **more}, call)
    validator_for(SEARCH.output_schema).validate(result.structured)
    return result.structured["items"]


async def test_pages_that_hold_the_words_come_best_first(provider, call):
    items = await search(provider, call, "Logging")
    assert [item["url"] for item in items] == [
        "https://one.example/log",
        "https://three.example/guide",
        "https://four.example/",
    ]
    assert [item["title"] for item in items] == ["Structured & logging", "A guide", "four.txt"]
    assert {item["provider"] for item in items} == {"pages"}
    assert "logging" in items[1]["snippet"]


async def test_more_of_the_words_count_more_than_one_of_them_often(provider, call):
    items = await search(provider, call, "plain logging")
    assert items[0]["url"] == "https://four.example/"


async def test_the_limit_counts_and_no_hit_is_an_empty_list(provider, call):
    assert len(await search(provider, call, "logging", limit=1)) == 1
    assert await search(provider, call, "zebra") == []
    assert await search(provider, call, "!?") == []


async def test_scripts_are_no_text_of_a_page(provider, call):
    assert await search(provider, call, "var") == []


async def test_words_of_scripts_without_spaces_are_found(pages, provider, call):
    pages.joinpath("zh.md").write_text("url: https://zh.example/\n结构化日志很好\n", "utf-8")
    assert [item["url"] for item in await search(provider, call, "日志")] == ["https://zh.example/"]


async def test_one_address_is_answered_once(pages, provider, call):
    pages.joinpath("copy.txt").write_text(PLAIN + "logging logging")
    items = await search(provider, call, "logging", limit=20)
    assert len({item["url"] for item in items}) == len(items) == 3


async def test_what_a_call_may_not_read_is_not_found(pages, provider, call):
    pages.joinpath(".env").mkdir()
    pages.joinpath(".env", "secret.txt").write_text("url: https://s.example/\nzebra")
    outside = pages.parents[1] / "outside.txt"
    outside.write_text("url: https://o.example/\nzebra")
    pages.joinpath("link.txt").symlink_to(outside)
    assert await search(provider, call, "zebra") == []


async def test_broken_huge_and_empty_files_are_passed_over(pages, provider, call):
    pages.joinpath("binary.html").write_bytes(bytes(range(256)) * 50)
    pages.joinpath("huge.txt").write_bytes(b"url: https://h.example/\n" + b"zebra " * 1_000_000)
    pages.joinpath("empty.md").write_text("")
    pages.joinpath("broken.html").write_text("<!DOCTYPE [<![ <a <link rel=canonical href=")
    assert await search(provider, call, "zebra") == []


async def test_its_one_tool_says_that_it_reads_the_folder(provider):
    (tool,) = await provider.list_tools()
    assert (tool.name, tool.provider_id, tool.risk) == ("web.search", "pages", "safe")
    assert tool.effects == {"": "fs.read:${workspace}/saved/**"}
    assert tool.output_schema == SEARCH.output_schema


async def test_a_folder_elsewhere_is_named_as_it_is(project, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (project / "link").symlink_to(tmp_path / "elsewhere")
    for name in (str(tmp_path / "elsewhere"), "../elsewhere", "link"):
        (tool,) = await PagesProvider(name, str(project)).list_tools()
        assert tool.effects == {"": f"fs.read:{tmp_path}/elsewhere/**"}


@pytest.mark.parametrize("folder", ["", 1, None, [], "none", "one.txt", "a\0b", "st*r", "${run}"])
async def test_a_setting_that_names_no_usable_folder_lists_nothing_and_says_why(project, folder):
    project.joinpath("one.txt").write_text("x")
    project.joinpath("st*r").mkdir()
    project.joinpath("${run}").mkdir()
    with pytest.raises(ToolError) as caught:
        await PagesProvider(folder, str(project)).list_tools()
    assert caught.value.place == "plugins.builtin.pages"
    assert caught.value.fix


async def test_any_other_tool_is_not_found(provider, call):
    with pytest.raises(ToolError) as caught:
        await provider.invoke("web.fetch", {}, call)
    assert caught.value.code == "tool_not_found"
    await provider.close()


def test_the_provider_is_there_only_where_the_settings_name_a_folder(project):
    for given_, names in (({}, ["stub"]), ({"pages": "x"}, ["stub", "pages"])):
        found = clawhive_tool_providers(HookContext("builtin", given_, str(project), {}))
        assert [provider.provider_id for provider in found] == names


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "https://",
        "http:///x",
        "https://a b.example/",
        "HTTPS://x.example/",
        "//x.example/",
        "https://[::1",
        "",
    ],
)
def test_a_page_without_an_http_address_is_no_page(url):
    assert read_page("a.txt", f"url: {url}\ntext") is None
    assert read_page("a.html", f'<link rel="canonical" href="{url}">text') is None


@given(st.sampled_from(["a.html", "a.md"]), st.text(max_size=200), st.text(max_size=50))
def test_no_text_breaks_the_reader(name, text, url):
    for content in (text, f'<link rel=canonical href="{url}"><title>{text}', f"url: {url}\n{text}"):
        page = read_page(name, content)
        assert page is None or page.url.startswith(("http://", "https://"))
