"""A Python that has imported torch, vLLM and the rest, and a Ray cluster, each made once for a process of pytest: an
engine's tests start in a third of the time."""

import atexit
import functools
import subprocess
import sys
from pathlib import Path

import psutil

PROGRAM = """
import os, sys
sys.path.append(sys.argv[1])
from openrlhf_gtpo.cpu.platform import prepare_process, start_local_ray
prepare_process()
from zygote import Zygote
with Zygote() as zygote:
    print(zygote.python, flush=True)
    for _ in sys.stdin:  # until the tests end
        import ray
        start_local_ray(20, 8, 2**30)
        print(ray.get_runtime_context().gcs_address, flush=True)
"""


@functools.cache
def _server() -> "subprocess.Popen[str]":
    server = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(Path(__file__).parent)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(server.communicate)  # which closes its input
    return server


def _answer() -> str:
    stdout = _server().stdout
    assert stdout is not None
    answer = stdout.readline().strip()
    assert answer, "The preloaded Python ended; its standard error says why."
    return answer


@functools.cache
def python() -> str:
    """Path of a program that runs Python's command line in a fork, as the plugin starts Ray's workers. Its child's
    environment in /proc is that of the process it is a fork of."""
    return _answer()


@functools.cache
def ray_address() -> str:
    """A cluster of eight logical GPUs, for runs whose subject is not the cluster."""
    python()
    stdin = _server().stdin
    assert stdin is not None
    stdin.write("ray\n")
    stdin.flush()
    return _answer()


def descendants() -> list[psutil.Process]:
    """Every process that is there because of these two."""
    return psutil.Process(_server().pid).children(recursive=True)
