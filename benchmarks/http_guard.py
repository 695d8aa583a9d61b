"""What a request through the guarded client costs beside the same client without a guard.

Run `python benchmarks/http_guard.py [--smoke] [--profile]`. A server on loopback, in a process of
its own, answers with 16 KiB; connections are kept alive. The floor is `httpx2.AsyncClient` with
`trust_env=False`; ours is `ctx.http` (`GuardedClient` over one `Guard`), and an httpx2 client over
the guard's transport, as SDKs get one. Each request of ours asks for its right, reads its URL,
holds each address against the list of what is not public, and bounds headers, body and time. By
the server's address, by a name, one after the other and 8 at once; each request is one fetch of the
whole body. CPU is this process's, the look-ups' threads included. Goal: at most 1.1 times httpx2.
"""

from __future__ import annotations

import asyncio  # noqa: TID253 - a script, which nothing imports
import subprocess
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import httpx2  # noqa: TID253 - a script, which nothing imports
from measure import CannotRun, Sample, alternate, arguments, clock, costs, finish, micros, start

from clawhive_core.execution.http.client import GuardedClient
from clawhive_core.execution.http.guard import Guard
from clawhive_core.execution.http.target import Rights

GOAL = 1.1
SIZE = 16 * 1024
AT_ONCE = 8
SERVER = f"""
import asyncio
ANSWER = b"HTTP/1.1 200 OK\\r\\nContent-Type: text/plain\\r\\nContent-Length: {SIZE}\\r\\n\\r\\n"
ANSWER += b"x" * {SIZE}

async def serve(reader, writer):
    try:
        while await reader.readuntil(b"\\r\\n\\r\\n"):
            writer.write(ANSWER)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""

Fetch = Callable[[str], Awaitable[bytes]]
"""Requests one URL and returns the whole body."""


async def allow(_: str) -> None:
    """Grant every right, as a decided call's own are granted from a table."""


class Bench:
    """The clients, over one event loop."""

    def __init__(self, runner: asyncio.Runner, port: int) -> None:
        self.runner = runner
        self.urls = {"address": f"http://127.0.0.1:{port}/", "name": f"http://localhost:{port}/"}
        runner.run(self._open())

    async def _open(self) -> None:
        self.guard = Guard()
        self.guarded = GuardedClient(lambda: self.guard, Rights(allow, lambda _: True))
        self.bare = httpx2.AsyncClient(trust_env=False)
        self.over = httpx2.AsyncClient(transport=self.guarded.transport(), trust_env=False)
        self.cases: dict[str, Fetch] = {
            "httpx2": self._by(self.bare),
            "ctx.http": self._by_guard,
            "httpx2 over the guard's transport": self._by(self.over),
        }
        for fetch in self.cases.values():
            for url in self.urls.values():
                if len(await fetch(url)) != SIZE:
                    raise CannotRun(f"{url} did not answer whole")

    def _by(self, client: httpx2.AsyncClient) -> Fetch:
        async def fetch(url: str) -> bytes:
            return (await client.get(url)).content

        return fetch

    async def _by_guard(self, url: str) -> bytes:
        return (await self.guarded.request("GET", url)).body

    async def close(self) -> None:
        """Close every connection."""
        await self.bare.aclose()
        await self.over.aclose()
        await self.guard.aclose()

    def sample(self, fetch: Fetch, url: str, times: int, at_once: int) -> Sample:
        """Make requests and return what one cost."""

        async def work() -> None:
            for _ in range(times):
                await asyncio.gather(*(fetch(url) for _ in range(at_once)))

        return clock(lambda: self.runner.run(work())).per(times * at_once)


def profile(bench: Bench) -> None:
    """Print where each client spends its time."""
    import cProfile
    import pstats

    for title, fetch in bench.cases.items():
        profiler = cProfile.Profile()
        profiler.enable()
        bench.sample(fetch, bench.urls["address"], 2_000, 1)
        profiler.disable()
        print(f"\n## {title}: 2,000 requests")
        pstats.Stats(profiler, stream=sys.stdout).sort_stats("tottime").print_stats(30)


def compare(bench: Bench, *, smoke: bool) -> dict[str, Any]:
    """Measure each way of asking, print it, and return the ratios."""
    ratios: dict[str, Any] = {}
    rounds, total = (3, 40) if smoke else (12, 400)
    for by, url in bench.urls.items():
        for at_once in (1, AT_ONCE):
            work = {
                name: partial(bench.sample, fetch, url, total // at_once, at_once)
                for name, fetch in bench.cases.items()
            }
            found = alternate(work, rounds)
            floor = found["httpx2"]
            title = f"by {by}, {f'{at_once} at once' if at_once > 1 else 'one after the other'}"
            print(f"\n{title}, per request")
            costs(found.values(), floor, micros, "us")
            ratios[title] = {
                name: {
                    "cpu": round(series.ratio(floor), 2),
                    "cpu_of_minima": round(series.ratio_min(floor), 2),
                    "wall": round(series.wall_ratio(floor), 2),
                }
                for name, series in found.items()
            }
    return ratios


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__, ("--profile", {"action": "store_true"}))
    words = [sys.executable, "-c", SERVER]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        try:
            port = int(server.stdout.readline()) if server.stdout is not None else 0
            with asyncio.Runner() as runner:
                bench = Bench(runner, port)
                if options.profile:
                    profile(bench)
                    return
                ratios = compare(bench, smoke=options.smoke)
                runner.run(bench.close())
        finally:
            server.terminate()
    print(f"goal for `ctx.http`: {GOAL} or less")
    finish("http_guard", {"ratio_to_httpx2": ratios, "goal": GOAL})


if __name__ == "__main__":
    start(main)
