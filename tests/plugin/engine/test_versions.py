"""A vLLM that the hook does not fit is refused with the versions that it fits."""

import pytest
from vllm.v1.sample.sampler import Sampler

from openrlhf_gtpo.engine import hook
from openrlhf_gtpo.engine.hook import EntropyHookError, install
from openrlhf_gtpo.vllm_entropy import EntropyMissing, check_hook


def test_a_sampler_that_is_not_covered_is_answered_with_the_versions_that_are() -> None:
    with pytest.raises(EntropyMissing, match=r"install vLLM 0\.29, .* or 0\.33"):
        check_hook([{"hooked": False, "sampler": "vllm.v3.Sampler", "vllm": "0.40.0"}])


@pytest.mark.parametrize("method", ["sample", "gather_logprobs"])
def test_a_sampler_without_a_method_that_is_hooked_stops_the_worker_with_one_sentence(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(Sampler, hook.MARK, raising=False)  # another test of this process may have hooked it
    monkeypatch.delattr(Sampler, method)
    before = dict(vars(Sampler))
    with pytest.raises(EntropyHookError, match=rf"vLLM 0\.29.* \(Sampler has no {method}\)"):
        install()
    assert dict(vars(Sampler)) == before, "nothing is half hooked"
