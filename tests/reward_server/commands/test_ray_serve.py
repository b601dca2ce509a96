"""The service on a Ray cluster: a real cluster of one node, the real script, and the tests that any service passes.

Ray is started once and the service a few times: minutes on a slow machine. Never joins a cluster that is there.
"""

import asyncio
import contextlib
import inspect
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from math_reward.client import AsyncClient

from ...refusals import assert_refusal
from .. import test_app
from ..http import test_limits

pytestmark = pytest.mark.engine
HERE = Path(__file__).parent
SCRIPT = HERE.parents[2] / "launch" / "reward_on_ray.sh"
TOKEN = "a-token-for-tests"
NO_RAY = 'pip install "ray[serve]"'
RIGHT = {"completion": r"\boxed{42}", "reference": "42"}
PROBE = "from ray.serve._private.config import DeploymentConfig as C; C.from_proto_bytes(C().to_proto_bytes())"
"""Fails where Ray Serve cannot deploy anything: some versions cannot read their own messages with protobuf 7."""

KEPT = ("PATH", "HOME", "PYTHONPATH", "LANG", "OMP_NUM_THREADS")

OPEN = {"MATH_REWARD_BODY_SECONDS": "1"}
GUARDED = {"MATH_REWARD_TOKEN": TOKEN, "MATH_REWARD_MAX_ITEMS": "3", "MATH_REWARD_MAX_BODY_BYTES": "2000"}


def environment(**variables: str) -> dict[str, str]:
    """What the script and the cluster run in: nothing of Ray's or the service's that this process happens to have."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return {**kept, "PYTHON": sys.executable, "RAY_USAGE_STATS_ENABLED": "0", **variables}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class Cluster:
    """A Ray cluster, in processes that end with this one."""

    def __init__(self, nodes: int = 1) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "ray_cluster.py"), str(nodes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        assert self.process.stdout is not None
        self.address, folder = self.process.stdout.readline().split()
        self.folder = Path(folder)

    def everything(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def replicas(self) -> list[psutil.Process]:
        """The processes that have grading processes: Ray's name for them changes with what they do."""
        grading, parents = set(), set()
        for process in self.everything():
            with contextlib.suppress(psutil.NoSuchProcess):
                if "math_reward.pool.preload" in " ".join(process.cmdline()):
                    grading.add(process.pid)
                    parents.add(process.ppid())
        return [psutil.Process(pid) for pid in parents - grading]

    def status(self) -> str:
        """What Ray Serve tells everybody: its status, and the details that its dashboard shows."""
        program = (
            "import sys, ray; from ray import serve; from ray.serve.context import _get_global_client;"
            "ray.init(address=sys.argv[1], log_to_driver=False); print(serve.status());"
            "print(_get_global_client().get_serve_details())"
        )
        command = [sys.executable, "-c", program, self.address]
        return subprocess.run(command, env=environment(), capture_output=True, text=True, check=True).stdout

    def kill_last_node(self) -> None:
        """Kills a node's processes; returns when they have ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("kill\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "killed\n"

    def stop(self) -> list[psutil.Process]:
        """Ends it; returns what has not ended after 30 s."""
        everything = self.everything()
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)
        return psutil.wait_procs(everything, timeout=120)[1]


class OnRay:
    """``launch/reward_on_ray.sh`` as a child process, and the service that it deploys: as a ``LiveServer``."""

    def __init__(self, cluster: Cluster, *flags: str, **variables: str) -> None:
        self.variables = variables
        self.port = free_port()
        settings = {"HOST": "127.0.0.1", "WORKERS": "1", "MAX_REPLICAS": "1", "PORT": str(self.port), **variables}
        self.process = subprocess.Popen(
            ["bash", str(SCRIPT), *flags],
            env=environment(RAY_ADDRESS=cluster.address, **settings),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.url = ""
        for line in self.process.stdout:
            if line.startswith("--reward.remote_url "):
                self.url = line.split()[1]
                break
        if not self.url:
            _, complaint = self.process.communicate()
            pytest.fail(complaint)
        self.client = httpx.Client(base_url=self.url, timeout=60, trust_env=False)

    def grade(self, *items: dict[str, Any]) -> httpx.Response:
        token = {"Authorization": f"Bearer {TOKEN}"}
        return self.client.post("/v1/grade", json={"items": list(items) or [RIGHT]}, headers=token)

    def stop(self) -> tuple[int, str]:
        """Tells it to stop; returns the exit code, and what it wrote since it was ready."""
        self.client.close()
        self.process.terminate()
        return self.end()

    def end(self) -> tuple[int, str]:
        """Waits for its end; returns the same."""
        self.process.wait(timeout=120)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        with self.process.stdout as said, self.process.stderr as complaint:
            return self.process.returncode, said.read() + complaint.read()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    works = subprocess.run([sys.executable, "-c", PROBE], env=environment(), capture_output=True, text=True)
    if "ImportError" in works.stderr or "ModuleNotFoundError" in works.stderr:
        pytest.skip(NO_RAY)
    if "FieldDescriptor" in works.stderr:
        pytest.skip('This Ray Serve needs an older protobuf: pip install "protobuf<7".')
    cluster = Cluster()
    yield cluster
    assert cluster.stop() == []


class Deployed:
    """The one service that runs on the cluster, changed for another where a test needs other settings."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._service: OnRay | None = None

    def with_settings(self, **variables: str) -> OnRay:
        if self._service is None or self._service.variables != variables:
            self.stop()
            self._service = OnRay(self._cluster, **variables)
        return self._service

    def stop(self, told: bool = False) -> str:
        """Stops what runs, or waits where it was told already; returns what it wrote since it was ready."""
        service, self._service = self._service, None
        if service is None:
            return ""
        code, said = service.end() if told else service.stop()
        assert code == 0, said
        return said


