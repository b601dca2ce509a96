"""Attacks a reward service of its own and prints what each attack did to it.

    python tests/benchmarks/attack_service.py                              # this code, in under five minutes
    python tests/benchmarks/attack_service.py --before ../older-checkout   # the older code too, beside it
    python tests/benchmarks/attack_service.py --exactness 20000            # no attack may change a verdict: four runs

Everything stays on the loopback interface and is bounded in number and time. For each attack: what came of it, how far
the service's own process grew (MiB, its workers not counted), and the slowest health check in milliseconds, asked by a
process of its own every 20 ms. Exit code 0 where every attack ended as SECURITY.md promises, else 1.

The exactness runs send items whose verdicts are known through 16 clients, and count the verdicts that are wrong: with
nothing else, with 50 kills of a worker, with ten of the fork server, and beside eight processes that use up the CPU.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from load_service import Target, built_in_rows, probing, target_of, wait_until_ready

MEBIBYTE = 2**20
MAX_GROWTH = 300  # MiB, beyond what the bodies themselves hold
MAX_HEALTH = 0.1  # seconds
GIVE_UP_SECONDS = 25.0  # for one answer
CLIENTS = 16
ITEMS_PER_REQUEST = 50

# It takes about 0.25 s of CPU time: more than a head start, far less than a deadline.
SLOW_SUM = "+".join(rf"\sum_{{k=1}}^{{1900}}\frac{{{{}}}}{{k^{power}}}" for power in (1, 2, 3))


# The service


class NotStarted(Exception):
    """A service ended before it listened: a sentence, its exit code, how many tracebacks it wrote."""


class Service:
    """``math-reward serve`` of a checkout, on a free port. ``ulimit``: a limit of the shell that starts it.

    Raises:
        NotStarted: it ended before it listened.
    """

    def __init__(self, checkout: Path, *options: str, ulimit: str = "-c 0", **environment: str) -> None:
        self.checkout = checkout
        clean = {name: value for name, value in os.environ.items() if not name.startswith("MATH_REWARD_")}
        clean["PYTHONPATH"] = str(checkout / "reward_server")
        command = [sys.executable, "-m", "math_reward", "serve", "--port", "0", "--exit-on-stdin-close", *options]
        self._said = tempfile.NamedTemporaryFile("w")  # noqa: SIM115 (it ends with the service)
        self._process = subprocess.Popen(
            ["bash", "-c", f'ulimit {ulimit} && exec "$@"', "-", *command],
            env=clean | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
        )
        assert self._process.stdout is not None
        first = self._process.stdout.readline()
        if not first:
            code = self._process.wait()
            raise NotStarted(f"exit code {code}, {self.tracebacks} tracebacks", code, self.tracebacks)
        self.target: Target = target_of(first.rpartition(" ")[2].strip(), None)
        self.own = psutil.Process(self._process.pid)
        wait_until_ready(self.target)

    @property
    def tracebacks(self) -> int:
        """How many it has written to standard error."""
        return Path(self._said.name).read_text().count("Traceback (most recent call last)")

    @property
    def fork_server(self) -> psutil.Process:
        return next(child for child in self.own.children() if child.children() or "forkserver" in _command(child))

    @property
    def workers(self) -> list[psutil.Process]:
        return [child for child in self.own.children(recursive=True) if child.parent() == self.fork_server]

    def stop(self) -> None:
        for process in [*self.own.children(recursive=True), self.own]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()


def _command(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


class Watch:
    """Measures the service while an attack runs: the slowest health check and how far its own process grew."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._probing = probing(service.target)
        self._watching = threading.Event()
        self.health = 0.0
        self.growth = 0.0

    def __enter__(self) -> "Watch":
        self._seconds = self._probing.__enter__()
        self._before = self._service.own.memory_info().rss
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._watching.set()
        self._thread.join()
        self._probing.__exit__(None, None, None)
        self.health = max(self._seconds)

    def _look(self) -> None:
        while not self._watching.wait(0.01):
            grown = self._service.own.memory_info().rss - self._before
            self.growth = max(self.growth, grown / MEBIBYTE)


# Asking it


