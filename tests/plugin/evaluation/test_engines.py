"""Several engines side by side: who samples what, on which GPUs, and what is said when one fails. The engines are
stand-ins: there is no machine with several GPUs to test on."""

import importlib
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from openrlhf_gtpo.errors import UserError
from openrlhf_gtpo.evaluation.engines import VISIBLE, Engines, shares_of_gpus

STAND_IN = '''
import os


class StandIn:
    """Of each prompt it says its number and the GPUs that it was sampled on."""

    def __init__(self, mood):
        if mood == "broken":
            raise ValueError("no memory for weights")
        self.mood = mood

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def sample(self, chats, numbers):
        if self.mood == "dies":
            os._exit(3)
        return [[f"{number} on {os.environ['CUDA_VISIBLE_DEVICES']}"] for number in numbers]
'''


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """In a module that the processes of the engines find too."""
    (tmp_path / "stand_in.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "stand_in", raising=False)
    return importlib.import_module("stand_in").StandIn


@pytest.mark.parametrize("prompts", [5, 1])
def test_prompts_are_shared_among_the_engines_and_come_back_in_order(
    stand_in: Any, prompts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VISIBLE, "4,5,6,7")
    with Engines(stand_in, ["good"], ["4,5", "6,7"]) as engines:
        assert os.environ[VISIBLE] == "4,5,6,7"
        found = engines.sample([[]] * prompts, range(10, 10 + prompts))
    assert found == [[f"{10 + place} on {('4,5', '6,7')[place % 2]}"] for place in range(prompts)]


def test_an_engine_that_fails_is_one_sentence(stand_in: Any) -> None:
    with pytest.raises(UserError, match=r"^Engine 1 of 2 .*no memory"):
        Engines(stand_in, ["broken"], ["0", "1"])
    with (
        Engines(stand_in, ["dies"], ["0", "1"]) as engines,
        pytest.raises(UserError, match=r"^Engine 1 of 2 .*died"),
    ):
        engines.sample([[], []], [0, 1])


def test_gpus_are_shared_by_the_size_of_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VISIBLE, "3,1,GPU-7,5,6")
    assert shares_of_gpus(1) == ["3", "1", "GPU-7", "5", "6"]
    assert shares_of_gpus(2) == ["3,1", "GPU-7,5"]
    monkeypatch.delenv(VISIBLE)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 8)
    assert shares_of_gpus(4) == ["0,1,2,3", "4,5,6,7"]
