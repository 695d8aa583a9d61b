"""What reading pages by ClawHive costs beside bare httpx2 and trafilatura.

Run `python benchmarks/web_research.py [--smoke]`. The pages are those of `examples/tiny-web`, on
loopback by a process of its own, again and again until there are 50, 8 at once. The floor gets them
with `httpx2.AsyncClient` and extracts in the same process, as a script would; ours calls
`web.extract` through the executor: decided, recorded, guarded, extracted in workers. Wall time is
the figure to read, since ours uses several processes, whose CPU is not in the column `cpu`. Goal:
1.2 times. The second table is extraction alone: a warm worker beside trafilatura in the process.
"""

from __future__ import annotations

import asyncio  # noqa: TID253 - a script, which nothing imports
import subprocess
import sys
from functools import partial
from typing import Any

import httpx2  # noqa: TID253 - a script, which nothing imports
from measure import (
    ROOT,
    CannotRun,
    Sample,
    alternate,
    arguments,
    clock,
    costs,
    finish,
    millis,
    start,
)

from clawhive_core import RunOptions
from clawhive_core.testing import memory_hive

GOAL = 1.2
AT_ONCE = 8
TINY = ROOT / "examples" / "tiny-web"
SERVER = (
    f"import sys; sys.path.insert(0, {str(TINY)!r}); import serve\n"
    "web = serve.TinyWeb(0, 0); print(web.url, flush=True); web.serve_forever()"
)


def bare_text(text: str) -> str:
    """Return what trafilatura finds in its fast mode, metadata included as ours."""
    from trafilatura import extract_with_metadata

    found = extract_with_metadata(text, output_format="markdown", fast=True, include_comments=False)
    return "" if found is None else found.text or ""


async def bare(urls: list[str]) -> None:
    """Fetch and extract as a script would."""
    room = asyncio.Semaphore(AT_ONCE)
    async with httpx2.AsyncClient(trust_env=False) as client:

        async def one(url: str) -> None:
            async with room:
                if not bare_text((await client.get(url)).text):
                    raise CannotRun(f"no text in {url}")

        await asyncio.gather(*map(one, urls))


async def ours(session: Any, urls: list[str]) -> None:
    """Call `web.extract` for each page."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(url: str) -> None:
        async with room:
            made = await session.call("web.extract", {"url": url})
            if not isinstance(made, dict) or not made.get("text"):
                raise CannotRun(f"{url}: {made}")

    await asyncio.gather(*map(one, urls))


async def worker(readers: Any, bodies: list[bytes]) -> None:
    """Extract one page after another in a warm worker."""
    for body in bodies:
        await readers.read(body, "html", charset="utf-8")


def measured(base: str, *, smoke: bool) -> dict[str, Any]:
    """Measure both, print the tables and return the ratios."""
    from clawhive_web.pages import WebPages
    from clawhive_web.readers import Readers

    names = sorted(each.name for each in (TINY / "pages").glob("*.html"))
    count, rounds = (16, 2) if smoke else (50, 10)
    urls = [f"{base}/{names[at % len(names)]}" for at in range(count)]
    bodies = [(TINY / "pages" / name).read_bytes() for name in names]
    texts = [body.decode("utf-8", "replace") for body in bodies]
    ratios: dict[str, Any] = {}
    with asyncio.Runner() as runner:
        hive = memory_hive(providers=[WebPages()], settings={"plugins.enabled": ["builtin"]})
        opened = runner.run(hive.__aenter__())
        options = RunOptions(grants=(f"net.http:{base}/**",), approve="deny")
        calling = opened.session(options=options)
        session = runner.run(calling.__aenter__())
        readers = Readers(most=1)

        def sample(work: Any, parts: int) -> Sample:
            return clock(lambda: runner.run(work())).per(parts)

        found = alternate(
            {
                "httpx2 and trafilatura": partial(sample, partial(bare, urls), 1),
                "web.extract": partial(sample, partial(ours, session, urls), 1),
            },
            rounds,
        )
        floor = found["httpx2 and trafilatura"]
        print(f"\n{count} pages, {AT_ONCE} at once")
        costs(found.values(), floor, millis, "ms")
        ratios["pages_wall"] = round(found["web.extract"].wall_ratio(floor), 2)

        def extract_bare() -> Sample:
            return clock(lambda: [bare_text(text) for text in texts]).per(len(texts))

        alone = alternate(
            {
                "trafilatura": extract_bare,
                "a warm worker": partial(sample, partial(worker, readers, bodies), len(bodies)),
            },
            rounds,
        )
        print("\nextraction alone, per page, one after the other")
        costs(alone.values(), alone["trafilatura"], millis, "ms")
        ratios["extraction_wall"] = round(
            alone["a warm worker"].wall_ratio(alone["trafilatura"]), 2
        )
        runner.run(readers.close())
        runner.run(calling.__aexit__(None, None, None))
        runner.run(hive.__aexit__(None, None, None))
    return ratios


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__)
    words = [sys.executable, "-c", SERVER]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        try:
            base = server.stdout.readline().strip() if server.stdout is not None else ""
            ratios = measured(base, smoke=options.smoke)
        finally:
            server.terminate()
    print(f"goal for 50 pages: {GOAL} or less of the wall time")
    finish("web_research", {"ratios": ratios, "goal": GOAL})


if __name__ == "__main__":
    start(main)
