"""For the checks of adapters with the libraries they are for: `bash launch/adapters.sh`.

Each runs in an environment of its own, with one library and this project's sources on the path, so nothing here may
import OpenRLHF, vLLM or what the other tests need.
"""

import subprocess
import sys
import time
from collections.abc import Iterator

import httpx
import pytest


@pytest.fixture(scope="session")
def service() -> Iterator[str]:
    """The URL of a real service, in a process of its own."""
    command = [sys.executable, "-m", "math_reward", "serve", "--port", "0", "--exit-on-stdin-close"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    url = process.stdout.readline().rstrip("\n").rpartition(" ")[2]
    limit = time.monotonic() + 600
    try:
        while httpx.get(f"{url}/readyz", timeout=600).status_code != 200:
            assert time.monotonic() < limit, "the service does not become ready"
            time.sleep(0.2)
        yield url
    finally:
        process.stdin.close()
        process.wait(timeout=600)


@pytest.fixture(params=["local", "remote"])
def url(request: pytest.FixtureRequest) -> str | None:
    """Where verdicts come from: None for worker processes of the library's own process, or a service."""
    return None if request.param == "local" else request.getfixturevalue("service")


def graded_by(url: str) -> int:
    """How many items a service has graded, by its own metrics."""
    lines = httpx.get(f"{url}/metrics").text.splitlines()
    return int(sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("math_reward_items_total")))


@pytest.fixture
def graded(url: str | None) -> Iterator[list[int]]:
    """Gets the number of items that the service has graded during the test, at its end."""
    before = graded_by(url) if url else 0
    count: list[int] = []
    yield count
    if url:
        assert count, "say how many items the service should have graded"
        assert graded_by(url) - before == count[0]
