"""A service of the tests' kind to be measured, what is posted to it, and its verdicts known beforehand."""

import contextlib
import io
import json
import random
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "reward_server"))

from conftest import LiveServer  # noqa: E402 (the service of the tests)

MIB = 2**20
REASONING = "We write down what is known, name the unknown x, and solve step by step. " * 12


def ask(url: str, path: str, body: bytes | None = None, wait: float = 25.0, **headers: str) -> tuple[int, bytes]:
    """Status and body of an answer; status 0 where there was none in time."""
    request = urllib.request.Request(url + path, body, {"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=wait) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except OSError:
        return 0, b""


@contextlib.contextmanager
def started(*options: str, code: Path = ROOT / "reward_server", **given: Any) -> Iterator[LiveServer]:
    """The service, with two workers."""
    server = LiveServer("--workers", "2", "--no-access-log", *options, PYTHONPATH=str(code), **given).when_ready()
    try:
        yield server
    finally:
        with contextlib.redirect_stderr(io.StringIO()):  # its log
            server.stop()


def known_items(count: int, seed: int = 0) -> list[tuple[dict[str, str], bool]]:
    """Items of the usual kinds, all different, each with whether it is correct: one in six is not."""
    draw = random.Random(seed)
    items = []
    for i in range(count):
        a, b, c = draw.randint(2, 999), draw.randint(2, 99), draw.randint(2, 9)
        answer, reference = [
            (f"{a}", f"{a}"),
            (rf"\frac{{{a}}}{{{b}}}", f"{a}/{b}"),
            (f"{a / 8}", rf"\frac{{{a}}}{{8}}"),
            (rf"{a}\sqrt{{{c}}}", rf"\sqrt{{{c}}} \cdot {a}"),
            (f"{a}x+{b}", f"{b} + {a}x"),
            (f"{a}", f"{a + b}"),
        ][i % 6]
        item = {"completion": rf"{REASONING}So it is \boxed{{{answer}}}.", "reference": reference}
        items.append((item, i % 6 < 5))
    return items


def body_of(*items: dict[str, str]) -> bytes:
    return json.dumps({"items": items}).encode()


def cpu_seconds(process: psutil.Process) -> float:
    """Seconds, those of children included that have ended."""
    return sum(process.cpu_times()[:4])
