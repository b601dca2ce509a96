"""The check at start-up: an OpenRLHF that does not fit is named in one sentence before anything starts."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError

import pytest

from openrlhf_gtpo import openrlhf_internals
from openrlhf_gtpo.errors import UserError
from openrlhf_gtpo.openrlhf_internals import OpenRLHFMismatch, check, rebuilt_as


def test_the_installed_openrlhf_fits() -> None:
    assert check().startswith("0.11.")


@pytest.mark.parametrize("found", ["0.11.1", "0.12.0", "1.0"])
def test_another_version_is_refused_with_the_one_to_install(found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openrlhf_internals, "version", lambda name: found)
    with pytest.raises(OpenRLHFMismatch) as caught:
        check()
    assert str(caught.value) == (
        f"Found OpenRLHF {found}, but the plugin fits 0.11.2 up to 0.12.0 (excluded): install one with "
        '`pip install "openrlhf>=0.11.2,<0.12.0"`.'
    )
    assert isinstance(caught.value, UserError)


@pytest.mark.parametrize("found", ["0.11.2", "0.11.2.post1", "0.11.9"])
def test_every_0_11_from_0_11_2_is_in_the_range(found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openrlhf_internals, "version", lambda name: found)
    assert check() == found


def test_a_missing_openrlhf_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(openrlhf_internals, "version", version)
    with pytest.raises(OpenRLHFMismatch, match="not installed"):
        check()


def test_a_changed_internal_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator

    monkeypatch.delattr(SamplesGenerator, "_generate_vllm")
    with pytest.raises(
        OpenRLHFMismatch, match=r"has no openrlhf\S*samples_generator\.SamplesGenerator\._generate_vllm"
    ):
        check()


def test_an_attribute_that_no_method_sets_any_more_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "openrlhf.trainer.ppo_utils.samples_generator"
    monkeypatch.setitem(openrlhf_internals._INTERNALS, module, ["SamplesGenerator._sample_buffer"])
    check()
    monkeypatch.setitem(openrlhf_internals._INTERNALS, module, ["SamplesGenerator._sample_buffers"])
    with pytest.raises(OpenRLHFMismatch, match=r"has no openrlhf\S*\.SamplesGenerator\._sample_buffers, which"):
        check()


def test_a_subclass_takes_over_an_objects_state_without_running_its_constructor() -> None:
    class Theirs:
        def __init__(self, value: int) -> None:
            self.value = value

    class Ours(Theirs):
        pass

    old = Theirs(3)
    new = rebuilt_as(Ours, old)
    assert isinstance(new, Ours)
    assert new.value == 3


OF_THE_SERVICE = ("math_reward.grader", "math_reward.pool", "math_reward.http")
"""What only grades."""

IMPORTS = {
    "openrlhf_gtpo.shaping": {"ray", "vllm", "deepspeed", "openrlhf", "transformers", *OF_THE_SERVICE},
    "openrlhf_gtpo.algorithms.table": {"torch", "ray", "vllm", "deepspeed", "openrlhf", *OF_THE_SERVICE},
    "openrlhf_gtpo.algorithms.entropy": {
        "ray",
        "vllm",
        "deepspeed",
        "openrlhf",
        "transformers",
        "triton",
        *OF_THE_SERVICE,
    },
    "openrlhf_gtpo.vllm_entropy": {"torch", "numpy", "ray", "vllm", "deepspeed", "openrlhf", *OF_THE_SERVICE},
    "openrlhf_gtpo.rewards.client": {"torch", "ray", "vllm", "deepspeed", "openrlhf", *OF_THE_SERVICE},
    "openrlhf_gtpo.settings": {"torch", "ray", "vllm", "deepspeed", "openrlhf", *OF_THE_SERVICE},
    "openrlhf_gtpo.rollout.actor": {"deepspeed", *OF_THE_SERVICE},
    "openrlhf_gtpo.cli": {"torch", "ray", "vllm", "deepspeed", "openrlhf", "transformers"},
    "openrlhf_gtpo.report.command": {"torch", "ray", "vllm", "deepspeed", "openrlhf", "transformers"},
    "math_reward.app": {"torch", "openrlhf_gtpo", "ray", "vllm"},
    "math_reward.client": {"fastapi", "uvicorn", "pydantic", "sympy", "torch"},
}


@pytest.mark.parametrize("module", IMPORTS)
def test_each_role_imports_no_more_than_its_process_needs(module: str) -> None:
    program = (
        f"import sys, {module}; print('loaded', *(name for name in {sorted(IMPORTS[module])} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "loaded"  # vLLM has its own lines before
