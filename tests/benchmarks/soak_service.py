"""A reward service under full load for 45 minutes, ordinary and hostile rows at once: does anything grow?

    python tests/benchmarks/soak_service.py                       # 45 minutes; draws runs/service_soak.png
    python tests/benchmarks/soak_service.py --minutes 3 --plot try.png

Eight clients post 64 new ordinary rows each, again and again, over connections that live for 20 posts. Beside them two
clients post hostile rows alone, each made to hang a grader and never seen before, so that there is always one to be
killed. Every ordinary verdict is known beforehand and checked. The memory (unique set size, which counts shared pages
for nobody) and open files of the service's own process, and of its fork server and workers together, are read every
few seconds; the latencies of ordinary posts are taken by the minute.

Level means: the median over the last third of the time against the one over the second (the first is start-up).
Exit code 0 if memory, open files and the 99th percentile are level, all verdicts right and no worker lost but to
recycling or to a hostile row's limits; else 1.
"""

import argparse
import http.client
import itertools
import json
import random
import re
import statistics
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from attack_service import MEBIBYTE, endless_item
from load_service import Row, Target, built_in_rows, own_service, percentile, wait_until_ready

CLIENTS = 8
HOSTILE_CLIENTS = 2
ROWS_A_POST = 64
POSTS_A_CONNECTION = 20
LOOK_SECONDS = 5.0
WINDOW_SECONDS = 60.0
BY_DESIGN = {"recycled", "head_start", "deadline"}
"""Reasons to replace a worker: its age, and the two CPU limits that a hostile row runs into."""
MOST_GROWTH = {"memory": 1.10, "files": 1.05, "p99": 1.5}


@dataclass
class Look:
    """What the service held at one moment: its own process, and the others together."""

    seconds: float
    own_mib: float
    own_files: int
    others_mib: float
    others_files: int


@dataclass
class Soak:
    """What the clients saw, by seconds since the start."""

    began: float = field(default_factory=time.monotonic)
    latencies: list[tuple[float, float]] = field(default_factory=list)  # (end, how long) of an ordinary post
    graded: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    hostile: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def now(self) -> float:
        return time.monotonic() - self.began


# What is sent


def ordinary_rows(client: int) -> Iterator[tuple[list[Row], list[bool]]]:
    """Posts of rows without end, with what each row's verdict has to be."""
    for seed in itertools.count(client, CLIENTS):
        rows = built_in_rows(ROWS_A_POST, seed)
        yield rows, [i % 8 < 6 for i in range(len(rows))]


def hostile_rows(client: int) -> Iterator[Row]:
    """Rows made to hang a grader, no two alike."""
    rng = random.Random(client)
    while True:
        n = rng.randrange(10**6, 10**7)
        yield Row(**endless_item())
        yield Row(rf"\boxed{{9^{{9^{{9^{{{n}}}}}}}}}", rf"\sqrt{{{n}}}")
        yield Row(rf"\boxed{{\sum_{{k=1}}^{{{n}}} \frac{{1}}{{k^2}}}}", rf"\frac{{\pi^2}}{{{n}}}")
        yield Row(rf"\boxed{{(x+{n})^{{9000}}-(x-1)^{{9000}}}}", rf"(x+{n})^{{9001}}")
        yield Row(rf"\boxed{{{n}{'(' * 400}1{')' * 400}}}", f"{n}")
        yield Row(f"{n}" + " \n" * 100_000, f"{n}")
        sums = "+".join(rf"\sum_{{k=1}}^{{1900}}\frac{{{n}}}{{k^{power}}}" for power in range(1, 9))
        yield Row(rf"\boxed{{{sums}}}", sums.replace("k", "j"))  # Right, after a second or more.


# Sending it