@pytest.fixture(scope="module")
def deployed(cluster: Cluster) -> Iterator[Deployed]:
    deployed = Deployed(cluster)
    yield deployed
    deployed.stop()


# The tests of the service that `math-reward serve` runs, of everything that does not need a grader of the tests' own


@pytest.fixture
def open_server(deployed: Deployed) -> OnRay:
    return deployed.with_settings(**OPEN)


@pytest.fixture
def narrow_server(open_server: OnRay) -> OnRay:
    return open_server


@pytest.fixture
def ask(open_server: OnRay) -> httpx.Client:
    return open_server.client


@pytest.fixture
def guarded_server(deployed: Deployed) -> OnRay:
    return deployed.with_settings(**GUARDED)


@pytest.fixture
def ask_with_token(guarded_server: OnRay) -> Any:
    return partial(guarded_server.client.post, headers={"Authorization": f"Bearer {TOKEN}"})


NEED_A_GRADER_OR_PROCESSES_OF_THEIR_OWN = {
    "test_a_hanging_item_is_a_timeout_and_everything_else_is_answered_meanwhile",
    "test_killing_every_worker_and_the_fork_server_costs_no_request",
    "test_a_full_queue_is_refused_with_the_time_to_wait_and_taken_when_it_is_empty",
}


def same_tests(*fixtures: str) -> dict[str, Callable[..., Any]]:
    """The tests of the same service under uvicorn that ask one of these."""
    return {
        name: test
        for name, test in [*vars(test_app).items(), *vars(test_limits).items()]
        if name.startswith("test_") and set(fixtures) & set(inspect.signature(test).parameters)
    }


THE_SAME = {
    # In this order, so that the service is deployed once with each of the settings.
    **same_tests("ask", "open_server", "narrow_server"),
    **same_tests("guarded_server", "ask_with_token"),
}
globals().update({name: THE_SAME[name] for name in THE_SAME if name not in NEED_A_GRADER_OR_PROCESSES_OF_THEIR_OWN})


def test_the_same_tests_are_those_of_the_protocol():
    assert set(THE_SAME) >= NEED_A_GRADER_OR_PROCESSES_OF_THEIR_OWN
    assert len(THE_SAME) > 25
    assert "test_openrlhfs_own_client_gets_rewards_that_its_trainer_can_stack" in THE_SAME
    assert "test_a_body_that_is_too_big_is_refused_whether_it_says_so_or_not" in THE_SAME


# What differs on a cluster


def test_the_page_its_files_and_the_metrics_are_there(guarded_server: OnRay):
    client = guarded_server.client
    assert guarded_server.grade().status_code == 200

    assert "<title>" in client.get("/").text
    assert "'self'" in client.get("/").headers["Content-Security-Policy"]
    assert client.get("/page.js").headers["Content-Type"].startswith("text/javascript")
    assert 'math_reward_requests_total{route="/v1/grade",status="200"}' in client.get("/metrics").text
    assert client.get("/nothing/here").status_code == 404


