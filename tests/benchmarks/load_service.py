"""Loads a reward service over real sockets and prints what it bears.

    python tests/benchmarks/load_service.py                      # starts a service of its own, and stops it
    python tests/benchmarks/load_service.py --url http://127.0.0.1:8000 --token SECRET

Four loads, one after the other:

* ``single``: one completion per POST to /get_reward and a new connection for each, as OpenRLHF's own client does it.
* ``batch``: 256 completions per POST to /v1/grade over a few connections, as this project's client does it.
* ``clean``: as single, and the measure for the last.
* ``hostile``: the same, but one in a hundred is a row made to hang a grader; the times are those of the others.

The connections are opened over the first few seconds. Meanwhile another process asks /healthz again and again, each
time over a new connection. Exit code 0 where there was no error, the slowest health check took less than 50 ms and the
hostile rows have not doubled the others' p95, else 1.

``--rows`` and ``--hostile`` name JSON lines (.gz too) with "completion" and "gold", in place of the built-in rows.
"""

import argparse
import asyncio
import contextlib
import gzip
import itertools
import json
import math
import multiprocessing
import os
import random
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

MAX_HEALTH_SECONDS = 0.05
MAX_SLOWDOWN = 2.0
PROBE_SECONDS = 0.02
RAMP_SECONDS = 4.0  # from the first connection to the last; rollouts do not end all at once either

BATCH_ITEMS = 256
BATCH_CONNECTIONS = 8

REASONING = "We write down what is known, name the unknown x, and solve step by step. " * 12


@dataclass(frozen=True)
class Row:
    completion: str
    reference: str


@dataclass(frozen=True)
class Target:
    host: str
    port: int
    token: str | None

    def post(self, path: str, body: Any, close: bool) -> bytes:
        """A whole HTTP request."""
        content = json.dumps(body).encode()
        head = [
            f"POST {path} HTTP/1.1",
            f"Host: {self.host}:{self.port}",
            "Content-Type: application/json",
            f"Content-Length: {len(content)}",
            f"Connection: {'close' if close else 'keep-alive'}",
        ]
        if self.token:
            head.append(f"Authorization: Bearer {self.token}")
        return "\r\n".join([*head, "", ""]).encode() + content


# What is sent


def built_in_rows(count: int, seed: int = 0) -> list[Row]:
    """Rows of the usual kinds, all different; the last two of eight are wrong."""
    rng = random.Random(seed)
    rows = []
    for i in range(count):
        a, b, c = rng.randint(2, 999), rng.randint(2, 99), rng.randint(2, 9)
        answer, reference = [
            (f"{a}", f"{a}"),
            (rf"\frac{{{a}}}{{{b}}}", f"{a}/{b}"),
            (f"{a / 8}", rf"\frac{{{a}}}{{8}}"),
            (f"({a}, {b})", f"({a},{b})"),
            (rf"{a}\sqrt{{{c}}}", rf"\sqrt{{{c}}} \cdot {a}"),
            (f"{a}x+{b}", f"{b} + {a}x"),
            (f"{a}", f"{a + b}"),
            (rf"\frac{{{a}}}{{{b}}}", rf"\frac{{{a}}}{{{b + 1}}}"),
        ][i % 8]
        rows.append(Row(rf"{REASONING}So it is \boxed{{{answer}}}.", reference))
    return rows


def built_in_hostile_rows() -> list[Row]:
    return [
        Row(r"\boxed{9^{9^{9^{9}}}}", r"\sqrt{2}"),
        Row(rf"\boxed{{{'(' * 400}1{')' * 400}}}", "1"),
        Row(r"\boxed{\frac{1}{2004!^{99}}}", r"\frac{1}{2006!}"),
        Row(rf"\boxed{{{'x+' * 5000}x}}", "5001x"),
        Row(r"\boxed{\sum_{k=1}^{10^{12}} \frac{1}{k^2}}", r"\frac{\pi^2}{6}"),
        Row(r"\boxed{(x+1)^{10000}-(x-1)^{10000}}", r"(x+2)^{10000}"),
    ]


def read_rows(path: Path) -> list[Row]:
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    rows = [json.loads(line) for line in content.splitlines()]
    return [Row(row["completion"], row["gold"]) for row in rows if isinstance(row.get("completion"), str)]


def single(target: Target, row: Row) -> bytes:
    prompt = "Solve it. "
    body = {"query": [prompt + row.completion], "prompts": [prompt], "labels": [row.reference]}
    return target.post("/get_reward", body, close=True)


