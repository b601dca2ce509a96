"""Several processes that answer HTTP on one port: they share the work, outlive each other and end together."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from math_reward.commands import serve_processes
from math_reward.settings import Settings

from ...refusals import assert_refusal
from ..conftest import WaitFor

AllEnd = Callable[[list[psutil.Process]], bool]


@pytest.fixture
def server(serve: Callable[..., Any]) -> Any:
    """A service of two processes with a worker each."""
    flags = "--http-processes 2 --workers 2 --deadline 60 --drain-seconds 120 --access-log"
    return serve(*flags.split(), stub=True).when_ready()


def answering(server: Any) -> list[psutil.Process]:
    """The processes that answer HTTP: the command's children, without multiprocessing's resource tracker."""
    found = []
    for child in psutil.Process(server.process.pid).children():
        with contextlib.suppress(psutil.NoSuchProcess):  # A zombie is one too.
            if "spawn_main" in " ".join(child.cmdline()):
                found.append(child)
    return found


def over_new_connection(server: Any, method: str, path: str, **request: Any) -> httpx.Response:
    """Any of the processes may take it."""
    return httpx.request(method, server.url + path, timeout=120, headers={"Connection": "close"}, **request)


def grade(server: Any, completion: str = "42") -> str:
    body = {"items": [{"completion": rf"\boxed{{{completion}}}", "reference": "42"}]}
    return over_new_connection(server, "POST", "/v1/grade", json=body).json()["results"][0]["verdict"]


def sample(server: Any, name: str, **labels: str) -> float:
    text = over_new_connection(server, "GET", "/metrics").text
    samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
    return sum(s.value for s in samples if s.name == name and labels.items() <= s.labels.items())


def test_any_process_tells_prometheus_of_all_and_the_counts_of_one_that_was_killed_stay(
    server: Any, wait_for: WaitFor, all_end: AllEnd
):
    workers_of = {one.pid: one.children(recursive=True) for one in answering(server)}
    assert len(workers_of) == 2
    wait_for(lambda: sample(server, "math_reward_workers") == 2)
    for _ in range(20):
        assert grade(server) == "correct"
    assert sample(server, "math_reward_requests_total", route="/v1/grade") == 20

    killed = answering(server)[0]
    killed.kill()
    wait_for(lambda: len(answering(server)) == 2 and killed.pid not in {one.pid for one in answering(server)})

    assert all_end(workers_of[killed.pid]), "its workers ended with it"
    assert sample(server, "math_reward_requests_total", route="/v1/grade") == 20
    assert sample(server, "math_reward_items_total", verdict="correct") == 20
    wait_for(lambda: sample(server, "math_reward_workers") == 2)
    assert grade(server, "41") == "wrong"
    assert sample(server, "math_reward_items_total") == 21
    assert any("SIGKILL" in line for line in server.log())


def test_a_process_that_is_busy_leaves_new_connections_to_the_other(server: Any, wait_for: WaitFor):
    stopped, other = answering(server)
    stopped.suspend()
    try:
        # What the kernel has given to the stopped one already would wait, so none is open before.
        verdicts = {grade(server) for _ in range(10)}
        assert sample(server, "math_reward_items_total") == 10
    finally:
        stopped.resume()

    assert verdicts == {"correct"}
    assert other.is_running()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_all_processes(
    number: signal.Signals, server: Any, tmp_path: Path, wait_for: WaitFor, all_end: AllEnd
):
    everything = server.everything()
    go = tmp_path / "go"
    body = {"items": [{"completion": f"wait for {go}", "reference": "42"}]}
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        text = httpx.Request("POST", server.url, json=body).content
        head = f"POST /v1/grade HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(text)}\r\n"
        client.sendall(f"{head}Content-Type: application/json\r\nConnection: close\r\n\r\n".encode() + text)
        wait_for(go.with_suffix(".waits").exists)
        server.process.send_signal(number)
        # The idle one ends at once; the other one refuses work until its request is answered.
        wait_for(lambda: len(answering(server)) == 1)
        refused = over_new_connection(server, "POST", "/v1/grade", json={"items": []})
        go.touch()
        answer = b"".join(iter(lambda: client.recv(4096), b""))

    assert refused.status_code == 503
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert b'"wrong"' in answer
    assert server.process.wait(timeout=120) == 0
    assert all_end(everything)


def test_ctrl_c_in_a_terminal_which_reaches_every_process_drains_them_too(
    tmp_path: Path, wait_for: WaitFor, all_end: AllEnd
):
    command = [sys.executable, "-m", "math_reward", "serve", "--port", "0", "--http-processes", "2", "--workers", "2"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("math-reward listening on ")
        everything = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    finally:
        process.kill()

    assert process.returncode == 0
    assert "Traceback" not in errors
    assert all_end(everything)


def test_all_end_with_the_command_even_if_it_was_killed(server: Any, all_end: AllEnd):
    everything = server.everything()

    server.process.kill()

    assert all_end(everything)


def test_sighup_gives_new_tokens_to_every_process_and_to_those_that_are_started_later(
    serve: Callable[..., Any], tmp_path: Path, wait_for: WaitFor
):
    tokens = tmp_path / "tokens"
    tokens.write_text("trainer the-old-one\n")
    server = serve("--http-processes", "2", "--workers", "2", MATH_REWARD_TOKEN_FILE=str(tokens)).when_ready()

    def statuses(token: str) -> set[int]:
        headers = {"Authorization": f"Bearer {token}", "Connection": "close"}
        asked = [httpx.post(server.url + "/v1/grade", json={"items": []}, headers=headers) for _ in range(12)]
        return {answer.status_code for answer in asked}

    assert (statuses("the-old-one"), statuses("the-new-one")) == ({200}, {401})
    tokens.write_text("trainer the-new-one\n")
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: sum("again: trainer." in line for line in server.log()) == 2)
    assert (statuses("the-old-one"), statuses("the-new-one")) == ({401}, {200})

    killed = answering(server)[0]
    killed.kill()
    wait_for(lambda: len(answering(server)) == 2 and killed.pid not in {one.pid for one in answering(server)})
    wait_for(lambda: sample(server, "math_reward_workers") == 2)
    assert (statuses("the-old-one"), statuses("the-new-one")) == ({401}, {200})

    assert sample(server, "math_reward_last_reload_successful", file="tokens") == 1
    tokens.write_text("")
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: sample(server, "math_reward_last_reload_successful", file="tokens") == 0)
    assert statuses("the-new-one") == {200}


def cannot_serve(*_: Any) -> None:
    sys.exit(3)


def test_if_one_process_cannot_start_the_command_ends(monkeypatch: pytest.MonkeyPatch, serve_here: Any):
    monkeypatch.setattr(serve_processes, "_serve", cannot_serve)

    started, said = serve_here(Settings(workers=2, http_processes=2))

    assert (started, said) == (False, [])


@pytest.fixture
def serve_here(monkeypatch: pytest.MonkeyPatch):
    """Serves in this process and returns whether it could, and what `ready` was called with."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    monkeypatch.setenv(serve_processes.METRICS_FOLDER, "")  # and put back to what it was
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve_here(settings: Settings) -> tuple[bool, list[str]]:
            processes = serve_processes.Processes(settings, listener, lambda: said.append("ready"))
            return processes.serve_until_told(), said

        yield serve_here
    for number, handler in before.items():
        signal.signal(number, handler)
    signal.set_wakeup_fd(-1)


