"""Measures what the event loop's own parts are worth: the service with each and without it, in pairs of runs.

    python tests/benchmarks/bench_event_loop.py bodies         # big requests beside health checks
    python tests/benchmarks/bench_event_loop.py values         # one body of empty arrays: memory and health checks
    python tests/benchmarks/bench_event_loop.py gc_schedule    # two thousand connections, one request each
    python tests/benchmarks/bench_event_loop.py open_cycle     # the same

Each pair starts two services, one after the other, the first with the part in turn. The table has the medians over the
pairs; a health check is a GET of /healthz over a new connection by another process.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from load_service import Target, built_in_rows, own_service, percentile, probing, send_all, single, wait_until_ready

PARTS = ("bodies", "values", "gc_schedule", "open_cycle")


# The service without a part


def serve_without(part: str) -> None:
    """Runs ``math-reward serve`` with the rest of the arguments; ``part`` is left out."""
    from math_reward.cli import main

    if part in ("bodies", "values"):
        import msgspec

        from math_reward.http import bodies, requests

        async def at_once(self: Any, content: bytes | bytearray) -> Any:
            try:
                return msgspec.convert(json.loads(content), self._model)
            except msgspec.ValidationError as fault:
                raise requests.Unusable(str(fault)) from None

        bodies.BodyReader.read = at_once  # type: ignore[method-assign]
    elif part == "gc_schedule":
        from math_reward.http.event_loop import gc_schedule

        class NoSchedule:
            def tick(self, in_flight: int) -> None:
                pass

        gc_schedule.GCSchedule = NoSchedule  # type: ignore[assignment,misc]
    elif part == "open_cycle":
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

        from math_reward.http.event_loop import http_protocol

        made = http_protocol.protocol_of

        def protocol_of(waiting: Any) -> type[HttpToolsProtocol]:
            cls = made(waiting)

            def connection_lost(self: Any, exc: Exception | None) -> None:
                waiting.leaves(self)
                HttpToolsProtocol.connection_lost(self, exc)

            cls.connection_lost = connection_lost  # type: ignore[method-assign]
            return cls

        http_protocol.protocol_of = protocol_of
    main()


# Loads


def big_requests(target: Target) -> list[float]:
    """Two connections that post bodies of 15 MB, 4,096 items each; the requests' latencies in seconds."""
    text = "We write it down, name the unknown x and solve. " * 75
    items = [{"completion": f"{text} \\boxed{{{i}}}", "reference": str(i)} for i in range(4096)]
    request = target.post("/v1/grade", {"items": items}, close=False)
    latencies, statuses = asyncio.run(send_all(target, [request] * 8, 2, keep_alive=True))
    assert set(statuses) == {200}, statuses
    return latencies


def empty_arrays(target: Target) -> list[float]:
    """Bodies of 16 MB of empty arrays."""
    content = b'{"items": [' + b"[]," * 5_300_000 + b"[]]}"
    head = target.post("/v1/grade", None, close=False).replace(
        b"Content-Length: 4", b"Content-Length: %d" % len(content)
    )
    latencies, statuses = asyncio.run(send_all(target, [head.removesuffix(b"null") + content] * 2, 1, keep_alive=True))
    assert set(statuses) == {422}, statuses
    return latencies


def many_connections(target: Target) -> list[float]:
    """Two thousand connections at once, a new one for each of 10,000 requests."""
    requests = [single(target, row) for row in built_in_rows(10_000)]
    latencies, statuses = asyncio.run(send_all(target, requests, 2000, keep_alive=False))
    assert set(statuses) == {200}, set(statuses)
    return latencies


LOADS: dict[str, Callable[[Target], list[float]]] = {
    "bodies": big_requests,
    "values": empty_arrays,
    "gc_schedule": many_connections,
    "open_cycle": many_connections,
}


def measured(part: str, left_out: bool) -> dict[str, float]:
    """One service, one load."""
    command = [sys.executable, str(Path(__file__).resolve()), part, "--serve"] if left_out else None
    with own_service(command) as (target, pid):
        wait_until_ready(target)
        with probing(target) as health:
            before = psutil.Process(pid).cpu_times()
            start = time.perf_counter()
            latencies = LOADS[part](target)
            seconds = time.perf_counter() - start
        after = psutil.Process(pid).cpu_times()
        peak = int(Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024
        return {
            "health p50 ms": 1000 * percentile(health, 0.5),
            "health p99 ms": 1000 * percentile(health, 0.99),
            "health slowest ms": 1000 * max(health),
            "request p50 ms": 1000 * percentile(latencies, 0.5),
            "request p99 ms": 1000 * percentile(latencies, 0.99),
            "seconds": seconds,
            "cpu seconds": after.user + after.system - before.user - before.system,
            "peak memory MiB": peak,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--pairs", type=int, default=5)
    args = parser.parse_args()
    runs: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    for i in range(args.pairs):
        for left_out in (False, True) if i % 2 == 0 else (True, False):
            runs[left_out].append(measured(args.part, left_out))
    print(f"{args.part + ', medians':<24}{'with':>10}{'without':>10}{'with/without':>14}  of each pair")
    for name in runs[False][0]:
        with_it, without = ([run[name] for run in runs[left_out]] for left_out in (False, True))
        ratios = " ".join(f"{a / b:.2f}" for a, b in zip(with_it, without, strict=True))
        a, b = statistics.median(with_it), statistics.median(without)
        print(f"{name:<24}{a:>10.2f}{b:>10.2f}{a / b:>14.2f}  {ratios}", flush=True)


if __name__ == "__main__":
    if "--serve" in sys.argv:
        part = sys.argv[1]
        sys.argv = ["math-reward", *sys.argv[sys.argv.index("--serve") + 1 :]]
        serve_without(part)
    else:
        main()