def test_the_proxys_address_opens_nothing(guarded_server: OnRay):
    # This very machine asks, as does the proxy between it and the replica.
    spoofed = {"X-Forwarded-For": "127.0.0.1", "Forwarded": "for=127.0.0.1"}
    for headers in ({}, spoofed):
        for path in ("/v1/grade", "/get_reward", "/v1/explain"):
            assert guarded_server.client.post(path, json={}, headers=headers).status_code == 401
        assert guarded_server.client.get("/v1/recent", headers=headers).status_code == 401


def test_a_request_id_goes_back_once(guarded_server: OnRay):
    given = guarded_server.client.get("/healthz", headers={"X-Request-ID": "abc-123"})
    made_up = guarded_server.client.get("/healthz")

    assert given.headers.get_list("X-Request-ID") == ["abc-123"]
    assert len(made_up.headers.get_list("X-Request-ID")) == 1


def test_the_token_is_in_no_file_no_command_line_no_environment_and_no_status(cluster: Cluster, guarded_server: OnRay):
    assert guarded_server.grade().status_code == 200
    assert guarded_server.client.post("/v1/grade", json={}).status_code == 401

    files = [path for path in cluster.folder.rglob("*") if path.is_file()]
    assert any("replica_math-reward" in path.name for path in files)
    assert [path for path in files if TOKEN.encode() in path.read_bytes()] == []
    processes = [*cluster.everything(), psutil.Process(guarded_server.process.pid)]
    assert [process for process in processes if TOKEN in " ".join(process.cmdline())] == []
    replicas = [each for process in cluster.replicas() for each in (process, *process.children(recursive=True))]
    assert len(replicas) >= 3
    assert [process for process in cluster.everything() if TOKEN in " ".join(process.environ().values())] == []
    status = cluster.status()
    assert "math-reward" in status
    assert TOKEN not in status


def test_grading_processes_have_no_ray_in_them_and_can_be_stopped_by_their_alarms(
    cluster: Cluster, guarded_server: OnRay
):
    assert guarded_server.grade().status_code == 200
    (replica,) = cluster.replicas()
    workers = replica.children(recursive=True)

    assert len(workers) >= 2
    for worker in workers:
        assert "_raylet" not in Path(f"/proc/{worker.pid}/maps").read_text()
        masks = dict(line.split(":\t") for line in Path(f"/proc/{worker.pid}/status").read_text().splitlines())
        for number in (signal.SIGALRM, signal.SIGPROF):
            assert not (int(masks["SigBlk"], 16) | int(masks["SigIgn"], 16)) >> (number - 1) & 1


def test_a_replica_that_is_killed_takes_its_grading_processes_along_and_is_replaced(
    cluster: Cluster, guarded_server: OnRay, all_end: Any, wait_for: Any
):
    assert guarded_server.grade().status_code == 200
    (replica,) = cluster.replicas()
    family = [replica, *replica.children(recursive=True)]
    assert len(family) >= 3

    os.kill(replica.pid, signal.SIGKILL)

    assert all_end(family)
    wait_for(lambda: guarded_server.grade().status_code == 200)
    (successor,) = cluster.replicas()
    assert successor.pid != replica.pid
    assert guarded_server.client.post("/v1/grade", json={}).status_code == 401


class SlowRequest:
    """A POST to ``/v1/grade`` of which all but the last byte is sent."""

    def __init__(self, port: int) -> None:
        body = json.dumps({"items": [RIGHT]}).encode()
        self._last = body[-1:]
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        head = f"POST /v1/grade HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {TOKEN}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self._socket.sendall(head.encode() + body[:-1])

    def finish(self) -> str:
        answer = b""
        with self._socket:
            self._socket.sendall(self._last)
            while part := self._socket.recv(65_536):
                answer += part
        return answer.decode()


def in_flight(service: OnRay, number: int) -> bool:
    return f"math_reward_requests_in_flight {number}.0" in service.client.get("/metrics").text


