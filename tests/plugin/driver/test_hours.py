"""The hours of a run, out of its command line: what they follow from, and that the likely case is between the ends."""

import pytest

from openrlhf_gtpo.driver import command_line, hours, presets
from openrlhf_gtpo.driver.hours import CASES, KINDS, LARGE, SMALL_MATH, inputs_of, rows
from openrlhf_gtpo.driver.model_size import KNOWN, Model
from openrlhf_gtpo.settings import Settings

SEVEN = KNOWN["Qwen2.5-7B"]


def settings(*words: str) -> Settings:
    needed = ["--preset", "gtpo", "--vllm.num_engines", "8", "--train.colocate_all", *words]
    return Settings(command_line.parse(presets.expand(needed).arguments).flags)


def told(*words: str, model: Model = SEVEN) -> dict[str, str]:
    return dict(reversed(rows(model, settings(*words))))


def test_the_inputs_of_the_studied_sizes_are_the_studys() -> None:
    found = inputs_of(SEVEN, settings(), KINDS["H100"])
    small = inputs_of(KNOWN["Qwen2.5-1.5B"], settings(), KINDS["H100"])
    for case in CASES:
        for name in ("speed", "alone", "length", "fixed", "utilization"):
            assert getattr(found, name).at(case) == pytest.approx(getattr(LARGE, name).at(case))
        for name in ("speed", "alone", "fixed"):
            assert getattr(small, name).at(case) == pytest.approx(getattr(SMALL_MATH, name).at(case))


@pytest.mark.parametrize("model", KNOWN.values(), ids=KNOWN)
@pytest.mark.parametrize("kind", KINDS)
def test_no_input_is_likelier_outside_its_own_range(model: Model, kind: str) -> None:
    found = inputs_of(model, settings(), KINDS[kind])
    for one in vars(found).values():
        assert min(one.low, one.high) <= one.likely <= max(one.low, one.high)


def test_other_gpus_that_train_cost_too_and_a_run_without_an_end_has_seconds_a_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hours, "kind", lambda: "A100")
    apart = dict(reversed(rows(SEVEN, Settings({**settings().flags, "train.colocate_all": False}))))
    assert "210 steps on 16 x A100" in apart["hours"]
    endless = Settings({**settings().flags, "train.max_steps": None})
    (only,) = rows(SEVEN, endless)
    assert only[1].endswith(" on 8 x A100")
    assert " s a step likely, " in only[1]
    monkeypatch.setattr(hours, "kind", lambda: None)
    assert told()["hours"].startswith("not estimated")