def ask(
    target: Target, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, bytes]:
    """Status and body of an answer; status 0 where there was none in time."""
    request = urllib.request.Request(
        f"http://{target.host}:{target.port}{path}",
        data=body,
        headers={"Content-Type": "application/json", **(headers or {})},
    )
    try:
        with urllib.request.urlopen(request, timeout=GIVE_UP_SECONDS) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except OSError:
        return 0, b""


def grade(target: Target, *items: dict[str, Any]) -> list[str]:
    """The verdicts, in order; none where the service refused."""
    status, content = ask(target, "/v1/grade", json.dumps({"items": items}).encode())
    return [result["verdict"] for result in json.loads(content)["results"]] if status == 200 else []


def right_item() -> dict[str, str]:
    """A right item that the service cannot have seen."""
    number = random.randrange(10**9)
    return {"completion": rf"\boxed{{{number}}}", "reference": str(number)}


def slow_right_item() -> dict[str, str]:
    number = random.randrange(10**9)
    text = SLOW_SUM.replace("{}", str(number))
    return {"completion": rf"\boxed{{{text}}}", "reference": text.replace("k", "j")}


def endless_item() -> dict[str, str]:
    """An item that takes more than a deadline."""
    number = random.randrange(10**6)
    text = rf"\int_0^1 \ln(1+{number}x^3)\cos(x^2)\,dx"
    return {"completion": rf"\boxed{{{text}}}", "reference": f"{text.replace('x', 'y')}+1"}


# The attacks


@dataclass
class Outcome:
    """What came of an attack. ``kept``: what is promised held. ``held``: MiB that the bodies themselves are."""

    text: str
    kept: bool
    held: float = 0.0


def _post(path: str, body: bytes, expected: set[int]) -> Callable[[Service], Outcome]:
    def attack(service: Service) -> Outcome:
        start = time.perf_counter()
        status, _ = ask(service.target, path, body)
        seconds = time.perf_counter() - start
        shown = f"HTTP {status} in {seconds:.1f} s" if status else f"no answer in {seconds:.0f} s"
        return Outcome(shown, status in expected, len(body) / MEBIBYTE)

    return attack


