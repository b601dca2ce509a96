"""Which precision a CPU run takes, and that it is the same for policy and engines."""

import os
import platform as machine
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from openrlhf_gtpo.checks.flags import gpu_faults
from openrlhf_gtpo.cpu import platform, precision
from openrlhf_gtpo.settings import Settings

from ...refusals import assert_refusal

BASE = ["--data.label_key", "answer", "--algo.kl.init_coef", "0", "--algo.advantage.estimator", "gtpo"]


def asked(*environment: str) -> str:
    """Whether a process with these variables finds native bfloat16."""
    kept = {name: value for name, value in os.environ.items() if name not in ("ONEDNN_MAX_CPU_ISA",)}
    program = "from openrlhf_gtpo.cpu.precision import has_native_bf16; print(has_native_bf16())"
    done = subprocess.run(
        ["env", *environment, sys.executable, "-c", program], env=kept, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.skipif(machine.machine() != "x86_64", reason="the names of the flags are those of x86-64")
def test_the_cpus_own_flags_say_whether_it_has_bfloat16() -> None:
    flags = Path("/proc/cpuinfo").read_text().split()
    assert asked() == str("avx512_bf16" in flags or "amx_bf16" in flags)


@pytest.mark.skipif(machine.machine() != "x86_64", reason="the variable names an instruction set of x86-64")
def test_instructions_that_onednn_may_not_use_do_not_count() -> None:
    assert asked("ONEDNN_MAX_CPU_ISA=AVX2") == "False"


@pytest.mark.parametrize(("native", "names"), [(True, ["bf16", "fp32"]), (False, ["fp32", "bf16"])])
def test_the_precision_is_what_the_cpu_is_quick_in_unless_somebody_says_so(
    monkeypatch: pytest.MonkeyPatch, native: bool, names: list[str]
) -> None:
    for module in (platform, precision):
        monkeypatch.setattr(module, "has_native_bf16", lambda: native)
    (name, why), (other, by_flag) = (platform.chosen_precision(asked) for asked in ("auto", names[1]))
    assert [name, other] == names
    assert ("--ds.param_dtype" in why, "--ds.param_dtype" in by_flag) == (False, True)


@pytest.mark.parametrize(("name", "dtype"), [("fp32", "float32"), ("bf16", None)])
def test_engines_compute_in_the_policys_precision(
    settings: Callable[..., Settings], name: str, dtype: str | None
) -> None:
    """None leaves an engine to OpenRLHF, whose own is bfloat16."""
    for rewards in ("http://127.0.0.1:1", "rewards.py"):
        asked = settings(*[*BASE, "--ds.param_dtype", name, "--reward.remote_url", rewards])
        assert asked.rollout("some.Class").dtype == dtype


def test_what_a_device_cannot_compute_in_is_refused(settings: Callable[..., Settings]) -> None:
    half = settings(*[*BASE, "--ds.param_dtype", "fp16"])
    (sentence,) = platform.faults(half)
    assert_refusal(sentence, "--ds.param_dtype is fp16", "bf16 or fp32")
    assert gpu_faults(half) == []

    single = settings(*[*BASE, "--ds.param_dtype", "fp32"])
    assert platform.faults(single) == []
    (sentence,) = gpu_faults(single)
    assert_refusal(sentence, "--ds.param_dtype is fp32")


def test_names_of_precisions_become_torchs() -> None:
    assert (precision.to_torch_dtype("bf16"), precision.to_torch_dtype("fp32")) == (torch.bfloat16, torch.float32)
    with pytest.raises(ValueError, match="Invalid param_dtype: fp16"):
        precision.to_torch_dtype("fp16")