def results_of(connection: http.client.HTTPConnection, rows: list[Row]) -> list[dict[str, Any]]:
    items = [{"completion": row.completion, "reference": row.reference} for row in rows]
    connection.request("POST", "/v1/grade", json.dumps({"items": items}), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    content = answer.read()
    if answer.status != 200:
        raise OSError(f"HTTP {answer.status}")
    results: list[dict[str, Any]] = json.loads(content)["results"]
    return results


def post_ordinary(soak: Soak, target: Target, client: int, stop: threading.Event) -> None:
    connection = http.client.HTTPConnection(target.host, target.port, timeout=600)
    for number, (rows, expected) in enumerate(ordinary_rows(client)):
        if stop.is_set():
            break
        start = soak.now
        try:
            results = results_of(connection, rows)
            wrong = [r["verdict"] for r, correct in zip(results, expected, strict=True) if r["correct"] is not correct]
        except (OSError, http.client.HTTPException) as error:
            wrong = [str(error) or type(error).__name__] * len(rows)
            connection.close()
        with soak.lock:
            soak.latencies.append((soak.now, soak.now - start))
            soak.graded += len(rows)
            soak.wrong.update(wrong)
        if number % POSTS_A_CONNECTION == POSTS_A_CONNECTION - 1:
            connection.close()  # The next request opens another one.
    connection.close()


def post_hostile(soak: Soak, target: Target, client: int, stop: threading.Event) -> None:
    connection = http.client.HTTPConnection(target.host, target.port, timeout=600)
    for row in hostile_rows(client):
        if stop.is_set():
            break
        verdict = results_of(connection, [row])[0]["verdict"]
        with soak.lock:
            soak.hostile[verdict] += 1
    connection.close()


# Watching it


def look(service: psutil.Process, seconds: float) -> Look:
    mib, files = 0.0, 0
    for child in service.children(recursive=True):
        try:
            mib += child.memory_full_info().uss / MEBIBYTE
            files += child.num_fds()
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue  # It was replaced just now.
    return Look(seconds, service.memory_full_info().uss / MEBIBYTE, service.num_fds(), mib, files)


def restarts(target: Target) -> Counter[str]:
    with urllib.request.urlopen(f"http://{target.host}:{target.port}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    found = re.findall(r'^math_reward_worker_restarts_total\{.*?reason="(\w+)".*?\} (\S+)$', text, re.MULTILINE)
    return +Counter({reason: int(float(count)) for reason, count in found})  # without those that are 0


def p99_by_window(soak: Soak) -> list[tuple[float, float]]:
    """(seconds, 99th percentile of the ordinary posts that ended in the window, in seconds)."""
    windows: dict[int, list[float]] = {}
    for end, latency in soak.latencies:
        windows.setdefault(int(end / WINDOW_SECONDS), []).append(latency)
    return [((number + 0.5) * WINDOW_SECONDS, percentile(values, 0.99)) for number, values in sorted(windows.items())]


def thirds(points: list[tuple[float, float]]) -> tuple[float, float]:
    """Medians over the second and over the last third of the time."""
    length = points[-1][0]
    second = [value for seconds, value in points if length / 3 <= seconds < 2 * length / 3]
    last = [value for seconds, value in points if seconds >= 2 * length / 3]
    return statistics.median(second), statistics.median(last)


def plot(path: Path, curves: dict[str, list[tuple[float, float]]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(13, 3.6), layout="constrained")
    for axis, words, unit in zip(axes, ("memory", "files", "p99"), ("MiB", "", "ms"), strict=True):
        for name, points in curves.items():
            if words in name:
                axis.plot([x / 60 for x, _ in points], [y for _, y in points], label=name, linewidth=1.4)
        axis.set(xlabel="minutes", ylabel=unit)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        axis.legend(frameon=False, fontsize=8, loc="lower right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=45.0)
    parser.add_argument("--workers", type=int, default=2, help="grading processes (2)")
    parser.add_argument("--plot", type=Path, default=Path("runs/service_soak.png"))
    args = parser.parse_args()
    if args.minutes < 3:
        parser.error("--minutes needs to be at least 3, so that each third has a window")
    stop, looks = threading.Event(), []
    with own_service(flags=["--workers", str(args.workers), "--no-access-log"]) as (target, pid):
        wait_until_ready(target)
        service, soak = psutil.Process(pid), Soak()
        clients: list[tuple[Callable[..., None], int]] = [(post_ordinary, i) for i in range(CLIENTS)]
        clients += [(post_hostile, i) for i in range(HOSTILE_CLIENTS)]
        threads = [threading.Thread(target=post, args=(soak, target, i, stop)) for post, i in clients]
        for thread in threads:
            thread.start()
        while soak.now < 60 * args.minutes:
            looks.append(look(service, soak.now))
            if sys.stderr.isatty():
                print(f"\r{soak.now / 60:5.1f} min, {soak.graded:,} rows", end="", file=sys.stderr, flush=True)
            time.sleep(LOOK_SECONDS)
        seconds = soak.now
        stop.set()
        for thread in threads:
            thread.join()
        replaced = restarts(target)
    curves = {
        "memory of the service's process": [(one.seconds, one.own_mib) for one in looks],
        "memory of fork server and workers": [(one.seconds, one.others_mib) for one in looks],
        "files of the service's process": [(one.seconds, float(one.own_files)) for one in looks],
        "files of fork server and workers": [(one.seconds, float(one.others_files)) for one in looks],
        "p99 of ordinary posts": [(x, 1000 * y) for x, y in p99_by_window(soak)],
    }
    plot(args.plot, curves)
    print(f"\n{seconds / 60:.1f} minutes, {soak.graded:,} ordinary rows ({soak.graded / seconds:,.0f} a second)")
    print(f"hostile rows: {dict(soak.hostile)}; ordinary ones with another verdict than known: {dict(soak.wrong)}")
    print(f"workers replaced: {dict(replaced)}")
    print(f"{'':36} second third  last third  ratio")
    good = not soak.wrong and set(replaced) <= BY_DESIGN
    for name, points in curves.items():
        before, after = thirds(points)
        good = good and after <= MOST_GROWTH[name.split()[0]] * before
        print(f"{name:36}{before:13.1f}{after:12.1f}{after / before:7.2f}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