def test_sigterm_drains_what_is_under_way_is_answered_and_new_work_is_told_why(
    cluster: Cluster, deployed: Deployed, wait_for: Any, all_end: Any
):
    service = deployed.with_settings(MATH_REWARD_TOKEN=TOKEN, MATH_REWARD_DRAIN_SECONDS="60")
    slow = SlowRequest(service.port)
    wait_for(lambda: in_flight(service, 1))
    (replica,) = cluster.replicas()
    family = [replica, *replica.children(recursive=True)]

    service.process.terminate()
    wait_for(lambda: service.client.get("/readyz").status_code == 503)
    refused = service.grade()
    answer = slow.finish()

    assert refused.status_code == 503
    assert_refusal(refused.json()["detail"], "draining")
    assert refused.headers["Retry-After"] == "1"
    assert answer.startswith("HTTP/1.1 200 ")
    assert '"verdict": "correct"' in answer
    assert deployed.stop(told=True) == "math-reward is stopped.\n"
    assert all_end(family)
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{service.url}/healthz", trust_env=False)


def test_what_is_not_done_when_the_time_is_over_is_refused(deployed: Deployed, wait_for: Any):
    service = deployed.with_settings(MATH_REWARD_TOKEN=TOKEN, MATH_REWARD_DRAIN_SECONDS="1")
    slow = SlowRequest(service.port)
    wait_for(lambda: in_flight(service, 1))

    begin = time.monotonic()
    said = deployed.stop()

    assert said.splitlines()[-1] == "math-reward is stopped."
    assert time.monotonic() - begin >= 1
    assert not slow.finish().startswith("HTTP/1.1 200 ")


def test_replicas_come_while_there_is_more_to_do(cluster: Cluster, deployed: Deployed, wait_for: Any):
    service = deployed.with_settings(MATH_REWARD_TOKEN=TOKEN, MAX_REPLICAS="2", ONGOING_REQUESTS="1")
    assert len(cluster.replicas()) == 1

    enough, answers = threading.Event(), []

    def keep_busy() -> None:
        while not enough.is_set():
            slow = SlowRequest(service.port)
            enough.wait(5)  # less than a silent request may take
            answers.append(slow.finish())

    clients = [threading.Thread(target=keep_busy) for _ in range(8)]
    for client in clients:
        client.start()
    try:
        wait_for(lambda: len(cluster.replicas()) == 2)
    finally:
        enough.set()
        for client in clients:
            client.join()

    assert len(answers) >= 8
    assert all(answer.startswith("HTTP/1.1 200 ") for answer in answers)


def test_a_detached_service_stays_is_not_deployed_twice_and_is_stopped_by_anybody(
    cluster: Cluster, deployed: Deployed, wait_for: Any, all_end: Any
):
    deployed.stop()
    service = OnRay(cluster, DETACH="1", MATH_REWARD_TOKEN=TOKEN)
    ended = service.end()
    again = script(RAY_ADDRESS=cluster.address, HOST="127.0.0.1")
    (replica,) = cluster.replicas()
    replica.kill()  # Nobody is there but Ray.
    wait_for(lambda: service.grade().status_code == 200)
    family = cluster.replicas()
    stopped = script("--stop", RAY_ADDRESS=cluster.address, DETACH="1")
    stopped_again = script("--stop", RAY_ADDRESS=cluster.address)

    status, said = ended
    assert status == 0
    # On a busy machine it has said before that it waits for the first replica.
    assert "bash launch/reward_on_ray.sh --stop\n" in said
    assert again.returncode == 1
    assert_refusal(again.stderr, "already", "--stop")
    assert (stopped.returncode, stopped.stdout) == (0, "math-reward is stopped.\n")
    assert stopped_again.returncode == 0
    assert_refusal(stopped_again.stdout, "does not run")
    assert all_end(family)
    with pytest.raises(httpx.ConnectError):
        service.grade()


# Two nodes


@pytest.fixture
def two_nodes(cluster: Cluster) -> Iterator[Cluster]:  # after `cluster`, which knows whether Ray works here
    two = Cluster(nodes=2)
    yield two
    assert two.stop() == []


