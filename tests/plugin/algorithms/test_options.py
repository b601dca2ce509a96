"""Every flag of ``--shaping.*``, of which the parser tells, has an effect."""

import argparse
import inspect
from pathlib import Path
from typing import Any

import pytest
import torch

from openrlhf_gtpo.algorithms import estimators
from openrlhf_gtpo.algorithms.estimators import ESTIMATORS, Estimate, small_batch
from openrlhf_gtpo.flags import parse, shaping_flags
from openrlhf_gtpo.registry import RECORDS, label_of

FOR_ANY_ESTIMATOR = {"grop", "top_entropy_share", "save_rollouts"}
"""What training reads itself: `test_experience.py` and `test_training.py` have their effects."""


def shaping() -> dict[str, argparse.Action]:
    """The flags by their names."""
    parser = argparse.ArgumentParser(add_help=False)
    shaping_flags(parser.add_argument)
    return {action.dest.removeprefix("shaping."): action for action in parser._actions}


FLAGS = shaping()
READ = [(name, option) for name, estimator in ESTIMATORS.items() for option in estimator.options]


def others(action: argparse.Action) -> list[Any]:
    """Values that a flag takes besides its default."""
    if action.choices:
        return [choice for choice in action.choices if choice != action.default]
    return [(0.5, 1.0)] if action.nargs == 2 else [2 * action.default + 1]


def test_each_flag_is_an_option_of_an_estimator_or_of_training() -> None:
    assert {option for _, option in READ} | FOR_ANY_ESTIMATOR == set(FLAGS)


@pytest.mark.filterwarnings('ignore:over="class"')
@pytest.mark.parametrize(("name", "option"), READ)
def test_each_option_of_an_estimator_changes_advantages(name: str, option: str) -> None:
    function, default = ESTIMATORS[name].function, {o: FLAGS[o].default for o in ESTIMATORS[name].options}
    for value in others(FLAGS[option]):
        changed = 0
        for seed in range(4):
            batch = small_batch(8, seed=seed)
            for response in batch.responses:
                response.returned["answer_end"] = 2  # before most responses end
            advantages = [function(batch, **given).advantages for given in (default, default | {option: value})]
            changed += not torch.allclose(*advantages, atol=1e-3)
        assert changed, f"--shaping.{option} {value} changes nothing"


def test_each_function_of_an_estimate_has_its_record_its_page_and_is_a_choice_of_the_parser() -> None:
    functions = inspect.getmembers(estimators, inspect.isfunction)
    made = {name for name, function in functions if inspect.signature(function).return_annotation is Estimate}
    assert {name for name in made if name[0] != "_"} == set(RECORDS)
    page = (Path(__file__).parents[3] / "docs" / "algorithms.md").read_text()
    for name in RECORDS:
        given = vars(parse(["--device", "cpu", "--algo.advantage.estimator", name]))
        assert given["algo.advantage.estimator"] == name
        assert f"`{name}`" in page
    assert list(map(label_of, ("grpo", "gtpo", "rloo", "my/a.py:idea"))) == ["GRPO", "GTPO", "rloo", "a.py:idea"]
