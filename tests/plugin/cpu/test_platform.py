"""The driver on a CPU before anything starts."""

import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from openrlhf_gtpo.cpu import platform
from openrlhf_gtpo.errors import UserError
from openrlhf_gtpo.model_size import ModelSize


def printed(program: str, **environment: str | None) -> str:
    """What a Python prints whose environment is this one's but for these variables; None takes one away."""
    changed = {name: value for name, value in {**os.environ, **environment}.items() if value is not None}
    done = subprocess.run([sys.executable, "-c", program], env=changed, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Triton" not in done.stderr, "vLLM warns of one that a CPU has no use for"
    return done.stdout.strip()


@pytest.mark.skipif(
    not importlib.metadata.version("torch").endswith("+cpu"), reason="Torch's CPU build is not what is installed."
)
def test_a_cpu_is_chosen_without_torch_which_would_start_a_thread_for_each_core_in_every_fork():
    program = """
import os, sys
from openrlhf_gtpo.cpu.platform import prepare_process
from openrlhf_gtpo.device import choose_device
print(choose_device("auto"), "torch" in sys.modules)
prepare_process()
import torch, vllm.triton_utils
print(torch.get_num_threads(), vllm.triton_utils.HAS_TRITON)
"""
    # An OpenMP library that is there before Python is has counted the cores already.
    said = printed(program, OMP_NUM_THREADS=None, RAY_ADDRESS=None, LD_PRELOAD=None)
    assert said.split() == ["cpu", "False", "1", "False"]


Parse = Callable[..., dict[str, Any]]


def sizes(given: dict[str, Any]) -> dict[str, Any]:
    """The sizes of a run of these flags on a CPU."""
    platform.prepare(given)
    roles = ("actor", "ref", "critic", "reward")
    found = {role: given[f"{role}.num_nodes"] * given[f"{role}.num_gpus_per_node"] for role in roles}
    return found | {"engines": given["vllm.num_engines"]}


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
            ["--actor.num_gpus_per_node=4", "--train.colocate_all", "--vllm.tensor_parallel_size=2"],
            {"actor": 4, "ref": 4, "engines": 2},
        ),
        (
            ["--actor.num_gpus_per_node", "4", "--train.colocate_all", "--train.async_enable"],
            {"actor": 4, "ref": 4},  # engines are beside the trainers, then
        ),
        (["--critic.num_gpus_per_node", "2"], {"critic": 2}),
        (["--ds.ring_attn_size", "2"], {"actor": 2}),
        (["--actor.num_nodes", "2"], {"actor": 2}),
    ],
)
def test_a_cpu_has_one_trainer_and_one_engine_where_the_command_line_says_nothing(
    parse: Parse, flags: list[str], different: dict[str, int]
) -> None:
    assert sizes(parse(*flags)) == ONE_OF_EACH | different


@pytest.mark.parametrize(("native", "name"), [(True, "bf16"), (False, "fp32")])
def test_the_precision_is_what_the_cpu_is_quick_in_unless_somebody_says_so(
    parse: Parse, monkeypatch: pytest.MonkeyPatch, native: bool, name: str
) -> None:
    monkeypatch.setattr(platform, "has_native_bf16", lambda: native)
    for asked, taken in (("auto", name), ("bf16", "bf16"), ("fp32", "fp32")):
        given = parse(f"--ds.param_dtype={asked}")
        platform.prepare(given)
        assert given["ds.param_dtype"] == taken


@pytest.mark.parametrize(
    ("parameters", "flags", "expected"),
    [
        (400_000, [], 1),
        (135_000_000, [], 8),
        (135_000_000, ["--actor.num_gpus_per_node=2", "--vllm.num_engines=2"], 4),
        (135_000_000, ["--train.async_enable"], 4),
        (None, [], 1),
    ],
    ids=["a small model", "a real one", "two ranks", "engine and policy at once", "a model of unknown size"],
)
def test_a_model_that_is_large_enough_gets_all_cores_and_whoever_sets_threads_decides(
    parse: Parse, monkeypatch: pytest.MonkeyPatch, parameters: int | None, flags: list[str], expected: int
) -> None:
    size = None if parameters is None else ModelSize(parameters, 1, 1, 1, 1, (1,))
    monkeypatch.setattr(platform, "size_of", lambda name: size)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)))
    monkeypatch.setattr(
        os, "environ", {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    )
    named = ["--actor.model_name_or_path=a/model", *flags]
    platform.prepare(parse(*named))
    assert os.environ["OMP_NUM_THREADS"] == str(expected)
    os.environ["OMP_NUM_THREADS"] = "3"
    platform.prepare(parse(*named))
    assert os.environ["OMP_NUM_THREADS"] == "3"


def test_rays_store_holds_all_that_a_step_sends_and_leaves_room_in_memory(
    parse: Parse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def store(prompts: int, samples: int, longest: int, *words: str) -> int:
        sizes = [f"--rollout.batch_size={prompts}", f"--rollout.n_samples_per_prompt={samples}"]
        return platform.store_bytes(parse(*sizes, f"--data.max_len={longest}", *words))

    assert store(16, 8, 96) == platform.SMALLEST_STORE
    # 597 MB were seen for responses of 1,000 to 4,096 tokens: bench_step.py at c41c6fd.
    assert store(128, 16, 4608) >= 597e6
    drawn = ["--algo.dynamic_filtering_enable", "--rollout.over_sampling_batch_size=256"]
    assert store(128, 16, 4608, *drawn) == store(256, 16, 4608), "what is filtered came first"
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert store(4096, 64, 32768) <= installed * 3 // 10
    for free, expected in ((10**9, 9 * 10**8), (64 * 2**20, platform.SMALLEST_STORE)):
        monkeypatch.setattr("shutil.disk_usage", lambda path, free=free: SimpleNamespace(free=free))
        assert store(4096, 64, 32768) == expected, "Ray would use a folder on the disk beyond what /dev/shm has"


def test_ray_is_started_again_where_a_busy_machine_gave_it_no_time(monkeypatch: pytest.MonkeyPatch):
    answers: list[Exception | None] = []

    def init(**_: Any) -> None:
        if answer := answers.pop(0):
            raise answer

    monkeypatch.setattr("ray.init", init)
    late = Exception("The current node timed out during startup. This could happen because ...")
    answers += [late, late, None]
    platform.start_local_ray(1, 1, 2**27)
    for faults in ([late] * 3, [ValueError("object_store_memory is too small")]):
        answers += faults
        with pytest.raises(UserError, match="Ray did not start") as error:
            platform.start_local_ray(1, 1, 2**27)
        assert str(faults[0]).split(".")[0] in str(error.value)
        assert not answers
