"""A storm: 2,000 connections at once that post one completion each, against one HTTP process and several.

    python tests/benchmarks/storm_service.py                    # 1 and 2 processes, 5 storms each, in turn
    python tests/benchmarks/storm_service.py --processes 1 4 --storms 10

The storm comes from h2load (Debian: nghttp2-client), a compiled client in a process of its own. Meanwhile another
process asks /healthz again and again, each time over a new connection. Services of all sizes run at the same time and
get their storms in turn, so that a noisy machine is noisy for all. Exit code 0 where every post got its verdict and
the 99th percentile of the health checks is below 100 ms, else 1.
"""

import argparse
import contextlib
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

from load_service import Target, own_service, percentile, probing, wait_until_ready

MAX_HEALTH_SECONDS = 0.1
ITEM = {"completion": r"We add the two, and so it is \boxed{\frac{84}{2}}.", "reference": "42"}


@dataclass
class Size:
    """A service with so many HTTP processes, and what its storms came to."""

    processes: int
    target: Target
    posts_a_second: list[float] = field(default_factory=list)
    slowest: list[float] = field(default_factory=list)  # seconds, of each storm's posts
    health: list[float] = field(default_factory=list)  # seconds
    refused: int = 0


def storm(target: Target, connections: int, body: str) -> tuple[float, float, int]:
    """Posts a second, the slowest post in seconds, and how many got no 200."""
    url = f"http://{target.host}:{target.port}/v1/grade"
    count = str(connections)
    command = ["h2load", "--h1", "-n", count, "-c", count, "-d", body, "-H", "Content-Type: application/json", url]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rate = re.search(r"finished in .*?, ([\d.]+) req/s", said)
    good = re.search(r"status codes: (\d+) 2xx", said)
    slowest = re.search(r"time for request:\s+\S+\s+([\d.]+)(us|ms|s)\b", said)
    if rate is None or good is None or slowest is None:
        sys.exit(f"storm_service.py: h2load said something else than expected:\n{said}")
    scale = {"us": 1e-6, "ms": 1e-3, "s": 1.0}[slowest[2]]
    return float(rate[1]), float(slowest[1]) * scale, connections - int(good[1])


def measure(size: Size, connections: int, body: str) -> None:
    with probing(size.target) as health:
        rate, slowest, refused = storm(size.target, connections, body)
    size.health += health
    size.posts_a_second.append(rate)
    size.slowest.append(slowest)
    size.refused += refused


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2], help="HTTP processes (1 2)")
    parser.add_argument("--workers", type=int, default=2, help="grading processes of each service (2)")
    parser.add_argument("--connections", type=int, default=2000, help="at once, each with one post (2000)")
    parser.add_argument("--storms", type=int, default=5, help="for each service (5)")
    args = parser.parse_args()
    if shutil.which("h2load") is None:
        sys.exit("storm_service.py: h2load is missing: apt-get install nghttp2-client")
    with contextlib.ExitStack() as stack, tempfile.NamedTemporaryFile("w", suffix=".json") as body:
        json.dump({"items": [ITEM]}, body)
        body.flush()
        sizes = []
        for processes in args.processes:
            flags = ["--http-processes", str(processes), "--workers", str(max(args.workers, processes))]
            target, _ = stack.enter_context(own_service(flags=[*flags, "--no-access-log"]))
            wait_until_ready(target)
            sizes.append(Size(processes, target))
        for _ in range(args.storms):
            for size in sizes:
                measure(size, args.connections, body.name)
    print("HTTP processes   posts/s   ratio   slowest post ms   /healthz p50 ms    p99 ms  checks  not answered")
    base = sizes[0].posts_a_second
    for size in sizes:
        ratio = statistics.median(one / other for one, other in zip(size.posts_a_second, base, strict=True))
        p50, p99 = (1000 * percentile(size.health, share) for share in (0.5, 0.99))
        print(
            f"{size.processes:>14}{statistics.median(size.posts_a_second):>10,.0f}{ratio:>8.2f}"
            f"{1000 * max(size.slowest):>18.0f}{p50:>18.1f}{p99:>10.1f}{len(size.health):>8}{size.refused:>14}"
        )
    good = all(not size.refused and percentile(size.health, 0.99) < MAX_HEALTH_SECONDS for size in sizes)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