async def test_a_node_that_dies_under_load_costs_a_client_that_retries_nothing(two_nodes: Cluster, deployed: Deployed):
    deployed.stop()
    service = OnRay(two_nodes, MIN_REPLICAS="2", MAX_REPLICAS="2", ONGOING_REQUESTS="4", MATH_REWARD_TOKEN=TOKEN)
    assert len(two_nodes.replicas()) == 2, "one on each node, since a node has one CPU"
    asked = itertools.count()
    got: dict[int, float] = {}
    enough = asyncio.Event()
    client = AsyncClient(service.url, token=TOKEN, batch_size=1, deadline=240)

    async def keep_asking() -> None:
        while not enough.is_set():
            number = next(asked)
            # Every third one is wrong.
            completion = rf"\boxed{{{number if number % 3 else number + 1}}}"
            got[number] = (await client.grade(completion, str(number), prompt="Count.")).reward

    async def until(more: int) -> None:
        wanted = len(got) + more
        while len(got) < wanted:  # The test's own time limit ends it.
            await asyncio.sleep(0.01)

    clients = [asyncio.create_task(keep_asking()) for _ in range(8)]
    await until(100)
    await asyncio.to_thread(two_nodes.kill_last_node)
    await until(200)
    enough.set()
    await asyncio.gather(*clients)
    await client.aclose()

    assert got == {number: float(number % 3 > 0) for number in range(next(asked))}
    assert len(two_nodes.replicas()) == 1
    assert client.stats.failures == 0
    code, said = await asyncio.to_thread(service.stop)
    assert code == 0, said


# What needs no cluster


def script(*flags: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", str(SCRIPT), *flags]
    run = subprocess.run(command, env=environment(**variables), capture_output=True, text=True, timeout=200)
    if NO_RAY in run.stderr:
        pytest.skip(NO_RAY)
    return run


HERE_ALONE = {"HOST": "127.0.0.1"}


@pytest.mark.parametrize(
    ("variables", "code", "named"),
    [
        ({}, 2, "0.0.0.0"),
        ({"MATH_REWARD_TOKEN": " "}, 2, "MATH_REWARD_TOKEN"),
        ({**HERE_ALONE, "PORT": "0"}, 2, "PORT"),
        ({**HERE_ALONE, "MIN_REPLICAS": "5"}, 2, "MIN_REPLICAS is 5 and MAX_REPLICAS 4"),
        ({**HERE_ALONE, "RAY_ADDRESS": "http://127.0.0.1:8265"}, 1, "RAY_ADDRESS is http://127.0.0.1:"),
        ({**HERE_ALONE, "RAY_ADDRESS": "127.0.0.1:1"}, 1, "RAY_ADDRESS=127.0.0.1:1"),  # where there is no cluster
        ({"DETACH": "yes"}, 2, "DETACH is yes"),
        ({"PYTHON": "no-such-python"}, 2, "no-such-python"),
    ],
)
def test_what_cannot_be_meant_is_refused(variables: dict[str, str], code: int, named: str):
    refused = script(**variables)

    assert (refused.returncode, refused.stdout) == (code, "")
    assert_refusal(refused.stderr, named)


def test_without_ray_it_says_what_to_install(tmp_path: Path):
    (tmp_path / "ray.py").write_text("raise ImportError('no Ray')")
    command = [sys.executable, "-m", "math_reward.commands.ray_serve"]
    without = environment(PYTHONPATH=str(tmp_path))
    run = subprocess.run(command, env=without, capture_output=True, text=True)
    imported = subprocess.run(
        [sys.executable, "-c", "import math_reward.commands.ray_serve"], env=without, capture_output=True, text=True
    )

    assert run.returncode == 2
    assert_refusal(run.stderr, NO_RAY)
    assert NO_RAY in imported.stderr.splitlines()[-1]
    assert "no Ray" not in imported.stderr


def test_the_service_itself_never_imports_ray():
    program = (
        "import pkgutil, importlib, math_reward, sys;"
        "names = [m.name for m in pkgutil.walk_packages(math_reward.__path__, 'math_reward.')];"
        "left = ('math_reward.commands.ray_serve', 'math_reward.commands.ray_replica', 'math_reward.__main__');"
        "others = [n for n in names if n not in left and not n.startswith('math_reward.adapters.')];"  # of libraries
        "[importlib.import_module(n) for n in others];"
        "print(len(names), 'math_reward.commands.ray_serve' in names, 'ray' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()

    assert int(said[0]) > 30
    assert said[1:] == ["True", "False"]
