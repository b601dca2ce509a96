"""What DeepSpeed needs to compile its optimizer: an nvcc, and architectures that it can read."""

import os
from pathlib import Path

import pytest
import torch
from deepspeed.ops.op_builder import builder
from deepspeed.ops.op_builder.fused_adam import FusedAdamBuilder
from hypothesis import example, given
from hypothesis import strategies as st
from torch.utils import cpp_extension

from openrlhf_gtpo.checks.machine import check_compiler
from openrlhf_gtpo.driver import cuda
from openrlhf_gtpo.driver.cuda import ARCHITECTURES, SKIP_VARIABLE, architecture_fault, compiler_fault

from ...refusals import assert_refusal


@pytest.fixture(autouse=True)
def not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "_is_compiled", lambda: False)
    monkeypatch.delenv(SKIP_VARIABLE, raising=False)


def toolkit(folder: Path, monkeypatch: pytest.MonkeyPatch, release: str | None, of_torch: str | None) -> None:
    """A toolkit of that release, or one without a compiler, beside a torch of that CUDA."""
    monkeypatch.setattr(torch.version, "cuda", of_torch)
    monkeypatch.setattr(cpp_extension, "CUDA_HOME", str(folder))
    if release is not None:
        nvcc = folder / "bin" / "nvcc"
        nvcc.parent.mkdir()
        nvcc.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release {release}, V{release}.48'\n")
        nvcc.chmod(0o755)


@pytest.mark.parametrize(
    ("release", "of_torch"),
    [("13.0", "13.0"), ("13.1", "13.0"), ("12.8", "12.4"), ("12.8", "13.0"), ("11.8", "12.8"), (None, "13.0")],
)
def test_a_compiler_is_refused_as_deepspeed_itself_refuses_it(
    release: str | None, of_torch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolkit(tmp_path, monkeypatch, release, of_torch)
    try:
        builder.assert_no_cuda_mismatch()
        deepspeed_fails = False
    except (builder.CUDAMismatchException, builder.MissingCUDAException):
        deepspeed_fails = True
    assert (compiler_fault() is not None) == deepspeed_fails


def test_the_sentence_names_the_compiler_and_the_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toolkit(tmp_path, monkeypatch, "13.1", "13.0")
    found = check_compiler()
    assert found.state == "fault"
    assert_refusal(found.sentence, f"{tmp_path}/bin/nvcc", "13.1", "13.0", "DS_SKIP_CUDA_CHECK=1")
    monkeypatch.setenv(SKIP_VARIABLE, "1")
    assert check_compiler().state == "ok"


def test_a_compiler_is_needed_where_torch_is_for_cuda_and_nothing_is_compiled_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(cpp_extension, "CUDA_HOME", None)
    assert_refusal(str(compiler_fault()), "no nvcc", "CUDA 13.0")
    monkeypatch.setattr(torch.version, "cuda", None)
    assert compiler_fault() is None
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(cuda, "_is_compiled", lambda: True)
    assert compiler_fault() is None


@pytest.mark.parametrize(
    ("value", "fix"),
    [("9.0a", "write 9.0 "), ("8.0 10.0a+PTX", "write 10.0 "), ("Hopper", "9.0")],
)
def test_an_architecture_that_deepspeed_cannot_read_is_named_with_the_fix(
    value: str, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ARCHITECTURES, value)
    assert_refusal(str(architecture_fault()), ARCHITECTURES, value.split()[-1], fix)


@pytest.mark.parametrize("value", [None, "", "9.0", "8.0;9.0+PTX", "7.0 8.0 10.0 12.0+PTX"])
def test_a_list_of_numbers_is_fine(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ARCHITECTURES, raising=False)
    if value is not None:
        monkeypatch.setenv(ARCHITECTURES, value)
    assert architecture_fault() is None


entries = st.sampled_from(["7.5", "8.0", "9.0", "9.0a", "10.0", "10.0f", "9.0+PTX", "12.0a+PTX", "Ampere", "Hopper"])


@given(st.lists(entries, min_size=1, max_size=4), st.sampled_from([" ", ";"]))
@example(["9.0a"], " ")
def test_an_architecture_is_refused_as_deepspeed_itself_fails_on_it(named: list[str], separator: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ARCHITECTURES, separator.join(named))
        builder = FusedAdamBuilder()
        builder.jit_mode = True
        try:
            builder.compute_capability_args()
            deepspeed_fails = False
        except ValueError:
            deepspeed_fails = True
        os.environ[ARCHITECTURES] = separator.join(named)  # DeepSpeed writes it
        assert (architecture_fault() is not None) == deepspeed_fails
