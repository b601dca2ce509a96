"""The driver on a CPU before anything starts."""

import contextlib
import importlib.metadata
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from openrlhf_gtpo.checks.flags import faults
from openrlhf_gtpo.cpu import platform
from openrlhf_gtpo.driver import command_line
from openrlhf_gtpo.settings import Settings

from ...refusals import assert_refusal


@pytest.mark.skipif(
    not importlib.metadata.version("torch").endswith("+cpu"), reason="Torch's CPU build is not what is installed."
)
def test_a_cpu_is_chosen_without_torch_which_would_start_a_thread_for_each_core_in_every_fork():
    program = """
import os, sys
from openrlhf_gtpo.cpu.platform import prepare_process
from openrlhf_gtpo.train import choose_device
print(choose_device("auto"), "torch" in sys.modules)
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


def test_vllm_does_not_warn_of_a_triton_that_a_cpu_has_no_use_for() -> None:
    program = """
from openrlhf_gtpo.cpu.platform import prepare_process
prepare_process()
import vllm.triton_utils
print(vllm.triton_utils.HAS_TRITON)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.stdout == "False\n", done.stdout + done.stderr[-2000:]
    assert "Triton" not in done.stderr


def sizes(*flags: str) -> dict[str, Any]:
    """The sizes of a run of these flags on a CPU."""
    line = command_line.parse(flags)
    found = {**line.flags, **platform.sizes(line.flags, line.given)}
    roles = ("actor", "ref", "critic", "reward")
    return {role: found[f"{role}.num_nodes"] * found[f"{role}.num_gpus_per_node"] for role in roles} | {
        "engines": found["vllm.num_engines"]
    }


ONE_OF_EACH = {"actor": 1, "ref": 1, "critic": 1, "reward": 1, "engines": 1}


@pytest.mark.parametrize(
    ("flags", "different"),
    [
        ([], {}),
        (["--actor.num_gpus_per_node", "8"], {"actor": 8}),  # though it is OpenRLHF's default too
        (["--vllm.num_engines", "3", "--ref.num_gpus_per_node=2"], {"engines": 3, "ref": 2}),
        (["--actor.num_gpus_per_node", "2", "--train.colocate_actor_ref"], {"actor": 2, "ref": 2}),
        (["--actor.num_gpus_per_node", "4", "--train.colocate_all"], {"actor": 4, "ref": 4, "engines": 4}),
        (
            [*("--actor.num_gpus_per_node", "4", "--train.colocate_all"), *("--vllm.tensor_parallel_size", "2")],
            {"actor": 4, "ref": 4, "engines": 2},
        ),
        (
            ["--actor.num_gpus_per_node", "4", "--train.colocate_all", "--train.async_enable"],
            {"actor": 4, "ref": 4},  # engines are beside the trainers, then
        ),
        (["--critic.num_gpus_per_node", "2", "--train.colocate_critic_reward"], {"critic": 2, "reward": 2}),
        (["--ds.ring_attn_size", "2"], {"actor": 2}),
        (["--actor.num_nodes", "2"], {"actor": 2}),
    ],
)
def test_a_cpu_has_one_trainer_and_one_engine_where_the_command_line_says_nothing(
    flags: list[str], different: dict[str, int]
) -> None:
    assert sizes(*flags) == ONE_OF_EACH | different


@pytest.mark.parametrize("engines", [[], ["--vllm.num_engines", "0"], ["--vllm.num_engines=-1"]])
def test_no_engine_is_refused_wherever_one_was_not_filled_in(engines: list[str]) -> None:
    line = command_line.parse(["--data.label_key", "label", *engines])
    settings = Settings(line.flags)
    (sentence,) = faults(settings)
    count = engines[-1].split("=")[-1] if engines else "0"
    assert_refusal(sentence, f"--vllm.num_engines is {count},", "1 or more")
    filled = settings.changed(platform.sizes(line.flags, line.given))
    assert faults(filled) == ([sentence] if engines else [])


def test_what_is_set_already_is_not_set_again_or_ray_could_not_name_its_processes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    platform.prepare_process()
    again: list[bytes] = []
    monkeypatch.setattr(os, "putenv", lambda name, value: again.append(name))

    platform.prepare_process()

    assert again == []


def store(*flags: str) -> int:
    line = command_line.parse(flags)
    return platform.store_bytes(line.flags)


def test_rays_store_holds_all_that_a_step_sends_and_a_small_run_gets_the_least() -> None:
    paper = ["--rollout.batch_size", "128", "--rollout.n_samples_per_prompt", "16"]
    small = ["--rollout.batch_size", "16", "--rollout.n_samples_per_prompt", "8", "--data.max_len", "96"]
    assert store(*small) == platform.SMALLEST_STORE
    # 597 MB were seen for responses of 1,000 to 4,096 tokens: tests/benchmarks/bench_step.py.
    assert store(*paper, "--data.max_len", "4608") >= 597e6


def test_rays_store_leaves_room_in_memory_and_in_shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    huge = ["--rollout.batch_size", "4096", "--rollout.n_samples_per_prompt", "64", "--data.max_len", "32768"]
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert store(*huge) <= installed * 3 // 10
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=10**9))
    assert store(*huge) == 9 * 10**8
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=64 * 2**20))
    assert store(*huge) == platform.SMALLEST_STORE, "as Ray says, it then uses a folder on the disk"