def batch(target: Target, rows: list[Row]) -> bytes:
    items = [{"completion": row.completion, "reference": row.reference} for row in rows]
    return target.post("/v1/grade", {"items": items}, close=False)


# Sending it


class _Answer(asyncio.Protocol):
    """Reads one HTTP answer at a time from a connection."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._expected = 0
        self._done: asyncio.Future[int] | None = None
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def ask(self, request: bytes) -> "asyncio.Future[int]":
        """A future of the answer's status."""
        self._buffer.clear()
        self._expected = 0
        self._done = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return self._done

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._expected:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self._buffer[:end]).lower()
            length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
            self._expected = end + 4 + int(length)
        if len(self._buffer) >= self._expected and self._done and not self._done.done():
            self._done.set_result(int(self._buffer[9:12]))

    def connection_lost(self, error: Exception | None) -> None:
        if self._done and not self._done.done():
            self._done.set_result(0)


@dataclass
class Measured:
    """What one load came to."""

    name: str
    items: int
    seconds: float
    latencies: list[float]  # seconds, of those that count
    errors: int
    health: float  # seconds, the slowest


async def send_all(
    target: Target, requests: list[bytes], connections: int, keep_alive: bool
) -> tuple[list[float], list[int]]:
    """Sends every request over so many connections at once; the latencies in seconds and the statuses, 0 for none."""
    loop = asyncio.get_running_loop()
    latencies = [0.0] * len(requests)
    statuses = [0] * len(requests)
    todo = iter(range(len(requests)))

    async def one_connection(number: int) -> None:
        await asyncio.sleep(RAMP_SECONDS * number / connections)
        connection: _Answer | None = None
        for i in todo:
            start = time.perf_counter()
            try:
                if connection is None or not keep_alive:
                    _, connection = await loop.create_connection(_Answer, target.host, target.port)
                statuses[i] = await connection.ask(requests[i])
            except OSError:
                connection = None
            latencies[i] = time.perf_counter() - start
            if connection is not None and not keep_alive:
                connection.transport.close()
        if connection is not None:
            connection.transport.close()

    await asyncio.gather(*[one_connection(number) for number in range(connections)])
    return latencies, statuses


def probe(host: str, port: int, stop: Any, results: Any) -> None:
    """Says that it begins, and asks /healthz until it is told to stop; sends back the seconds of each answer, infinity
    where one failed."""
    request = f"GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
    latencies: list[float] = []
    results.put(None)
    while not (stop.is_set() and latencies):
        start = time.perf_counter()
        try:
            with socket.create_connection((host, port), timeout=30) as connection:
                connection.sendall(request)
                answered = connection.recv(4096).startswith(b"HTTP/1.1 200")
        except OSError:
            answered = False
        latencies.append(time.perf_counter() - start if answered else float("inf"))
        time.sleep(PROBE_SECONDS)
    results.put(latencies)


@contextlib.contextmanager
def probing(target: Target) -> Iterator[list[float]]:
    """Health checks by another process meanwhile; afterwards the list has the seconds of each answer."""
    context = multiprocessing.get_context("spawn")
    stop, results = context.Event(), context.Queue()
    prober = context.Process(target=probe, args=(target.host, target.port, stop, results), daemon=True)
    prober.start()
    results.get()  # It has to import this module first.
    health: list[float] = []
    try:
        yield health
    finally:
        stop.set()
        health += results.get()
        prober.join()


def load(
    name: str,
    target: Target,
    requests: list[bytes],
    items_each: int,
    connections: int,
    keep_alive: bool = False,
    counts: list[bool] | None = None,
) -> Measured:
    """Sends a load. ``counts``: which of the requests' latencies count; all where it is None."""
    with probing(target) as health:
        start = time.perf_counter()
        latencies, statuses = _run(send_all(target, requests, connections, keep_alive))
        seconds = time.perf_counter() - start
    errors = sum(status != 200 for status in statuses)
    counted = latencies if counts is None else list(itertools.compress(latencies, counts))
    return Measured(name, len(requests) * items_each, seconds, counted, errors, max(health))


def _run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    try:
        from uvloop import run
    except ImportError:
        from asyncio import run
    return run(coroutine)


# The whole of it


def percentile(values: list[float], share: float) -> float:
    """The smallest value that so large a share of the values does not exceed."""
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]


