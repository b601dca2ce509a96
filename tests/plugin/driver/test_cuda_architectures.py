"""TORCH_CUDA_ARCH_LIST, as DeepSpeed reads it."""

import os

import pytest
from deepspeed.ops.op_builder.fused_adam import FusedAdamBuilder
from hypothesis import example, given
from hypothesis import strategies as st

from openrlhf_gtpo.driver.cuda_architectures import VARIABLE, architecture_faults


@pytest.mark.parametrize(
    ("value", "fix"),
    [("9.0a", "write 9.0 instead"), ("8.0 10.0a+PTX", "write 10.0 instead"), ("Hopper", "write numbers such as 9.0")],
)
def test_an_architecture_that_deepspeed_cannot_read_is_named_with_the_fix(
    value: str, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, value)
    (sentence,) = architecture_faults()
    assert value.split()[-1] in sentence
    assert fix in sentence


@pytest.mark.parametrize("value", [None, "", "9.0", "8.0;9.0+PTX", "7.0 8.0 10.0 12.0+PTX"])
def test_a_list_of_numbers_is_fine(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(VARIABLE, value)
    assert architecture_faults() == []


entries = st.sampled_from(["7.5", "8.0", "9.0", "9.0a", "10.0", "10.0f", "9.0+PTX", "12.0a+PTX", "Ampere", "Hopper"])


@given(st.lists(entries, min_size=1, max_size=4), st.sampled_from([" ", ";"]))
@example(["9.0a"], " ")
def test_what_is_refused_is_what_deepspeed_itself_fails_on(found: list[str], separator: str) -> None:
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = separator.join(found)
    try:
        builder = FusedAdamBuilder()
        builder.jit_mode = True
        try:
            builder.compute_capability_args()
            deepspeed_fails = False
        except ValueError:
            deepspeed_fails = True
        os.environ[VARIABLE] = separator.join(found)  # DeepSpeed writes it
        assert bool(architecture_faults()) == deepspeed_fails
    finally:
        os.environ.pop(VARIABLE, None)
        if before is not None:
            os.environ[VARIABLE] = before
