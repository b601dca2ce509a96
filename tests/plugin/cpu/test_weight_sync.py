"""A policy's weights, sent as OpenRLHF's loop sends them, in two engines' hands."""

import os
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import ray
import torch

from openrlhf_gtpo.cpu import weight_sync
from openrlhf_gtpo.cpu.weight_sync import WeightGroup, send_together

from ...fake_reward_server import free_port

ENGINES = 2


class Engine:
    """A Ray handle's like: it takes a message in a thread of its own, and notes what came."""

    def __init__(self, group: WeightGroup, calls: ThreadPoolExecutor) -> None:
        self.update_weight = SimpleNamespace(remote=lambda *args, **named: calls.submit(self.take, *args, **named))
        self.reset_prefix_cache = SimpleNamespace(remote=lambda: "reset")
        self.group, self.messages, self.ends = group, [], []

    def take(self, names: list[str], dtype: Any, shape: Any, empty_cache: bool) -> None:
        self.messages.append(list(zip(names, self.group.receive(dtype, shape), strict=True)))
        self.ends.append(empty_cache)


@pytest.fixture
def calls() -> Any:
    with ThreadPoolExecutor(ENGINES + 1) as threads:
        yield threads


@pytest.fixture
def sender(calls: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A policy's trainer and its engines, which have joined one group."""
    monkeypatch.setattr(ray, "put", lambda value: None)
    port = free_port()
    ranks = [calls.submit(WeightGroup, "127.0.0.1", port, rank, ENGINES + 1) for rank in range(ENGINES + 1)]
    policy, *others = [rank.result(60) for rank in ranks]
    trainer = SimpleNamespace(_model_update_group=policy, vllm_engines=[Engine(group, calls) for group in others])
    engines = trainer.vllm_engines
    send_together(trainer)
    return trainer, engines


def send(trainer: Any, weights: dict[str, torch.Tensor]) -> None:
    """As OpenRLHF's ``broadcast_to_vllm``; ZeRO-3 takes each weight away after its turn."""
    for name, weight in weights.items():
        last = name == [*weights][-1]
        refs = [
            engine.update_weight.remote(name, dtype=weight.dtype, shape=weight.shape, empty_cache=last)
            for engine in trainer.vllm_engines
        ]
        gathered = weight.clone()
        trainer._model_update_group.broadcast(gathered, src=0, stream=None)
        gathered.zero_()
        for ref in refs:
            if isinstance(ref, Future):
                ref.result(60)


def test_every_weight_reaches_every_engine_once_in_messages_of_a_size(sender: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(weight_sync, "MESSAGE", 400)
    trainer, engines = sender
    weights = {
        "odd": torch.randn(7).bfloat16(),
        "after it": torch.randn(3, 5),
        "large": torch.randn(40, 20),
        "scalar": torch.tensor(2.0),
        "empty": torch.empty(0, 4),
        "last": torch.randn(2, 2, 2).bfloat16(),
    }
    for _ in range(2):  # two updates
        send(trainer, weights)
    for engine in engines:
        assert [[name for name, _ in message] for message in engine.messages] == 2 * [
            ["odd", "after it", "large"],
            ["scalar", "empty", "last"],
        ]
        assert engine.ends == 2 * [False, True], "after the last of an update an engine loads them"
        for name, weight in (pair for message in engine.messages for pair in message):
            torch.testing.assert_close(weight, weights[name], rtol=0, atol=0, msg=name)


def test_an_engine_that_cannot_take_a_message_is_heard(sender: Any, calls: ThreadPoolExecutor) -> None:
    trainer, engines = sender
    for engine in engines:
        engine.take = lambda *args, **named: 1 / 0
    weight = torch.ones(2**22)
    with pytest.raises(ZeroDivisionError):
        send(trainer, {"one": weight})
    for taken in [calls.submit(engine.group.receive, [weight.dtype], [weight.shape]) for engine in engines]:
        taken.result(60)  # a group with a message under way does not end


def test_all_else_is_asked_of_the_engines_themselves(sender: Any) -> None:
    trainer, _ = sender
    assert [engine.reset_prefix_cache.remote() for engine in trainer.vllm_engines] == ENGINES * ["reset"]


def test_engines_on_other_nodes_are_reached_by_the_network_of_the_policys_address(
    monkeypatch: Any, calls: Any
) -> None:
    """Where a machine's name is 127.0.1.1, as Debian's is, gloo would offer that address to the other nodes."""
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    address = ray.util.get_node_ip_address()
    port = free_port()
    for joined in [calls.submit(WeightGroup, address, port, rank, 2) for rank in range(2)]:
        joined.result(60)
    addresses = {one.address for one in psutil.net_if_addrs()[os.environ["GLOO_SOCKET_IFNAME"]]}
    assert address in addresses
