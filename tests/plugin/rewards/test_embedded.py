"""The embedded reward service: the real one as a real process, and badly behaved stand-ins for it."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from math_reward.client import AsyncClient, Item
from openrlhf_gtpo.errors import UserError
from openrlhf_gtpo.rewards import embedded as embedded_reward
from openrlhf_gtpo.rewards.embedded import EmbeddedService, start_embedded_service


def own_processes() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


def runs(process: psutil.Process) -> bool:
    """Whether it does; a zombie that nobody has collected yet does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def survivors(processes: set[psutil.Process], seconds: float = 120.0) -> list[psutil.Process]:
    """Those that still run after the given time."""
    limit = time.monotonic() + seconds
    while any(map(runs, processes)) and time.monotonic() < limit:
        time.sleep(0.05)
    return [process for process in processes if runs(process)]


# The real service


@pytest.fixture(scope="module")
def log_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("embedded") / "logs" / "reward.log"


@pytest.fixture(scope="module")
def service(log_path: Path) -> Iterator[EmbeddedService]:
    with pytest.MonkeyPatch.context() as patch:
        # What a user may have set for a service of their own.
        patch.setenv("MATH_REWARD_HOST", "0.0.0.0")
        patch.setenv("MATH_REWARD_PORT", "80")
        patch.setenv("MATH_REWARD_TOKEN_FILE", "no/such/file")
        with start_embedded_service(workers=1, log_path=log_path) as service:
            yield service


def process_of(service: EmbeddedService) -> psutil.Process:
    """The one that listens where the service is."""
    port = httpx.URL(service.url).port
    return next(one for one in own_processes() if port in {c.laddr.port for c in one.net_connections() if c.laddr})


async def test_it_judges_by_a_groups_prompt_which_it_takes_once(service: EmbeddedService):
    """The prompt matters: an answer that only repeats its operation is not paid."""
    group = [Item(text, "42", "6*7?") for text in (r"\boxed{42}", r"\boxed{6*7}", r"\boxed{41}")]
    async with AsyncClient(service.url, token=service.token) as client:
        for _ in range(2):
            results = await asyncio.gather(*map(client.grade_item, group))
            assert [result.verdict for result in results] == ["correct", "restated", "wrong"]
            assert [result.reward for result in results] == [1.0, 0.0, 0.0]
        assert client._endpoints[0].shares_prompts


def test_it_listens_on_loopback_whatever_the_environment_says_and_its_token_is_nowhere_to_be_read(
    service: EmbeddedService, log_path: Path
):
    assert service.url.startswith("http://127.0.0.1:")
    assert service.url.endswith("/v1/grade")
    addresses = {c.laddr.ip for c in process_of(service).net_connections() if c.status == psutil.CONN_LISTEN}
    assert addresses == {"127.0.0.1"}
    assert len(service.token) >= 32
    log = log_path.read_text()
    assert "math-reward listening on" in log
    assert service.token not in f"{process_of(service).cmdline()} {log} {service!r}"


def test_after_its_context_no_process_of_it_is_left_even_if_it_was_killed():
    for killed in (False, True):
        before = own_processes()
        with start_embedded_service(workers=2) as service:
            processes = own_processes() - before
            assert len(processes) >= 3  # the service and its workers
            if killed:
                process_of(service).send_signal(signal.SIGKILL)
        assert survivors(processes) == []


def test_when_its_parent_is_killed_no_process_of_it_is_left():
    code = """
        import time
        from openrlhf_gtpo.rewards.embedded import start_embedded_service
        with start_embedded_service(workers=1):
            print("ready", flush=True)
            time.sleep(600)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        try:
            assert parent.stdout.readline() == "ready\n"
            processes = set(psutil.Process(parent.pid).children(recursive=True))
            assert len(processes) >= 2
        finally:
            parent.kill()
    assert survivors(processes) == []


def test_a_setting_that_the_service_refuses_is_told_in_its_own_words():
    with pytest.raises(UserError, match=r"did not start.*workers"), start_embedded_service(workers=0):
        pass


# Stand-ins


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a program in the place of ``python -m math_reward``."""

    def put(program: str) -> None:
        package = tmp_path / "math_reward"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "__main__.py").write_text(textwrap.dedent(program))
        monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")

    return put


HTTP_STAND_IN = """
    import os, signal, subprocess, sys
    from http.server import BaseHTTPRequestHandler, HTTPServer

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response({status})
            self.end_headers()
            self.wfile.write(b"answered")

    {first}
    server = HTTPServer(("127.0.0.1", 0), Handler)
    print(f"math-reward listening on http://127.0.0.1:{{server.server_port}}", flush=True)
    server.serve_forever()
"""


def test_a_service_that_dies_at_its_start_is_told_with_its_last_line(stand_in: Callable[[str], None]):
    stand_in("print('one'); print('the disk is full'); print(); raise SystemExit(3)")
    with pytest.raises(UserError, match=r"did not start; .*: the disk is full$"), start_embedded_service():
        pass


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import time; print('loading', flush=True); time.sleep(600)", ": loading$"),
        (HTTP_STAND_IN.format(first="", status=503), "503"),
    ],
)
def test_a_service_that_never_listens_or_gets_ready_is_given_up_and_ended(
    program: str, said: str, stand_in: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
):
    stand_in(program)
    monkeypatch.setattr(embedded_reward, "START_SECONDS", 3.0)
    before = own_processes()
    with pytest.raises(UserError, match=rf"did not start; .*{said}"), start_embedded_service():
        pass
    assert survivors(own_processes() - before) == []


def test_a_service_that_ignores_sigterm_is_killed_with_its_children(
    stand_in: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
):
    first = "signal.signal(signal.SIGTERM, signal.SIG_IGN); subprocess.Popen(['sleep', '600'])"
    stand_in(HTTP_STAND_IN.format(first=first, status=200))
    monkeypatch.setattr(embedded_reward, "STOP_SECONDS", 0.5)
    before = own_processes()
    with start_embedded_service():
        processes = own_processes() - before
        assert len(processes) == 2
    assert survivors(processes) == []