def many_bodies(service: Service) -> Outcome:
    """Twelve bodies of 16 MB at once."""
    item = {"completion": "x " * 1000 + r"\boxed{1}", "reference": "2"}
    body = json.dumps({"items": [item] * 4000}).encode()
    body = body[:-1] + b" " * (16 * MEBIBYTE - len(body) - 16) + b"}"
    statuses: Counter[int] = Counter()

    def send() -> None:
        statuses[ask(service.target, "/v1/grade", body)[0]] += 1

    threads = [threading.Thread(target=send) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shown = ", ".join(f"{count} x {status or 'cut off'}" for status, count in sorted(statuses.items()))
    return Outcome(shown, set(statuses) <= {0, 200, 422, 429}, 64.0)


def headers_without_end(service: Service) -> Outcome:
    """64 MB of header lines on one connection."""
    sent = 0
    lines = (b"X-A: " + b"a" * 1000 + b"\r\n") * 64
    address = (service.target.host, service.target.port)
    with contextlib.suppress(OSError), socket.create_connection(address, timeout=20) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        while sent < 64 * MEBIBYTE:
            connection.sendall(lines)
            sent += len(lines)
    return Outcome(f"{sent / MEBIBYTE:.1f} MiB taken", sent < 8 * MEBIBYTE)


def half_open(service: Service) -> Outcome:
    """500 connections that send half a head; are they there after 14 s?"""
    sockets = [socket.create_connection((service.target.host, service.target.port)) for _ in range(500)]
    for connection in sockets:
        connection.sendall(b"GET / HTTP/1.1\r\n")
    time.sleep(14)
    still = len([c for c in service.own.net_connections() if c.status == "ESTABLISHED"])
    for connection in sockets:
        connection.close()
    return Outcome(f"{still} left after 14 s", still < 50)


def hang_up(service: Service) -> Outcome:
    """60 items that run into their deadline, from a client that hangs up; how long does somebody's slow one take?"""
    body = json.dumps({"items": [endless_item() for _ in range(60)]}).encode()
    head = (
        f"POST /v1/grade HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    )
    with socket.create_connection((service.target.host, service.target.port)) as connection:
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        time.sleep(3)
    start = time.perf_counter()
    verdicts = grade(service.target, slow_right_item())
    seconds = time.perf_counter() - start
    return Outcome(f"{verdicts or ['none']} after {seconds:.1f} s", verdicts == ["correct"] and seconds < 10)


def ready_flood(service: Service) -> Outcome:
    """500 readiness checks from 16 clients: how much CPU time of the workers did they cost?"""
    time.sleep(1.5)
    before = sum(sum(worker.cpu_times()[:2]) for worker in service.workers)

    def send() -> None:
        for _ in range(500 // CLIENTS):
            ask(service.target, "/readyz")

    _in_threads([send] * CLIENTS)
    cpu = sum(sum(worker.cpu_times()[:2]) for worker in service.workers) - before
    return Outcome(f"{1000 * cpu:.0f} ms of the workers", cpu < 0.2)


def doors(service: Service) -> Outcome:
    """What is open that should not be, and the other way round."""
    open_ = []
    if ask(service.target, "/v1/recent", headers={"Host": "evil.example"})[0] == 200:
        open_.append("rebinding")
    address = (service.target.host, service.target.port)
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(
            b"GET /v1/recent HTTP/1.1\r\nHost: evil.example\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )
        if connection.recv(4096).startswith(b"HTTP/1.1 200 "):
            open_.append("two Host headers")
    if ask(service.target, "/docs")[0] == 200:
        open_.append("CDN script")
    return Outcome(f"open: {', '.join(open_) or 'none'}", not open_)


def white_space(service: Service) -> Outcome:
    """What a degenerate policy writes, 3.2 kB and 1 MB of it."""
    texts = ["I think" + " \n" * 1600 + "x", "I think" + " \n" * 500_000 + "x", "$" * MEBIBYTE, "\\boxed{" * 150_000]
    start = time.perf_counter()
    verdicts = grade(service.target, *[{"completion": text, "reference": "42"} for text in texts])
    seconds = time.perf_counter() - start
    judged = bool(verdicts) and not set(verdicts) & {"timeout", "error"}
    return Outcome(f"{'/'.join(sorted(set(verdicts)))} in {seconds:.1f} s", judged, 3.0)


def _under(service: Service, count: int, killer: "Killer | None") -> Outcome:
    wrong, refused = exactness(service.target, count, killer)
    again = f", {refused} asked again" if refused else ""
    kills = f", {killer.done} kills" if killer else ""
    return Outcome(f"{sum(wrong.values())} of {count} wrong{kills}{again}", not wrong)


def load(service: Service) -> Outcome:
    """Items with known verdicts through 16 clients beside eight processes that use up the CPU."""
    with busy_processes(8):
        return _under(service, 800, None)


def worker_kills(service: Service) -> Outcome:
    return _under(service, 3000, Killer(service, 25, 0.1, fork_server=False))


def fork_server_kills(service: Service) -> Outcome:
    return _under(service, 3000, Killer(service, 5, 1.0, fork_server=True))


def neighbours(service: Service) -> Outcome:
    """130 slow items in one request; how long do another client's two ordinary items take, again and again?"""
    hard = [slow_right_item() for _ in range(130)]
    hostile = threading.Thread(target=grade, args=(service.target, *hard), daemon=True)
    hostile.start()
    time.sleep(0.5)
    slowest = 0.0
    kept = True
    for _ in range(2):
        start = time.perf_counter()
        kept = kept and grade(service.target, right_item(), right_item()) == ["correct"] * 2
        slowest = max(slowest, time.perf_counter() - start)
    return Outcome(f"two items wait {slowest:.1f} s at most", kept and slowest < 3)


def unread_answers(service: Service) -> Outcome:
    """50 connections post a reference of 15.5 MB and read nothing; what is left of them after 40 s?"""
    body = json.dumps({"items": [{"completion": "1", "reference": "7" * 15_500_000}]}).encode()
    head = (
        f"POST /v1/grade HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    )
    sockets = []
    for _ in range(50):  # One after the other: bodies that come together are refused, since they are too many.
        connection = socket.create_connection((service.target.host, service.target.port), timeout=20)
        sockets.append(connection)
        with contextlib.suppress(OSError):  # It may be refused while it sends.
            connection.sendall(head.encode() + b"\r\n\r\n" + body)
        time.sleep(0.2)
    time.sleep(40)
    left = len([c for c in service.own.net_connections() if c.status in ("ESTABLISHED", "CLOSE_WAIT")])
    for connection in sockets:
        connection.close()
    return Outcome(f"{left} left after 40 s", not left, 2 * 64.0)


def long_references(service: Service) -> Outcome:
    """600 different references of 900 kB; how large does a worker become?"""
    before = max(worker.memory_info().rss for worker in service.workers)
    for begin in range(0, 600, 15):
        items = [{"completion": r"\boxed{1}", "reference": f"{begin + i} " + "7" * 900_000} for i in range(15)]
        grade(service.target, *items)
    grown = (max(worker.memory_info().rss for worker in service.workers) - before) / MEBIBYTE
    return Outcome(f"a worker grows by {grown:.0f} MiB", grown < 150)


def few_files(service: Service) -> Outcome:
    """`ulimit -n 64`: 100 connections with half a head for ten seconds; is a health check answered meanwhile?"""
    small = Service(service.checkout, "--workers", "2", ulimit="-n 64")
    try:
        sockets = [socket.create_connection((small.target.host, small.target.port)) for _ in range(100)]
        for connection in sockets:
            with contextlib.suppress(OSError):
                connection.sendall(b"GET / HTTP/1.1\r\n")
        limit = time.perf_counter() + 10
        answers: Counter[int] = Counter()
        while time.perf_counter() < limit:
            answers[ask(small.target, "/healthz")[0]] += 1
            time.sleep(0.1)
        verdicts = grade(small.target, right_item())
        for connection in sockets:
            connection.close()
        healthy = answers[200] / answers.total()
        text = (
            f"{small.tracebacks} tracebacks, {100 * healthy:.0f} % of health checks answered, {verdicts or ['none']}"
        )
        return Outcome(text, not small.tracebacks and healthy > 0.95 and verdicts == ["correct"])
    finally:
        small.stop()


def small_files(service: Service) -> Outcome:
    """`ulimit -f 40` with two processes that answer HTTP."""
    try:
        two = Service(service.checkout, "--workers", "2", "--http-processes", "2", ulimit="-f 40")
    except NotStarted as end:
        text, code, tracebacks = end.args
        return Outcome(text, code == 2 and not tracebacks)
    verdicts = grade(two.target, right_item())
    two.stop()
    return Outcome(f"{verdicts or ['none']}", verdicts == ["correct"])


def odd_numbers(service: Service) -> Outcome:
    """1e999 and infinity as references, in a short body and 1e999 in a long one, beside a right item."""
    right = json.dumps(right_item())
    said = []
    for number, room in (("1e999", 0), ("1e999", MEBIBYTE), ("Infinity", 0), ("-Infinity", 0)):
        odd = f'{{"completion": "7", "reference": {number}}}'
        status, content = ask(service.target, "/v1/grade", f'{{"items": [{odd}, {right}]{" " * room}}}'.encode())
        results = json.loads(content)["results"] if status == 200 else []
        said.append("/".join(result["verdict"] for result in results) or str(status))
    kept = ["bad_reference/correct"] * 4
    return Outcome(", ".join(said), said == kept)


EMPTY_ITEMS = b'{"items": [' + b"{}," * (16 * MEBIBYTE // 3 - 8) + b"{}]}"
REFERENCES = b'{"items": [{"completion": "1", "reference": [' + b"1," * (8 * MEBIBYTE - 64) + b"1]}]}"


def _filled(begin: str, value: str, end: str) -> bytes:
    """A body of 16 MiB with the value as often as there is room."""
    room = 16 * MEBIBYTE - len(begin) - len(end)
    return (begin + value * (room // len(value)) + end).encode()


ATTACKS: dict[str, Callable[[Service], Outcome]] = {
    "load 8 and 16 clients": load,
    "kills of workers": worker_kills,
    "kills of the fork server": fork_server_kills,
    "60 slow items, client hangs up": hang_up,
    "130 slow items, another client": neighbours,
    "50 unread answers of 15.5 MB": unread_answers,
    "600 references of 900 kB": long_references,
    "ulimit -n 64, 100 half-open connections": few_files,
    "ulimit -f 40, two processes": small_files,
    "1e999 and Infinity as references": odd_numbers,
    "white space, $, \\boxed{ up to 1 MB": white_space,
    "2 MB of empty items": _post("/v1/grade", b'{"items": [' + b"{}," * 700_000 + b"{}]}", {422}),
    "16 MB of empty items": _post("/v1/grade", EMPTY_ITEMS, {422}),
    "16 MB of blanks": _post("/v1/grade", b" " * (16 * MEBIBYTE - 2) + b"[]", {422}),
    "8 million references": _post("/v1/grade", REFERENCES, {422}),
    "16 MB nested": _post("/v1/grade", b'{"items":' + b"[" * (16 * MEBIBYTE - 16), {422}),
    "16 MB of escapes": _post(
        "/v1/grade", b'{"items":[{"reference":"1","completion":"' + b"\\n" * (8 * MEBIBYTE - 64) + b'"}]}', {200}
    ),
    "0.5 MB of empty items and NaN": _post(
        "/get_reward", b'{"labels": [' + b"[]," * (MEBIBYTE // 6 - 8) + b"NaN]}", {422}
    ),
    "16 MB of short prompts": _post("/v1/grade", _filled('{"items":[],"prompts":[', '"a",', '"a"]}'), {422}),
    "16 MB of one member again and again": _post(
        "/v1/grade", _filled('{"items":[{"completion":"1","reference":"1"', ',"options":{}', "}]}"), {200}
    ),
    "12 bodies of 16 MB at once": many_bodies,
    "64 MB of header lines": headers_without_end,
    "500 half-open connections": half_open,
    "500 readiness checks": ready_flood,
    "doors without a token": doors,
}


# Exactness


def exactness(
    target: Target, count: int, disturb: Callable[[threading.Event], None] | None
) -> tuple["Counter[str]", int]:
    """Sends ``count`` items with known verdicts through 16 clients, one in 200 of them slow.

    Returns the verdicts that are wrong, and how often a request was refused with Retry-After and asked again.
    """
    rows = built_in_rows(count)
    items = [({"completion": row.completion, "reference": row.reference}, i % 8 < 6) for i, row in enumerate(rows)]
    for i in range(0, count, 200):
        items[i] = (slow_right_item(), True)
    chunks = [items[i : i + ITEMS_PER_REQUEST] for i in range(0, count, ITEMS_PER_REQUEST)]
    todo = iter(chunks)
    lock = threading.Lock()
    wrong: Counter[str] = Counter()
    refused = 0

    def client() -> None:
        nonlocal refused
        while True:
            with lock:
                chunk = next(todo, None)
            if chunk is None:
                return
            body = json.dumps({"items": [item for item, _ in chunk]}).encode()
            status, content = _ask_patiently(target, body)
            while status in (429, 503):
                with lock:
                    refused += 1
                time.sleep(1)
                status, content = _ask_patiently(target, body)
            if status != 200:
                with lock:
                    wrong[f"HTTP {status}"] += len(chunk)
                continue
            for result, (_, correct) in zip(json.loads(content)["results"], chunk, strict=True):
                if result["correct"] is not correct:
                    with lock:
                        wrong[result["verdict"]] += 1

    stop = threading.Event()
    disturber = threading.Thread(target=disturb, args=(stop,)) if disturb else None
    if disturber:
        disturber.start()
    _in_threads([client] * CLIENTS)
    stop.set()
    if disturber:
        disturber.join()
    return wrong, refused


def _ask_patiently(target: Target, body: bytes) -> tuple[int, bytes]:
    request = urllib.request.Request(
        f"http://{target.host}:{target.port}/v1/grade", data=body, headers={"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=600) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except OSError:
        return 0, b""


class Killer:
    """Kills processes of a service while there is work, until there were so many kills.

    ``fork_server``: the fork server each time, and a worker with it, so that another one is needed; else a worker.
    """

    def __init__(self, service: Service, kills: int, seconds: float, fork_server: bool) -> None:
        self._service = service
        self._left = kills
        self._seconds = seconds
        self._fork_server = fork_server
        self.done = 0

    def __call__(self, stop: threading.Event) -> None:
        while self._left and not stop.wait(self._seconds):
            with contextlib.suppress(psutil.NoSuchProcess, StopIteration, IndexError):
                workers = [w for w in self._service.workers if w.status() != psutil.STATUS_ZOMBIE]
                victim = random.choice(workers)
                (self._service.fork_server if self._fork_server else victim).kill()
                self.done += 1
                self._left -= 1
                if self._fork_server:
                    victim.kill()


def spin() -> None:
    while True:
        pass


@contextlib.contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """So many processes that use up the CPU."""
    processes = [multiprocessing.get_context("spawn").Process(target=spin, daemon=True) for _ in range(count)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()


def _in_threads(targets: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=target) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# The whole of it


@dataclass
class Measured:
    """One attack on one checkout."""

    outcome: Outcome
    growth: float = 0.0
    health: float = 0.0
    broken: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.outcome.text}; {self.growth:.0f} MiB, {1000 * self.health:.0f} ms"


def measure(checkout: Path, names: list[str]) -> dict[str, Measured]:
    """Every attack, each on a service of its own."""
    found = {}
    for name in names:
        service = Service(checkout, "--workers", "2")
        try:
            with Watch(service) as watch:
                outcome = ATTACKS[name](service)
        finally:
            service.stop()
        one = Measured(outcome, watch.growth, watch.health)
        # Health and memory are not judged where the machine is made busy, or the processes killed, on purpose.
        disturbed = ATTACKS[name] in (load, worker_kills, fork_server_kills)
        one.broken = [
            *([] if outcome.kept else ["outcome"]),
            *(["memory"] if watch.growth - outcome.held > MAX_GROWTH else []),
            *(["health"] if watch.health > MAX_HEALTH and not disturbed else []),
        ]
        found[name] = one
        print(f"  {name}: {one}{'  NOT KEPT: ' + ', '.join(one.broken) if one.broken else ''}", file=sys.stderr)
    return found


def table(columns: dict[str, dict[str, Measured]], names: list[str]) -> str:
    lines = ["| attack | " + " | ".join(columns) + " |", "|---" * (1 + len(columns)) + "|"]
    lines += [f"| {name} | " + " | ".join(str(found[name]) for found in columns.values()) + " |" for name in names]
    return "\n".join(lines)


def run_exactness(checkout: Path, count: int, runs: list[str]) -> bool:
    """The four runs; True where no verdict was wrong."""
    good = True
    for name in runs:
        service = Service(checkout, "--workers", "2")
        killer = {
            "workers": Killer(service, 50, 0.2, fork_server=False),
            "fork_server": Killer(service, 10, 1.5, fork_server=True),
        }.get(name)
        start = time.perf_counter()
        with busy_processes(8) if name == "load" else contextlib.nullcontext():
            wrong, refused = exactness(service.target, count, killer)
        seconds = time.perf_counter() - start
        _, metrics = ask(service.target, "/metrics")
        service.stop()
        replaced = re.findall(r'math_reward_worker_restarts_total\{reason="(\w+)"\} (\d+)', metrics.decode())
        kills = f"{killer.done} kills; " if killer else ""
        print(
            f"{name}: {sum(wrong.values())} of {count:,} wrong {dict(wrong) or ''}; {kills}{refused} asked again; ",
            end="",
        )
        print(f"{seconds:.0f} s; workers replaced: {dict(replaced)}", flush=True)
        good = good and not wrong
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="a checkout of an older commit, to attack it too")
    parser.add_argument("--only", nargs="+", choices=ATTACKS, metavar="ATTACK", help="which attacks; all by default")
    parser.add_argument("--exactness", type=int, metavar="N", help="the exactness runs, of N items each")
    parser.add_argument(
        "--runs",
        nargs="+",
        choices=["nothing", "workers", "fork_server", "load"],
        default=["nothing", "workers", "fork_server", "load"],
        help="which exactness runs",
    )
    args = parser.parse_args()
    checkout = Path(__file__).resolve().parents[2]
    if args.exactness:
        sys.exit(0 if run_exactness(args.before or checkout, args.exactness, args.runs) else 1)
    names = args.only or list(ATTACKS)
    columns = {}
    if args.before:
        columns["before"] = measure(args.before, names)
    columns["after"] = measure(checkout, names)
    print(table(columns, names))
    sys.exit(0 if not any(one.broken for one in columns["after"].values()) else 1)


if __name__ == "__main__":
    main()
