"""The service on a Ray cluster: a real cluster of one node, the real script, two replicas."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from math_reward.client import Client, Item

from ...refusals import assert_refusal
from ..conftest import WaitFor

pytestmark = pytest.mark.engine
HERE = Path(__file__).parent
SCRIPT = HERE.parents[2] / "launch" / "reward_on_ray.sh"
TOKEN = "a-token-for-tests"
PROBE = "from ray.serve._private.config import DeploymentConfig as C; C.from_proto_bytes(C().to_proto_bytes())"
"""Fails where Ray Serve cannot deploy anything: some versions cannot read their own messages with protobuf 7."""
KEPT = ("PATH", "HOME", "PYTHONPATH", "LANG", "OMP_NUM_THREADS")


def environment(**variables: str) -> dict[str, str]:
    """What the script and the cluster run in: nothing of Ray's or the service's that this process happens to have."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return {**kept, "PYTHON": sys.executable, "RAY_USAGE_STATS_ENABLED": "0", **variables}


class Cluster:
    """A Ray cluster, in processes that end with this one."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "ray_cluster.py")],
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

    def grading(self) -> list[psutil.Process]:
        """The grading processes of all replicas."""
        return [one for one in self.everything() if "math_reward.pool.preload" in " ".join(one.cmdline())]

    def stop(self) -> list[psutil.Process]:
        """Ends it; returns what has not ended after two minutes."""
        everything = self.everything()
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)
        return psutil.wait_procs(everything, timeout=120)[1]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    works = subprocess.run([sys.executable, "-c", PROBE], env=environment(), capture_output=True, text=True)
    if "ImportError" in works.stderr or "ModuleNotFoundError" in works.stderr:
        pytest.skip('pip install "ray[serve]".')
    if "FieldDescriptor" in works.stderr:
        pytest.skip('This Ray Serve needs an older protobuf: pip install "protobuf<7".')
    cluster = Cluster()
    yield cluster
    assert cluster.stop() == []


@pytest.fixture(scope="module")
def service(cluster: Cluster) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The script and the service's URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
    settings = {"HOST": "127.0.0.1", "PORT": port, "WORKERS": "1", "MIN_REPLICAS": "2", "MAX_REPLICAS": "2"}
    variables = environment(RAY_ADDRESS=cluster.address, MATH_REWARD_TOKEN=TOKEN, **settings)
    script = subprocess.Popen(["bash", str(SCRIPT)], env=variables, stdout=subprocess.PIPE, text=True)
    assert script.stdout is not None
    for line in script.stdout:
        if "--reward.remote_url " in line:
            yield script, line.split()[-1]
            break
    else:
        pytest.fail("the service was not deployed")
    script.kill()
    script.wait()


def test_a_batch_is_graded_by_the_client_and_openrlhfs_protocol_is_there(service: tuple[Any, str]):
    _, url = service
    items = [Item(rf"\boxed{{{number}}}", "3") for number in range(500)]

    with Client(url, token=TOKEN) as client:
        assert [one.reward for one in client.grade_many(items)] == [float(number == 3) for number in range(500)]
    query = {"query": [r"6*7? \boxed{42}"], "prompts": ["6*7?"], "labels": ["42"]}
    answer = httpx.post(f"{url}/get_reward", json=query, headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.json()["rewards"] == 1
    assert httpx.post(f"{url}/v1/grade", json={"items": []}).status_code == 401


def test_the_token_is_in_no_file_no_command_line_and_no_environment_of_the_cluster(cluster: Cluster, service: Any):
    files = [path for path in cluster.folder.rglob("*") if path.is_file()]
    assert [path for path in files if TOKEN.encode() in path.read_bytes()] == []
    for process in cluster.everything():
        assert TOKEN not in " ".join([*process.cmdline(), *process.environ().values()])


def test_grading_processes_have_no_ray_in_them(cluster: Cluster, service: Any):
    grading = cluster.grading()

    assert len(grading) >= 2
    for process in grading:
        assert "_raylet" not in Path(f"/proc/{process.pid}/maps").read_text()


def test_a_replica_that_is_killed_is_replaced_and_costs_no_reward(
    cluster: Cluster, service: tuple[Any, str], wait_for: WaitFor
):
    _, url = service
    replica = next(one for one in cluster.grading() if one.ppid() not in {other.pid for other in cluster.grading()})
    family = psutil.Process(replica.ppid()).children(recursive=True)
    os.kill(replica.ppid(), signal.SIGKILL)

    with Client(url, token=TOKEN, deadline=120) as client:
        rewards = {one.reward for one in client.grade_many([Item(r"\boxed{3}", "3")] * 500)}

    assert rewards == {1.0}
    assert psutil.wait_procs(family, timeout=120)[1] == [], "its grading processes end with it"


def test_sigterm_takes_the_service_down(cluster: Cluster, service: tuple[Any, str], wait_for: WaitFor):
    script, url = service

    script.send_signal(signal.SIGTERM)

    assert script.wait(timeout=120) == 0
    assert httpx.get(f"{url}/healthz").status_code == 404
    wait_for(lambda: cluster.grading() == [])


def test_stop_needs_no_token(cluster: Cluster):
    stopped = subprocess.run(
        ["bash", str(SCRIPT), "--stop"], env=environment(RAY_ADDRESS=cluster.address), capture_output=True, text=True
    )

    assert stopped.returncode == 0, stopped.stderr


@pytest.mark.parametrize(
    ("variables", "named"),
    [({"MIN_REPLICAS": "3", "MAX_REPLICAS": "2"}, "MAX_REPLICAS"), ({"PORT": "x"}, "--port"), ({}, "TOKEN")],
)
def test_what_cannot_be_deployed_is_refused_before_ray_is_asked(variables: dict[str, str], named: str):
    token = {"MATH_REWARD_TOKEN": TOKEN} if variables else {}
    ended = subprocess.run(
        ["bash", str(SCRIPT)], env=environment(**variables, **token), capture_output=True, text=True
    )

    assert ended.returncode == 2
    assert named in ended.stderr
    if not variables:
        assert_refusal(ended.stderr, "MATH_REWARD_TOKEN_FILE", "--insecure")
