"""What the plugin needs of OpenRLHF: its version, the methods that our subclasses override, and the names that they
take."""

from types import ModuleType

import pytest

from openrlhf_gtpo import flags, host
from openrlhf_gtpo.errors import SettingsError, UserError

from ..refusals import assert_refusal


@pytest.mark.parametrize("found", ["0.11.1", "0.12.0"])
def test_another_openrlhf_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch, found: str) -> None:
    flags.parse([])
    monkeypatch.setattr(flags, "version", lambda name: found)
    with pytest.raises(SettingsError) as error:
        flags.parse([])
    assert_refusal(str(error.value), found, "0.11.2")


def test_a_method_that_openrlhf_no_longer_calls_is_refused_when_the_class_is_made() -> None:
    from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator

    class Ours(SamplesGenerator):
        def generate_samples(self) -> None: ...

    assert host.overrides("generate_samples")(Ours) is Ours
    with pytest.raises(UserError) as error:
        host.overrides("generate_other_samples")(Ours)
    assert_refusal(str(error.value), "generate_other_samples", "Ours")


def test_a_class_that_openrlhf_calls_by_another_name_is_refused_and_what_is_there_can_be_put_back() -> None:
    theirs = ModuleType("openrlhf.theirs")
    theirs.__dict__.update(PolicyActor=1, Trainer=2)
    with pytest.raises(UserError) as error:
        host.replace(theirs, PolicyModelActor=3)
    assert_refusal(str(error.value), "PolicyModelActor", "openrlhf.theirs", "0.11.2")
    assert not hasattr(theirs, "PolicyModelActor")
    with host.replace(theirs, PolicyActor=3):
        host.replace(theirs, Trainer=4)
        assert (theirs.PolicyActor, theirs.Trainer) == (3, 4)
    assert (theirs.PolicyActor, theirs.Trainer) == (1, 4)
