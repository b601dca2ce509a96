"""The length of a run and its learning rates, against OpenRLHF's own arithmetic and DeepSpeed's real scheduler."""

import argparse
import math
from typing import Any

import pytest
import torch
from transformers import get_scheduler

from openrlhf_gtpo.controller.schedule import schedule, updates
from openrlhf_gtpo.settings import Settings


def arguments(parser: argparse.ArgumentParser, *flags: str) -> Any:
    paper = ["--rollout.batch_size=128", "--rollout.n_samples_per_prompt=16", "--train.batch_size=512"]
    return Settings(vars(parser.parse_args([*paper, *flags]))).nested()


def test_without_a_number_of_steps_a_hundred_episodes_keep_the_paper_in_its_warm_up(
    parser: argparse.ArgumentParser,
) -> None:
    """What the cluster's scripts did before: with the 17,398 prompts of DAPO-17k step 210 ran at 0.52e-6."""
    args = arguments(parser)
    possible = 17398 * 16 // 512 * 100  # as OpenRLHF's prepare_datasets counts them
    assert updates(args, possible) == possible
    warmup = math.ceil(possible * 0.03)
    assert warmup / 4 == pytest.approx(407, abs=1), "steps"
    assert 1e-6 * (210 * 4 - 1) / warmup == pytest.approx(0.52e-6, abs=0.01e-6)
    assert schedule(args) is None, "before anybody has counted the prompts"


@pytest.mark.parametrize("name", ["cosine_with_min_lr", "constant_with_warmup", "linear", "cosine", "constant"])
def test_the_rates_are_those_of_the_scheduler_stepped_update_by_update(
    name: str, parser: argparse.ArgumentParser
) -> None:
    args = arguments(parser, "--train.max_steps=50", f"--actor.lr_scheduler={name}", "--actor.adam.lr=1e-6")
    found = schedule(args)
    assert found is not None
    assert (found.updates, found.warmup) == (200, 6)
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1e-6)
    own = {"min_lr_rate": 0.1} if name == "cosine_with_min_lr" else {}
    real = get_scheduler(name, optimizer, num_warmup_steps=6, num_training_steps=200, scheduler_specific_kwargs=own)
    rates = []
    for _ in range(200):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        real.step()
    assert found.rates == pytest.approx({1: rates[3], 25: rates[99], 50: rates[199]})


def test_a_run_of_one_step_has_one_rate(parser: argparse.ArgumentParser) -> None:
    found = schedule(arguments(parser, "--train.max_steps=1", "--actor.lr_scheduler=constant"))
    assert found is not None
    assert found.rates == {1: 1e-6}


def test_rates_of_a_run_with_another_runs_updates_are_not_foretold(parser: argparse.ArgumentParser) -> None:
    assert schedule(arguments(parser, "--train.max_steps=50", "--train.updates_from=metrics.jsonl")) is None


def test_a_rate_that_depends_on_what_happens_is_not_foretold(parser: argparse.ArgumentParser) -> None:
    assert schedule(arguments(parser, "--train.max_steps=5", "--actor.lr_scheduler=reduce_lr_on_plateau")) is None
