"""The driver on a CPU before anything starts."""

import contextlib
import importlib.metadata
import os
import subprocess
import sys

import pytest
import torch

from openrlhf_gtpo.cpu import platform


@pytest.mark.skipif(
    not importlib.metadata.version("torch").endswith("+cpu"), reason="Torch's CPU build is not what is installed."
)
def test_a_cpu_is_chosen_without_torch_which_would_start_a_thread_for_each_core_in_every_fork():
    program = """
import os, sys
from openrlhf_gtpo.cpu.platform import prepare_process
from openrlhf_gtpo.train import choose_device
print(choose_device([]), "torch" in sys.modules)
prepare_process()
import torch
print(torch.get_num_threads())
"""
    # An OpenMP library that is there before Python is has counted the cores already.
    gone = ("OMP_NUM_THREADS", "RAY_ADDRESS", "LD_PRELOAD")
    unset = {name: value for name, value in os.environ.items() if name not in gone}
    done = subprocess.run([sys.executable, "-c", program], env=unset, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["cpu", "False", "1"], done.stderr[-2000:]


def test_where_torch_came_first_workers_are_ordinary_pythons(monkeypatch: pytest.MonkeyPatch):
    for name in ("OMP_NUM_THREADS", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.delitem(sys.modules, "ray", raising=False)

    platform.prepare_process()

    with contextlib.ExitStack() as cleanup:
        assert platform.worker_python(cleanup) is None
