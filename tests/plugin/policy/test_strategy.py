"""What OpenRLHF's strategy says in a run's log: sentences, and no dump of all flags or of a model's layers."""

from types import SimpleNamespace
from typing import Any

import cloudpickle
import openrlhf.utils
import pytest
import torch
from openrlhf.utils.deepspeed.deepspeed import DeepspeedStrategy

from openrlhf_gtpo.driver import bindings, command_line
from openrlhf_gtpo.policy.strategy import Strategy
from openrlhf_gtpo.settings import Settings


@pytest.fixture
def strategy(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What OpenRLHF's script gets when it asks for a strategy."""
    monkeypatch.setattr(openrlhf.utils, "get_strategy", openrlhf.utils.get_strategy)  # put back afterwards
    bindings.bind_strategy()
    return openrlhf.utils.get_strategy(Settings(command_line.parse([]).flags).nested())


def test_sentences_are_said_and_objects_are_not(strategy: Any, capsys: pytest.CaptureFixture[str]) -> None:
    strategy.print("dataset: train.jsonl")
    strategy.print("mean:", "0")
    strategy.print(strategy.args)
    strategy.print(SimpleNamespace(a=1))
    strategy.print(torch.nn.Linear(2, 2))
    assert capsys.readouterr().out == "dataset: train.jsonl\nmean: 0\n"


def test_it_is_openrlhfs_with_every_setting_also_in_an_actor_that_it_is_sent_to(strategy: Any) -> None:
    theirs = DeepspeedStrategy(args=strategy.args, micro_train_batch_size=1, train_batch_size=128, max_norm=1.0)
    assert vars(strategy) == vars(theirs)
    arrived = cloudpickle.loads(cloudpickle.dumps(strategy))
    assert type(arrived) is Strategy
    assert arrived.args == strategy.args
