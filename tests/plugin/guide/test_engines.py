"""The guide's engines start beside the policy's, by OpenRLHF's own function: nothing is started here."""

import inspect
from collections.abc import Callable
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


class Calls:
    """A function of the real one's signature that starts actors as the real one does, and keeps its arguments."""

    __signature__ = SIGNATURE

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []

    def __call__(self, *args: Any, **kwargs: Any) -> list[Any]:
        bound = SIGNATURE.bind(*args, **kwargs).arguments
        self.seen.append(dict(bound))
        actor = vllm_engine.RolloutRayActor
        return [actor.options(num_gpus=1).remote(model=bound["pretrain"]) for _ in range(bound["num_engines"])]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []
    settings = RolloutSettings(reward=None, worker_extension_cls="some.Class", dtype=None, max_num_seqs=8)
    monkeypatch.setattr(vllm_engine, "RolloutRayActor", ConfiguredRolloutActor(Actors(found), settings))
    monkeypatch.setattr(engines, "_started", [])
    return found


POSITIONAL = (2, 1, "org/policy", 42, False, True, True, 2048, "the policy's placement group", 0.5, True)
NAMED = {"logprobs_mode": "processed_logprobs", "remote_rm_url": "http://127.0.0.1:1"}


def test_the_guides_engines_differ_in_name_model_number_gpus_and_seed_alone(started: list[Any]) -> None:
    create, mine = Calls(), vllm_engine.RolloutRayActor
    found = with_guide_engines(create, GUIDE)(*POSITIONAL, **NAMED)
    assert found == ["engine 1", "engine 2"], "OpenRLHF is given the policy's"
    policy, guide = create.seen
    assert policy == SIGNATURE.bind(*POSITIONAL, **NAMED).arguments
    differ = {name: guide[name] for name in guide if guide[name] != policy[name]}
    assert differ.pop("seed") != policy["seed"]
    assert differ == {"num_engines": 3, "tensor_parallel_size": 2, "pretrain": "org/guide"}
    assert set(guide) == set(policy)
    assert guide["shared_pg"] == "the policy's placement group"
    assert engines._started == ["engine 3", "engine 4", "engine 5"], "or Ray would end them"
    assert vllm_engine.RolloutRayActor is mine
    names = [options.get("name") for options, _ in started]
    assert names == [None, None, *(f"openrlhf_gtpo_guide_{i}" for i in range(3))]
    assert [arguments["model"] for _, arguments in started] == ["org/policy"] * 2 + ["org/guide"] * 3
    assert all(options["num_gpus"] == 1 for options, _ in started)
    assert all(arguments["rollout"].worker_extension_cls == "some.Class" for _, arguments in started)


def test_without_a_guide_nothing_changes(started: list[Any]) -> None:
    create, nobody = Calls(), SimpleNamespace(model=None, engines=1, tensor_parallel_size=None)
    assert with_guide_engines(create, nobody)(*POSITIONAL, **NAMED) == ["engine 1", "engine 2"]
    assert create.seen == [SIGNATURE.bind(*POSITIONAL, **NAMED).arguments]
    assert [options for options, _ in started] == [{"num_gpus": 1}] * 2


def test_a_guide_that_cannot_start_leaves_the_policys_class_in_place(started: list[Any]) -> None:
    mine = vllm_engine.RolloutRayActor

    class Failing(Calls):
        def __call__(self, *args: Any, **kwargs: Any) -> list[Any]:
            if self.seen:
                raise RuntimeError("no GPU left")
            return super().__call__(*args, **kwargs)

    with pytest.raises(RuntimeError, match="no GPU left"):
        with_guide_engines(Failing(), GUIDE)(*POSITIONAL)
    assert vllm_engine.RolloutRayActor is mine


# ── the controller finds them ──


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., tuple[Guide, list[str]]]:
    """Connects a guide of three engines; gives it, and the names of the actors that had to report their hook."""
    reported: list[str] = []
    tokenizer = characters_and(pad_token="<end>")
    tokenizer.save_pretrained(tmp_path)

    def connected(sampler: str = "hooked") -> tuple[Guide, list[str]]:
        def actor(name: str) -> Any:
            def report() -> Reference:
                reported.append(name)
                is_hooked = sampler == "hooked" or not name.endswith("_2")
                return Reference([{"hooked": is_hooked, "vllm": "0.27", "sampler": sampler}])

            return SimpleNamespace(name=name, entropy_hook_report=SimpleNamespace(remote=report))

        monkeypatch.setattr(ray, "get_actor", actor)
        args = guided(str(tmp_path), guide__engines=3)
        args.actor.model_name_or_path = "org/policy"
        guide = Guide(args)
        guide.connect(SimpleNamespace(value=tokenizer))
        return guide, reported

    return connected


def test_the_controller_finds_them_by_their_names_and_asks_each_for_its_hook(connect: Any) -> None:
    guide, reported = connect()
    names = [f"openrlhf_gtpo_guide_{i}" for i in range(3)]
    assert [engine.name for engine in guide.engines] == reported == names


def test_an_engine_without_the_entropy_hook_is_no_guide(connect: Any) -> None:
    with pytest.raises(EntropyMissing, match="AnotherSampler"):
        connect("AnotherSampler")
