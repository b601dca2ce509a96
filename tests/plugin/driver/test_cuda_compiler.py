"""The nvcc with which DeepSpeed compiles its optimizer."""

from pathlib import Path

import pytest
import torch
from deepspeed.ops.op_builder import builder
from torch.utils import cpp_extension

from openrlhf_gtpo.checks.machine import check_compiler
from openrlhf_gtpo.driver import cuda_compiler
from openrlhf_gtpo.driver.cuda_compiler import SKIP_VARIABLE, compiler_faults


@pytest.fixture(autouse=True)
def not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_compiler, "is_compiled", lambda: False)
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
def test_what_is_refused_is_what_deepspeed_itself_refuses(
    release: str | None, of_torch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolkit(tmp_path, monkeypatch, release, of_torch)
    try:
        builder.assert_no_cuda_mismatch()
        deepspeed_fails = False
    except (builder.CUDAMismatchException, builder.MissingCUDAException):
        deepspeed_fails = True
    assert bool(compiler_faults()) == deepspeed_fails


def test_the_sentence_names_the_compiler_and_the_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toolkit(tmp_path, monkeypatch, "13.1", "13.0")
    (sentence,) = compiler_faults()
    assert f"{tmp_path}/bin/nvcc is of CUDA 13.1 and torch of 13.0: set DS_SKIP_CUDA_CHECK=1" in sentence
    assert "install the toolkit of CUDA 13.0" in sentence
    assert (check_compiler().state, check_compiler().sentence) == ("fault", sentence)
    monkeypatch.setenv(SKIP_VARIABLE, "1")
    assert check_compiler().state == "ok"


def test_without_a_toolkit_or_without_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(cpp_extension, "CUDA_HOME", None)
    (sentence,) = compiler_faults()
    assert sentence.startswith(
        "DeepSpeed compiles its optimizer, and there is no nvcc: install the toolkit of CUDA 13.0"
    )
    monkeypatch.setattr(torch.version, "cuda", None)
    assert compiler_faults() == [], "torch is a build for CPUs"


def test_an_optimizer_that_was_compiled_at_installation_needs_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(cpp_extension, "CUDA_HOME", None)
    monkeypatch.setattr(cuda_compiler, "is_compiled", lambda: True)
    assert compiler_faults() == []
