"""Attacks the reward service on what SECURITY.md promises, and prints a table.

    python tests/benchmarks/service_attacks.py [--only "4 MB of blanks"] [--items 20000]
    python tests/benchmarks/service_attacks.py --only soak --seconds 3600

Starts a service for each attack. Everything stays on the loopback interface and is bounded. ``--items`` is the number
of items with known verdicts beside load and kills, ``--seconds`` the length of the soak. Exit code 1 where an attack
did not end as SECURITY.md promises. Meanwhile another process looks at the service every 20 ms: how far its own
process grows (MiB, its workers not counted), and how long a health check takes.
"""

import argparse
import contextlib
import itertools
import json
import math
import multiprocessing
import random
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import psutil
from live_service import MIB, LiveServer, ask, body_of, cpu_seconds, known_items, started

from math_reward.client import Client, Item

MAX_GROWTH = 300  # MiB, beyond what the bodies themselves hold
MAX_HEALTH = 0.1  # seconds
CLIENTS = 16


# The service


def grade(server: LiveServer, *items: dict[str, Any]) -> list[str]:
    """The verdicts, in order; none where the service refused."""
    status, content = ask(server.url, "/v1/grade", body_of(*items))
    return [result["verdict"] for result in json.loads(content)["results"]] if status == 200 else []


def connect(server: LiveServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=20)


def fork_server(server: LiveServer) -> psutil.Process:
    children = psutil.Process(server.process.pid).children()
    return next(child for child in children if child.children() or "forkserver" in str(child.cmdline()))


def workers(server: LiveServer) -> list[psutil.Process]:
    return fork_server(server).children()


@contextlib.contextmanager
def watched(server: LiveServer) -> Iterator[list[float]]:
    """Afterwards the list has the slowest health check in seconds, and how many MiB the service's process grew."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    watcher = context.Process(target=_watch, args=(server.url, server.process.pid, there), daemon=True)
    watcher.start()
    here.recv()  # It has to import this module first.
    found: list[float] = []
    try:
        yield found
    finally:
        here.send(None)
        found += here.recv()
        watcher.join()


def _watch(url: str, pid: int, pipe: Connection) -> None:
    own = psutil.Process(pid)
    before, slowest, grown = own.memory_info().rss, 0.0, 0.0
    pipe.send(None)
    while not pipe.poll(0.02):
        start = time.perf_counter()
        status, _ = ask(url, "/healthz")
        slowest = max(slowest, time.perf_counter() - start if status == 200 else math.inf)
        grown = max(grown, (own.memory_info().rss - before) / MIB)
    pipe.send([slowest, grown])


# What is sent


def right_item() -> dict[str, str]:
    """A right item that the service cannot have seen."""
    number = random.randrange(10**9)
    return {"completion": rf"\boxed{{{number}}}", "reference": str(number)}


def slow_right_item() -> dict[str, str]:
    """It takes about 0.25 s of CPU time: more than a head start, far less than a deadline."""
    number = random.randrange(10**9)
    text = "+".join(rf"\sum_{{k=1}}^{{1900}}\frac{{{number}}}{{k^{power}}}" for power in (1, 2, 3))
    return {"completion": rf"\boxed{{{text}}}", "reference": text.replace("k", "j")}


def endless_item() -> dict[str, str]:
    """It takes more than a deadline."""
    text = rf"\int_0^1 \ln(1+{random.randrange(10**6)}x^3)\cos(x^2)\,dx"
    return {"completion": rf"\boxed{{{text}}}", "reference": f"{text.replace('x', 'y')}+1"}


# Attacks


class Outcome(NamedTuple):
    """What came of an attack. ``kept``: what is promised held. ``held``: MiB that the bodies themselves are."""

    text: str
    kept: bool
    held: float = 0.0


Attack = Callable[[LiveServer], Outcome]


def wrong_verdicts(server: LiveServer, count: int, seed: int = 0) -> int:
    """How many of so many items with known verdicts, one in 200 of them slow, are graded wrongly for 16 clients."""
    items = known_items(count, seed)
    items[::200] = [(slow_right_item(), True) for _ in items[::200]]

    def wrong(chunk: list[tuple[dict[str, str], bool]]) -> int:
        status, body = 429, body_of(*(item for item, _ in chunk))
        while status in (429, 503):
            status, content = ask(server.url, "/v1/grade", body, wait=600)
            time.sleep(status != 200)
        if status != 200:
            return len(chunk)
        results = json.loads(content)["results"]
        return sum(result["correct"] is not correct for result, (_, correct) in zip(results, chunk, strict=True))

    with ThreadPoolExecutor(CLIENTS) as clients:
        return sum(clients.map(wrong, [items[i : i + 50] for i in range(0, count, 50)]))


def known_verdicts(server: LiveServer, count: int) -> Outcome:
    """Nothing else happens."""
    found = wrong_verdicts(server, count)
    return Outcome(f"{found} of {count} wrong", not found)


def beside_load(server: LiveServer, items: int) -> Outcome:
    """Known verdicts beside eight processes that use up the CPU."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(8)]
    try:
        return known_verdicts(server, items)
    finally:
        for process in busy:
            process.kill()
            process.wait()