@given(workers=st.integers(1, 1024), processes=st.integers(1, 256))
def test_every_process_gets_workers_and_as_many_as_the_others_or_one_more(workers: int, processes: int):
    if processes > workers:
        with pytest.raises(ValueError, match=rf"http_processes, {processes}, .* workers, {workers}\b"):
            Settings(workers=workers, http_processes=processes)
        return
    dealt = [one.workers for one in serve_processes.shares(Settings(workers=workers, http_processes=processes))]

    assert len(dealt) == processes
    assert sum(dealt) == workers
    assert 1 <= min(dealt) <= max(dealt) <= min(dealt) + 1


def test_where_files_may_not_be_large_enough_to_count_in_it_does_not_start_and_says_why():
    command = [sys.executable, "-m", "math_reward", "serve", "--port", "0", "--http-processes", "2", "--workers", "2"]
    ended = subprocess.run(
        ["bash", "-c", 'ulimit -f 100 && exec "$@"', "-", *command], capture_output=True, text=True, timeout=120
    )

    assert ended.returncode == 2
    assert_refusal(ended.stderr, "ulimit -f", "--http-processes 1")


def test_a_soft_limit_on_the_size_of_files_is_raised(serve: Callable[..., Any]):
    server = serve("--http-processes", "2", "--workers", "2", ulimit="-S -f 100").when_ready()

    assert grade(server) == "correct"
    assert sample(server, "math_reward_items_total") == 1
