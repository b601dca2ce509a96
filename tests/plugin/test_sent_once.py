"""A tokenizer goes to a rollout actor with every prompt, and its process unpickles it once."""

import pickle
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from openrlhf_gtpo import sent_once
from openrlhf_gtpo.controller import trainers
from openrlhf_gtpo.sent_once import SentOnce

from .guide.tables import guided


class Reference:
    """Stands in for Ray's: some hundred bytes that name a value in its store."""

    def hex(self) -> str:
        return "c0ffee"


def test_a_process_gets_one_and_the_same_object_however_often_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    store: list[Any] = []
    monkeypatch.setattr(ray, "put", lambda value: store.append(value) or Reference())
    monkeypatch.setattr(ray, "get", lambda reference: store.pop())
    monkeypatch.setattr(sent_once, "_received", {})
    tokenizer = {"vocabulary": ["x"] * 100_000}
    sent = pickle.dumps(SentOnce(tokenizer))
    assert len(sent) < 1000
    assert pickle.loads(sent) is pickle.loads(sent) is tokenizer
    assert not store


def test_the_controllers_generator_sends_its_tokenizer_so_and_max_steps_limit_its_updates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ray, "put", lambda value: Reference())

    class OpenRLHFsHalf:
        def __init__(self, max_steps: int | None, updates: int) -> None:
            self.args, self.max_steps = guided(model=None, train__max_steps=max_steps), updates
            self.samples_generator = SimpleNamespace(args=self.args, tokenizer="of OpenRLHF", vllm_engines=[])

    class Half(trainers.GeneratorMixin, OpenRLHFsHalf):
        """Ours over it."""

    assert isinstance(Half(None, 100).samples_generator.tokenizer, SentOnce)
    # A step has 2 prompts with 4 responses each, and every response is an update of its own.
    assert [Half(most, 100).max_steps for most in (None, 3, 20)] == [100, 24, 100]