def beside_kills(server: LiveServer, items: int, seconds: float, of_fork_server: bool) -> Outcome:
    """Known verdicts while a worker is killed again and again, 25 times at most, or the fork server with it."""
    ended, kills = threading.Event(), 0

    def kill() -> None:
        nonlocal kills
        while kills < 25 and not ended.wait(seconds):
            with contextlib.suppress(psutil.Error, StopIteration, IndexError):
                victims = [random.choice(workers(server)), fork_server(server)]
                for victim in victims if of_fork_server else victims[:1]:
                    victim.kill()
                kills += 1

    killer = threading.Thread(target=kill)
    killer.start()
    outcome = known_verdicts(server, items)
    ended.set()
    killer.join()
    return outcome._replace(text=f"{outcome.text}, {kills} kills")


def posted(path: str, begin: str, value: str, end: str, expected: int, size: int = 4 * MIB) -> Attack:
    """A body of this size with the value as often as there is room."""

    def attack(server: LiveServer) -> Outcome:
        body = (begin + value * ((size - len(begin) - len(end)) // len(value)) + end).encode()
        start = time.perf_counter()
        status, _ = ask(server.url, path, body)
        said = f"HTTP {status}" if status else "no answer"
        return Outcome(f"{said} in {time.perf_counter() - start:.1f} s", status == expected, size / MIB)

    return attack


def raw_post(*items: dict[str, str]) -> bytes:
    """A whole request."""
    body = body_of(*items)
    length = f"Content-Type: application/json\r\nContent-Length: {len(body)}"
    return f"POST /v1/grade HTTP/1.1\r\nHost: localhost\r\n{length}\r\n\r\n".encode() + body


def hang_up(server: LiveServer) -> Outcome:
    """60 items that run into their deadline, from a client that hangs up; how long does another's slow one take?"""
    with connect(server) as connection:
        connection.sendall(raw_post(*(endless_item() for _ in range(60))))
        time.sleep(3)
    start = time.perf_counter()
    verdicts = grade(server, slow_right_item())
    seconds = time.perf_counter() - start
    return Outcome(f"{verdicts} after {seconds:.1f} s", verdicts == ["correct"] and seconds < 10)


def neighbours(server: LiveServer) -> Outcome:
    """130 slow items in one request; how long do another client's two ordinary items take, twice?"""
    hard = [slow_right_item() for _ in range(130)]
    threading.Thread(target=grade, args=(server, *hard), daemon=True).start()
    time.sleep(0.5)
    slowest, kept = 0.0, True
    for _ in range(2):
        start = time.perf_counter()
        kept = kept and grade(server, right_item(), right_item()) == ["correct"] * 2
        slowest = max(slowest, time.perf_counter() - start)
    return Outcome(f"two items wait {slowest:.1f} s at most", kept and slowest < 3)


def long_references(server: LiveServer) -> Outcome:
    """600 different references of 900 kB; how large does a worker become?"""
    before = max(worker.memory_info().rss for worker in workers(server))
    for begin in range(0, 600, 4):
        grade(server, *({"completion": "1", "reference": f"{begin + i} " + "7" * 900_000} for i in range(4)))
    grown = (max(worker.memory_info().rss for worker in workers(server)) - before) / MIB
    return Outcome(f"a worker grows by {grown:.0f} MiB", grown < 150)


def odd_numbers(server: LiveServer) -> Outcome:
    """1e999 and infinity as references, beside a right item."""
    said = []
    for number in ("1e999", "Infinity", "-Infinity"):
        items = f'{{"completion": "7", "reference": {number}}}, {json.dumps(right_item())}'
        status, content = ask(server.url, "/v1/grade", f'{{"items": [{items}]}}'.encode())
        results = json.loads(content)["results"] if status == 200 else []
        said.append("/".join(result["verdict"] for result in results) or str(status))
    return Outcome(", ".join(said), said == ["bad_reference/correct"] * 3)


def white_space(server: LiveServer) -> Outcome:
    """What a degenerate policy writes, 3.2 kB and 1 MB of it."""
    texts = ["I think" + " \n" * 1600 + "x", "I think" + " \n" * 500_000 + "x", "$" * MIB, "\\boxed{" * 150_000]
    start = time.perf_counter()
    verdicts = grade(server, *({"completion": text, "reference": "42"} for text in texts))
    text = f"{'/'.join(sorted(set(verdicts)))} in {time.perf_counter() - start:.1f} s"
    return Outcome(text, bool(verdicts) and not {"timeout", "error"} & set(verdicts), 3.0)


def many_bodies(server: LiveServer) -> Outcome:
    """Forty-eight bodies of 4 MB at once."""
    body = body_of(*[{"completion": "x " * 400 + r"\boxed{1}", "reference": "2"}] * 4000)
    body = body[:-1] + b" " * (4 * MIB - len(body) - 16) + b"}"
    with ThreadPoolExecutor(48) as clients:
        statuses = Counter(clients.map(lambda _: ask(server.url, "/v1/grade", body)[0], range(48)))
    shown = ", ".join(f"{count} x {status or 'cut off'}" for status, count in sorted(statuses.items()))
    return Outcome(shown, set(statuses) <= {0, 200, 422, 429}, 64.0)


def unread_answers(server: LiveServer) -> Outcome:
    """90 clients that send 4 MB each and read nothing of their answers."""
    own = psutil.Process(server.process.pid)
    before = own.memory_info().rss
    post = raw_post(*({"completion": "1", "reference": f"{'x' * 2000} {i}"} for i in range(1900)))
    with contextlib.ExitStack() as clients:
        for _ in range(90):
            connection = clients.enter_context(connect(server))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            with contextlib.suppress(OSError):
                connection.sendall(post)
                connection.recv(1, socket.MSG_PEEK)
        grown = (own.memory_info().rss - before) / MIB
    return Outcome(f"{grown:.0f} MiB more", grown < 100, 64.0)


def choices(server: LiveServer) -> Outcome:
    """Lists of letters that are no answer, which once took exponential time."""
    texts = [
        r"\boxed{" + sign.join(f"({letter})" for letter in "ABCDEFGHIJ" * 4) + " x}" for sign in (" ", ", ", " and ")
    ]
    start = time.perf_counter()
    verdicts = grade(server, *({"completion": text, "reference": "A"} for text in texts * 40))
    seconds = time.perf_counter() - start
    return Outcome(f"{'/'.join(sorted(set(verdicts)))} in {seconds:.1f} s", "timeout" not in verdicts and seconds < 2)


def endless_head(server: LiveServer) -> Outcome:
    """64 MB of header lines on one connection."""
    sent, lines = 0, (b"X-A: " + b"a" * 1000 + b"\r\n") * 64
    with contextlib.suppress(OSError), connect(server) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        while sent < 64 * MIB:
            connection.sendall(lines)
            sent += len(lines)
    return Outcome(f"{sent / MIB:.1f} MiB taken", sent < 8 * MIB)


def readiness(server: LiveServer) -> Outcome:
    """500 readiness checks from 16 clients: how much CPU time of the workers did they cost?"""
    time.sleep(1.5)
    before = sum(map(cpu_seconds, workers(server)))
    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(lambda _: ask(server.url, "/readyz"), range(500)))
    cpu = sum(map(cpu_seconds, workers(server))) - before
    return Outcome(f"{1000 * cpu:.0f} ms of the workers", cpu < 0.2)


def two_services(_: LiveServer, items: int) -> Outcome:
    """A client with two services, of which one or the other is killed and started again on its port every two seconds;
    every other time the second comes back with another token, so that it answers 401."""
    servers = [LiveServer("--workers", "2", "--no-access-log").when_ready() for _ in range(2)]
    known, ended = known_items(items), threading.Event()

    def trouble() -> None:
        for kill in itertools.count():
            if ended.wait(2):
                return
            dead = servers[kill % 2]
            for process in dead.everything():
                with contextlib.suppress(psutil.Error):
                    process.kill()
            token = {"MATH_REWARD_TOKEN": secrets.token_hex()} if kill % 4 == 1 else {}
            servers[kill % 2] = LiveServer("--workers", "2", "--no-access-log", "--port", str(dead.port), **token)

    troubles = threading.Thread(target=trouble)
    troubles.start()
    with Client([server.url for server in servers], deadline=300, batch_size=16) as client:
        found = list(client.grade_many((Item(**item) for item, _ in known), return_exceptions=True))
        asked_again = client.stats.retries
    ended.set()
    troubles.join()
    for server in servers:
        server.stop()
    lost = sum(isinstance(one, Exception) for one in found)
    pairs = [(one, right) for one, (_, right) in zip(found, known, strict=True) if not isinstance(one, Exception)]
    wrong = sum(one.correct is not right for one, right in pairs)
    return Outcome(f"{wrong} wrong and {lost} lost of {items}, {asked_again} asked again", not wrong and not lost)


def soak(server: LiveServer, seconds: float) -> Outcome:
    """Rounds of 200 known items from 16 clients, 20 connections that say nothing, a health check and a killed worker;
    how much do the service's process, its descriptors and threads grow after the first third?"""
    own, begin = psutil.Process(server.process.pid), time.monotonic()
    wrong, sizes = 0, []
    while (passed := time.monotonic() - begin) < seconds:
        with contextlib.ExitStack() as idle:
            for _ in range(20):
                idle.enter_context(connect(server))
            wrong += wrong_verdicts(server, 200, seed=int(1000 * passed))
            for path in ("/readyz", "/metrics"):
                ask(server.url, path)
        with contextlib.suppress(psutil.Error, StopIteration, IndexError):
            random.choice(workers(server)).kill()
        time.sleep(3)
        if passed > seconds / 3:
            sizes.append((own.memory_info().rss / MIB, own.num_fds(), own.num_threads()))
    grown = [max(values) - values[0] for values in zip(*sizes, strict=True)]
    said = f"{wrong} wrong, {seconds:.0f} s; {grown[0]:.0f} MiB, {grown[1]} descriptors and {grown[2]} threads more"
    return Outcome(said, not wrong and grown[0] < 20 and grown[1] < 10 and grown[2] < 3)


DISTURBED = [
    "load 8 and 16 clients",
    "kills of workers",
    "kills of the fork server",
    "48 bodies of 4 MB at once",
    "soak",
]
"""Health is not judged where the machine is made busy, or processes are killed, on purpose."""


def attacks(items: int, seconds: float) -> dict[str, Attack]:
    """By their names."""
    path, one = "/v1/grade", '{"items":[{"completion":"1","reference":'
    return {
        DISTURBED[0]: lambda server: beside_load(server, items),
        DISTURBED[1]: lambda server: beside_kills(server, items, 0.1, of_fork_server=False),
        DISTURBED[2]: lambda server: beside_kills(server, items, 1.0, of_fork_server=True),
        "60 slow items, client hangs up": hang_up,
        "130 slow items in one request, another client's two": neighbours,
        "600 references of 900 kB": long_references,
        "1e999 and Infinity as references": odd_numbers,
        "white space, `$`, `\\boxed{` up to 1 MB": white_space,
        "16 MB of empty items": posted(path, '{"items": [', "{},", "{}]}", 413, 16 * MIB),
        "4 MB of empty items": posted(path, '{"items": [', "{},", "{}]}", 422),
        "4 MB of blanks": posted(path, "", " ", "[]", 422),
        "2 million references": posted(path, f"{one}[", "1,", "1]}]}", 422),
        "4 MB of labels": posted("/get_reward", '{"labels": [', "0.5,", "1]}", 422),
        "4 MB nested": posted(path, '{"items":', "[", "", 422),
        "4 MB of escapes": posted(path, '{"items":[{"reference":"1","completion":"', "\\n", '"}]}', 200),
        "4 MB of one member again and again": posted(path, f'{one}"1"', ',"options":{}', "}]}", 200),
        "48 bodies of 4 MB at once": many_bodies,
        "90 clients that read no answer": unread_answers,
        "120 lists of letters": choices,
        "64 MB of header lines": endless_head,
        "500 readiness checks": readiness,
        "two services behind a client": lambda server: two_services(server, items),
        DISTURBED[4]: lambda server: soak(server, seconds),
    }


def run_attacks(args: argparse.Namespace) -> bool:
    """Prints a line an attack; True where all ended as promised."""
    print("| attack | result | MiB | slowest /healthz, ms | not kept |\n|---|---|---|---|---|")
    good = True
    for name in args.only:
        with started() as server:
            with watched(server) as seen:
                outcome = attacks(args.items, args.seconds)[name](server)
            health, growth = seen
        broken = [] if outcome.kept else ["outcome"]
        broken += ["memory"] if growth - outcome.held > MAX_GROWTH else []
        broken += ["health"] if health > MAX_HEALTH and name not in DISTURBED else []
        print(f"| {name} | {outcome.text} | {growth:.0f} | {1000 * health:.0f} | {', '.join(broken)} |", flush=True)
        good = good and not broken
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*attacks(0, 0)]
    parser.add_argument(
        "--only", nargs="+", choices=names, default=names, metavar="ATTACK", help="which; all by default"
    )
    parser.add_argument("--items", type=int, default=3000, help="with known verdicts, beside load and kills (3000)")
    parser.add_argument("--seconds", type=float, default=60, help="of the soak (60)")
    return 0 if run_attacks(parser.parse_args()) else 1


if __name__ == "__main__":
    sys.exit(main())
