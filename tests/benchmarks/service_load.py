"""Loads a reward service over real sockets, and prints a table.

    python tests/benchmarks/service_load.py                                            # one item a post
    python tests/benchmarks/service_load.py --items 256 --connections 8 --posts 200 --keep-alive
    python tests/benchmarks/service_load.py --old /tmp/before/reward_server --rounds 5
    python tests/benchmarks/service_load.py --beside http://127.0.0.1:8001 --rounds 5

Starts the service of this code with two workers, and on the same transport one that sends each body back, and posts
completions to /v1/grade, by default over a new connection for each. They get the same load in turn, and so do the
service of other code (``--old``, a folder with its package) and one at another address (``--beside``). Medians over
the rounds; memory is that of the service and its workers after the first and after the last round, so that many
rounds show whether anything grows. CPU time is that of the process that answers HTTP, and that of all its processes.
"""

import argparse
import asyncio
import contextlib
import math
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import psutil
from live_service import MIB, ROOT, ask, body_of, cpu_seconds, known_items, started
from tables import markdown

RAMP_SECONDS = 4.0  # from the first connection to the last; rollouts do not end all at once either


class Service(NamedTuple):
    """What is loaded. ``process`` answers HTTP; None for a service that was not started here."""

    url: str
    process: psutil.Process | None

    def total(self, read: Callable[[psutil.Process], float]) -> float:
        """The sum over its processes, those left out that end meanwhile; NaN where they are not known."""
        found = 0.0 if self.process else math.nan
        for process in [self.process, *self.process.children(recursive=True)] if self.process else []:
            with contextlib.suppress(psutil.Error):
                found += read(process)
        return found


@contextlib.contextmanager
def echo() -> Iterator["Service"]:
    """A service that sends each body back, by the same server below."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    options = ["--port", str(port), "--loop", "asyncio", "--http", "h11", "--no-access-log", "--log-level", "error"]
    app = ["--app-dir", str(ROOT / "tests" / "benchmarks"), "echo:app"]
    process = subprocess.Popen([sys.executable, "-m", "uvicorn", *options, *app])
    try:
        while ask(f"http://127.0.0.1:{port}", "/", b"1")[0] != 200:
            time.sleep(0.1)
        yield Service(f"http://127.0.0.1:{port}", psutil.Process(process.pid))
    finally:
        process.kill()
        process.wait()


async def post_all(url: str, bodies: list[bytes], connections: int, keep_alive: bool) -> list[tuple[float, int]]:
    """Posts every body; of each the latency in seconds and the status, 0 for none."""
    answers = [(0.0, 0)] * len(bodies)
    todo = iter(range(len(bodies)))
    host, port = urlsplit(url).hostname, urlsplit(url).port
    head = f"POST /v1/grade HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    head += f"Connection: {'keep-alive' if keep_alive else 'close'}\r\n"

    async def one_connection(number: int) -> None:
        await asyncio.sleep(RAMP_SECONDS * number / connections)
        writer = None
        for i in todo:
            start, status = time.perf_counter(), 0
            try:
                if writer is None:
                    reader, writer = await asyncio.open_connection(host, port)
                writer.write(f"{head}Content-Length: {len(bodies[i])}\r\n\r\n".encode() + bodies[i])
                answer = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(int(answer.partition(b"content-length:")[2].partition(b"\r\n")[0]))
                status = int(answer[9:12])
            except (OSError, EOFError):
                pass
            answers[i] = (time.perf_counter() - start, status)
            if writer is not None and not (keep_alive and status):
                writer.close()
                writer = None

    await asyncio.gather(*map(one_connection, range(connections)))
    return answers


class Seen(NamedTuple):
    """What one load came to."""

    rate: float  # items a second
    p50: float  # ms
    p99: float  # ms
    http: float  # ms of CPU a post, of the process that answers HTTP
    cpu: float  # ms of CPU a post, of all processes
    memory: float  # MiB
    errors: int


def _http(service: Service) -> float:
    return sum(service.process.cpu_times()[:2]) if service.process else math.nan


def loaded(service: Service, bodies: list[bytes], args: argparse.Namespace) -> Seen:
    """Of one load."""
    http, cpu, start = _http(service), service.total(cpu_seconds), time.perf_counter()
    answers = asyncio.run(post_all(service.url, bodies, args.connections, args.keep_alive))
    seconds = time.perf_counter() - start
    times = sorted(latency for latency, _ in answers)
    return Seen(
        args.posts * args.items / seconds,
        1000 * times[len(times) // 2],
        1000 * times[math.ceil(0.99 * len(times)) - 1],
        1000 * (_http(service) - http) / args.posts,
        1000 * (service.total(cpu_seconds) - cpu) / args.posts,
        service.total(lambda process: process.memory_full_info().uss / MIB),
        sum(status != 200 for _, status in answers),
    )


def run_load(args: argparse.Namespace) -> bool:
    """Prints the table; True where every post got its answer."""
    items = [item for item, _ in known_items(args.posts * args.items)]
    bodies = [body_of(*items[i : i + args.items]) for i in range(0, len(items), args.items)]
    seen: dict[str, list[Seen]] = {}
    with contextlib.ExitStack() as stack:
        codes = {"this code": ROOT / "reward_server", **({args.old: Path(args.old)} if args.old else {})}
        services = {}
        for name, code in codes.items():
            server = stack.enter_context(started(code=code))
            services[name] = Service(server.url, psutil.Process(server.process.pid))
        services["echo"] = stack.enter_context(echo())
        if args.beside:
            services[args.beside] = Service(args.beside, None)
        for number in range(args.rounds):
            for name in [*services][:: -1 if number % 2 else 1]:
                seen.setdefault(name, []).append(loaded(services[name], bodies, args))
    rows = []
    for name, rounds in seen.items():
        rate, p50, p99, http, cpu, *_ = (statistics.median(values) for values in zip(*rounds, strict=True))
        pairs = [*zip(rounds, seen["this code"], strict=True)]
        faster = statistics.median(one.rate / base.rate for one, base in pairs)
        dearer = statistics.median(one.cpu / base.cpu for one, base in pairs)
        cells = [f"{rate:,.0f}", f"{faster:.2f}", f"{p50:.1f}", f"{p99:.1f}", f"{http:.2f}", f"{cpu:.2f}"]
        memory = f"{rounds[0].memory:.0f}, {rounds[-1].memory:.0f}"
        rows.append([name, *cells, f"{dearer:.2f}", memory, sum(one.errors for one in rounds)])
    head = ["service", "items/s", "in pairs", "p50 ms", "p99 ms", "HTTP's CPU ms a post", "all CPU ms a post"]
    print(markdown([*head, "in pairs", "MiB first, last", "errors"], rows))
    return not any(one.errors for rounds in seen.values() for one in rounds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=1, help="in a post (1)")
    parser.add_argument("--posts", type=int, default=20_000, help="(20000)")
    parser.add_argument("--connections", type=int, default=2000, help="at once (2000)")
    parser.add_argument("--keep-alive", action="store_true", help="no new connection for each post")
    parser.add_argument("--old", metavar="FOLDER", help="another reward_server/, loaded in turn")
    parser.add_argument("--beside", metavar="URL", help="another service, which gets the same load in turn")
    parser.add_argument("--rounds", type=int, default=1, help="(1)")
    return 0 if run_load(parser.parse_args()) else 1


if __name__ == "__main__":
    sys.exit(main())
