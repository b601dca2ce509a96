"""The table of estimators: its flags, and a further one from docs/extending.md."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from openrlhf_gtpo.algorithms import estimators
from openrlhf_gtpo.algorithms.estimators import Rollouts
from openrlhf_gtpo.algorithms.table import ESTIMATORS
from openrlhf_gtpo.checks.flags import faults
from openrlhf_gtpo.driver import command_line
from openrlhf_gtpo.settings import Settings

from ...refusals import assert_refusal
from ..controller.test_experience import advantages_by_response, arguments, assert_close, dense, rollout

EXAMPLE = Path(__file__).resolve().parents[3] / "docs" / "examples" / "less_from_success.py"


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_line_of_the_table_has_a_function_that_a_docstring_describes(name: str) -> None:
    estimator = ESTIMATORS[name]
    assert estimator.load().__doc__
    assert "arXiv" in estimator.sentence


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The estimator of docs/extending.md in the table; its name."""
    before = dict(ESTIMATORS)
    spec = importlib.util.spec_from_file_location("less_from_success", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "less_from_success", module)
    spec.loader.exec_module(module)
    yield "less_from_success"
    ESTIMATORS.clear()
    ESTIMATORS.update(before)


def test_the_documented_estimator_has_its_equations_advantages_by_hand(example: str) -> None:
    rollouts = Rollouts(
        entropy=torch.tensor([[0.5, 4.0], [1.0, 0.0]]),
        logprob=torch.zeros(2, 2),
        mask=torch.tensor([[True, True], [True, False]]),
        correct=None,
        group=torch.tensor([0, 0]),
        reward=torch.tensor([1.0, 0.0]),
        penalty=torch.zeros(2),
    )
    found = ESTIMATORS[example].load()(rollouts, weight=0.1)
    # Group norm of (1, 0) is +-0.70711, of which success gets a tenth.
    expected = torch.tensor([[0.070711, 0.070711], [-0.70711, 0.0]])
    assert torch.allclose(found.advantages, expected, atol=1e-5)
    assert found.metrics == {"less_from_success/negative_share": pytest.approx(1 / 3)}


def test_the_documented_estimator_joins_parser_controller_and_metrics(example: str) -> None:
    responses = rollout()
    entropy, mask = dense(responses)
    scores = torch.tensor([r["scores"] for r in responses])
    group = torch.arange(len(responses)) // 4
    args = arguments(example)
    args.less_from_success = type("Options", (), {"weight": 0.25})()
    found = advantages_by_response(args, responses)
    plain = estimators.group_norm(
        Rollouts(entropy, entropy, mask.bool(), None, group, scores, torch.zeros_like(scores))
    ).advantages
    expected = torch.where(plain < 0, plain, 0.25 * plain)
    assert_close(found, expected)


def test_the_documented_estimators_flags_are_parsed_and_its_name_is_accepted(example: str) -> None:
    parser = command_line.parser()
    flags = ["--algo.advantage.estimator", example, "--less_from_success.weight", "0.5", "--data.label_key", "answer"]
    flags += ["--vllm.num_engines", "1"]
    args = parser.parse_args([*flags, "--algo.kl.init_coef", "0", "--rollout.n_samples_per_prompt", "8"])
    assert vars(args)["less_from_success.weight"] == 0.5
    assert faults(Settings(vars(args))) == []
    assert ESTIMATORS[example].sentence in " ".join(parser.format_help().split())
    rest = [*flags[4:], "--algo.kl.init_coef", "0", "--rollout.n_samples_per_prompt", "8"]
    (said,) = faults(Settings(vars(parser.parse_args([*flags[:2], "--less_from_success.weight=2", *rest]))))
    assert_refusal(said, "--less_from_success.weight", "2.0", "0 to 1")
