"""The guide's engines start beside the policy's, by OpenRLHF's own function: nothing is started here."""

import functools
import inspect
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import openrlhf.trainer.ray.vllm_engine as vllm_engine
import pytest
import ray

from openrlhf_gtpo.errors import EntropyMissing
from openrlhf_gtpo.guide import engines
from openrlhf_gtpo.guide.engines import with_guide_engines
from openrlhf_gtpo.guide.groups import Guide
from openrlhf_gtpo.rollout.actor import ConfiguredRolloutActor, RolloutSettings

from ..conftest import characters_and
from .tables import Reference, guided

SIGNATURE = inspect.signature(vllm_engine.create_vllm_engines)
GUIDE = SimpleNamespace(model="org/guide", engines=3, tensor_parallel_size=2)
POSITIONAL = (2, 1, "org/policy", 42, False, True, True, 2048, "the policy's placement group", 0.5, True)
NAMED = {"logprobs_mode": "processed_logprobs", "remote_rm_url": "http://127.0.0.1:1"}


class Actors:
    """Stands in for Ray's class of the rollout actor: keeps the options and arguments of every actor."""

    def __init__(self, started: list[Any], **options: Any) -> None:
        self.started = started
        self.chosen = options

    def options(self, **options: Any) -> "Actors":
        return Actors(self.started, **self.chosen, **options)

    def remote(self, **arguments: Any) -> str:
        self.started.append((self.chosen, arguments))
        return f"engine {len(self.started)}"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function with the signature of OpenRLHF's that starts actors as that does, its calls, and the actors."""
    calls: list[dict[str, Any]] = []
    actors: list[Any] = []

    @functools.wraps(vllm_engine.create_vllm_engines)
    def create(*args: Any, **kwargs: Any) -> list[Any]:
        bound = SIGNATURE.bind(*args, **kwargs).arguments
        calls.append(dict(bound))
        if bound["pretrain"] == "org/too-large":
            raise RuntimeError("no GPU left")
        actor = vllm_engine.RolloutRayActor
        return [actor.options(num_gpus=1).remote(model=bound["pretrain"]) for _ in range(bound["num_engines"])]

    settings = RolloutSettings(reward=None, worker_extension_cls="some.Class", dtype=None, max_num_seqs=8)
    monkeypatch.setattr(vllm_engine, "RolloutRayActor", ConfiguredRolloutActor(Actors(actors), settings))
    monkeypatch.setattr(engines, "_started", [])
    return SimpleNamespace(create=create, calls=calls, actors=actors)


def test_the_guides_engines_differ_in_name_model_number_gpus_and_seed_alone(started: Any) -> None:
    mine = vllm_engine.RolloutRayActor
    found = with_guide_engines(started.create, GUIDE)(*POSITIONAL, **NAMED)
    assert found == ["engine 1", "engine 2"], "OpenRLHF is given the policy's"
    policy, guide = started.calls
    assert policy == SIGNATURE.bind(*POSITIONAL, **NAMED).arguments
    differ = {name: guide[name] for name in guide if guide[name] != policy[name]}
    assert differ.pop("seed") != policy["seed"]
    assert differ == {"num_engines": 3, "tensor_parallel_size": 2, "pretrain": "org/guide"}
    assert set(guide) == set(policy)
    assert engines._started == ["engine 3", "engine 4", "engine 5"], "or Ray would end them"
    assert vllm_engine.RolloutRayActor is mine
    names = [options.get("name") for options, _ in started.actors]
    assert names == [None, None, *(f"openrlhf_gtpo_guide_{i}" for i in range(3))]
    assert [arguments["model"] for _, arguments in started.actors] == ["org/policy"] * 2 + ["org/guide"] * 3
    assert all(options["num_gpus"] == 1 for options, _ in started.actors)
    assert all(arguments["rollout"].worker_extension_cls == "some.Class" for _, arguments in started.actors)


def test_without_a_guide_or_with_one_that_cannot_start_the_policys_engines_are_as_ever(started: Any) -> None:
    mine = vllm_engine.RolloutRayActor
    nobody = SimpleNamespace(model=None, engines=1, tensor_parallel_size=None)
    assert with_guide_engines(started.create, nobody)(*POSITIONAL, **NAMED) == ["engine 1", "engine 2"]
    assert started.calls == [SIGNATURE.bind(*POSITIONAL, **NAMED).arguments]
    assert [options for options, _ in started.actors] == [{"num_gpus": 1}] * 2
    with pytest.raises(RuntimeError, match="no GPU left"):
        with_guide_engines(started.create, SimpleNamespace(**{**vars(GUIDE), "model": "org/too-large"}))(*POSITIONAL)
    assert vllm_engine.RolloutRayActor is mine


def test_the_controller_finds_them_by_their_names_and_refuses_one_without_the_entropy_hook(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def actor(name: str) -> Any:
        report = {"hooked": name not in unhooked, "vllm": "0.27", "sampler": "AnotherSampler"}
        return SimpleNamespace(name=name, entropy_hook_report=SimpleNamespace(remote=lambda: Reference([report])))

    monkeypatch.setattr(ray, "get_actor", actor)
    tokenizer = characters_and(pad_token="<end>")
    tokenizer.save_pretrained(tmp_path)
    args = guided(str(tmp_path), guide__engines=3)
    args.actor.model_name_or_path = "org/policy"
    names = [f"openrlhf_gtpo_guide_{i}" for i in range(3)]
    guide, unhooked = Guide(args, lambda *_: None), []
    guide.connect(SimpleNamespace(value=tokenizer))
    assert [engine.name for engine in guide.engines] == names
    unhooked = names[2:]
    with pytest.raises(EntropyMissing, match="AnotherSampler"):
        guide.connect(SimpleNamespace(value=tokenizer))
