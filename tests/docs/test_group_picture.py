"""The picture of the first page is what the trainer's functions make of a saved group."""

import json
from types import ModuleType

import pytest
import torch

from openrlhf_gtpo.shaping import gtpo

from ..scripts import script
from .blocks import ROOT

ROWS = [json.loads(line) for line in (ROOT / "docs" / "examples" / "group.jsonl").read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def program() -> ModuleType:
    return script(ROOT / "launch" / "site" / "group_picture.py")


def test_the_picture_is_made_of_the_saved_group(program: ModuleType):
    assert (ROOT / "docs" / "group.svg").read_text("utf-8") == program.picture(ROWS)


def test_the_advantages_are_those_that_the_run_trained_with():
    longest = max(len(row["tokens"]) for row in ROWS)
    mask = torch.tensor([[t < len(row["tokens"]) for t in range(longest)] for row in ROWS])
    entropy = torch.tensor([row["entropy"] + [0.0] * (longest - len(row["entropy"])) for row in ROWS])
    correct = torch.tensor([row["correct"] for row in ROWS])
    advantages = gtpo(entropy, mask, correct, torch.zeros(len(ROWS), dtype=torch.long)).advantages
    for row, calculated in zip(ROWS, advantages, strict=True):
        assert calculated[: len(row["tokens"])].tolist() == pytest.approx(row["advantage"], abs=2e-3)
