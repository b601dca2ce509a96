"""The names that the driver rebinds in OpenRLHF."""

import inspect

import pytest

from openrlhf_gtpo.driver.bindings import BINDINGS, Binding


@pytest.mark.parametrize("binding", BINDINGS, ids=lambda binding: binding.name)
@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_every_name_is_there_in_openrlhf_and_has_something_of_ours_and_a_reason(binding: Binding, device: str) -> None:
    assert binding.get() is not None
    assert binding.load(device).__module__.startswith("openrlhf_gtpo.")
    assert binding.reason


@pytest.mark.parametrize("binding", [b for b in BINDINGS if inspect.isclass(b.load("gpu"))], ids=lambda b: b.name)
def test_an_actor_of_the_cpu_platform_is_one_of_ours_too(binding: Binding) -> None:
    assert issubclass(binding.load("cpu"), binding.load("gpu"))