def table(measured: list[Measured]) -> str:
    """Times in milliseconds."""
    lines = ["load      items/s    p50 ms    p95 ms    p99 ms  errors  slowest /healthz ms"]
    for m in measured:
        p50, p95, p99 = (1000 * percentile(m.latencies, share) for share in (0.5, 0.95, 0.99))
        lines.append(
            f"{m.name:<8}{m.items / m.seconds:>9,.0f}{p50:>10.1f}{p95:>10.1f}{p99:>10.1f}{m.errors:>8}"
            f"{1000 * m.health:>21.1f}"
        )
    return "\n".join(lines)


@contextlib.contextmanager
def own_service(command: list[str] | None = None, flags: Sequence[str] = ()) -> Iterator[tuple[Target, int]]:
    """Starts the service (or ``command``, which takes its flags) on a free port, without a token; with its pid."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MATH_REWARD_")}
    command = [*(command or [sys.executable, "-m", "math_reward"]), "serve", "--port", "0", "--exit-on-stdin-close"]
    command += flags
    process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        url = process.stdout.readline().rpartition(" ")[2].strip()
        if not url:
            sys.exit("load_service.py: the service did not start.")
        try:
            yield target_of(url, None), process.pid
        finally:
            process.terminate()


def target_of(url: str, token: str | None) -> Target:
    parts = urlsplit(url)
    return Target(parts.hostname or "127.0.0.1", parts.port or 80, token)


def wait_until_ready(target: Target) -> None:
    give_up_at = time.monotonic() + 120
    url = f"http://{target.host}:{target.port}/readyz"
    while time.monotonic() < give_up_at:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=30):
            return
        time.sleep(0.1)
    sys.exit(f"load_service.py: {url} did not answer 200 within 120 s.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="the service's address; left out, it starts one of its own")
    parser.add_argument("--token", help="what the service wants as bearer token")
    parser.add_argument("--rows", type=Path, help="JSON lines of rows")
    parser.add_argument("--hostile", type=Path, help="JSON lines of hostile rows")
    parser.add_argument("--connections", type=int, default=2000, help="at once, in all loads but batch (2000)")
    parser.add_argument("--posts", type=int, default=20_000, help="in each load but batch (20000)")
    parser.add_argument("--batches", type=int, default=200, help="of 256 items (200)")
    parser.add_argument(
        "--only", nargs="+", choices=["single", "batch", "hostile"], help="which loads; all by default"
    )
    args = parser.parse_args()
    wanted = args.only or ["single", "batch", "hostile"]
    source = read_rows(args.rows) if args.rows else built_in_rows(args.posts)
    rows = list(itertools.islice(itertools.cycle(source), max(args.posts, BATCH_ITEMS * args.batches)))
    hostile_rows = itertools.cycle(read_rows(args.hostile) if args.hostile else built_in_hostile_rows())

    def measure(target: Target) -> Iterator[Measured]:
        singles = [single(target, row) for row in rows[: args.posts]]
        if "single" in wanted:
            yield load("single", target, singles, 1, args.connections)
        if "batch" in wanted:
            chunks = [rows[i : i + BATCH_ITEMS] for i in range(0, BATCH_ITEMS * args.batches, BATCH_ITEMS)]
            requests = [batch(target, chunk) for chunk in chunks]
            yield load("batch", target, requests, BATCH_ITEMS, BATCH_CONNECTIONS, keep_alive=True)
        if "hostile" in wanted:
            yield load("clean", target, singles, 1, args.connections)
            counts = [i % 100 != 50 for i in range(args.posts)]
            mixed = [one if counts[i] else single(target, next(hostile_rows)) for i, one in enumerate(singles)]
            yield load("hostile", target, mixed, 1, args.connections, counts=counts)

    service = contextlib.nullcontext((target_of(args.url, args.token), 0)) if args.url else own_service()
    with service as (target, _):
        wait_until_ready(target)
        measured = list(measure(target))
    print(table(measured))
    by_name = {m.name: m for m in measured}
    good = all(m.errors == 0 and m.health < MAX_HEALTH_SECONDS for m in measured)
    if "hostile" in by_name:
        p95 = {name: percentile(by_name[name].latencies, 0.95) for name in ("clean", "hostile")}
        print(f"The hostile rows made the others' p95 {p95['hostile'] / p95['clean']:.2f} times as long.")
        good = good and p95["hostile"] <= MAX_SLOWDOWN * p95["clean"]
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
