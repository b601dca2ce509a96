"""The guide's engines start beside the policy's, by OpenRLHF's own function: nothing is started here."""

import inspect
from types import SimpleNamespace
from typing import Any

import openrlhf.trainer.ray.vllm_engine as vllm_engine
import pytest
import ray

from openrlhf_gtpo.driver.bindings import bind_engines
from openrlhf_gtpo.guide import engines
from openrlhf_gtpo.guide.batch import GuidedBatch
from openrlhf_gtpo.guide.engines import guide_engines, with_guide_engines
from openrlhf_gtpo.rollout.actor import ConfiguredRolloutActor
from openrlhf_gtpo.settings import GuideSettings, RolloutSettings

from .tables import Engine, guided, without_ray

SIGNATURE = inspect.signature(vllm_engine.create_vllm_engines)
GUIDE = GuideSettings("org/guide", None, 1, True, False, 1.0, 3, 2, 0.0)


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
    settings = RolloutSettings(worker_extension_cls="some.Class", reward=None)
    monkeypatch.setattr(vllm_engine, "RolloutRayActor", ConfiguredRolloutActor(Actors(found), settings))
    monkeypatch.setattr(engines, "_kept", [])
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
    assert engines._kept == ["engine 3", "engine 4", "engine 5"], "or Ray would end them"
    assert vllm_engine.RolloutRayActor is mine
    names = [options.get("name") for options, _ in started]
    assert names == [None, None, *(f"openrlhf_gtpo_guide_{i}" for i in range(3))]
    assert [arguments["model"] for _, arguments in started] == ["org/policy"] * 2 + ["org/guide"] * 3
    assert all(options["num_gpus"] == 1 for options, _ in started)
    assert all(arguments["rollout"].worker_extension_cls == "some.Class" for _, arguments in started)


def test_the_controller_finds_them_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "get_actor", lambda name: f"handle of {name}")
    assert guide_engines(GUIDE) == [f"handle of openrlhf_gtpo_guide_{i}" for i in range(3)]


SOLUTIONS = GuideSettings(None, "solutions.jsonl", 1, True, False, 1.0, 0, 1, 0.0)


@pytest.mark.parametrize("guide", [None, SOLUTIONS])
def test_without_a_model_that_guides_nothing_changes(started: list[Any], guide: GuideSettings | None) -> None:
    create = Calls()
    assert with_guide_engines(create, guide)(*POSITIONAL, **NAMED) == ["engine 1", "engine 2"]
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


def test_openrlhfs_script_imports_the_function_that_starts_both(
    started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import openrlhf.trainer.ray as openrlhf_ray

    create = Calls()
    monkeypatch.setattr(openrlhf_ray, "create_vllm_engines", create)
    bind_engines(GUIDE)
    from openrlhf.trainer.ray import create_vllm_engines

    create_vllm_engines(*POSITIONAL)
    assert len(create.seen) == 2


def test_engines_without_the_entropy_hook_are_no_guide(monkeypatch: pytest.MonkeyPatch) -> None:
    without_ray(monkeypatch)
    asked: list[Any] = []

    class Hooked(Engine):
        def __getattr__(self, method: str) -> Any:
            assert method == "entropy_hook_report"
            return SimpleNamespace(remote=lambda: SimpleNamespace(value=asked.append(self.name) or ["a report"]))

    monkeypatch.setattr(ray, "get_actor", lambda name: Hooked({}, name))
    checked: list[Any] = []
    monkeypatch.setattr("openrlhf_gtpo.guide.batch.check_hook", checked.append)
    batch = GuidedBatch(guided(guide__engines=2, guide__samples=3))
    batch.connect("tokenizer", [])
    assert asked == ["openrlhf_gtpo_guide_0", "openrlhf_gtpo_guide_1"]
    assert checked == [["a report"]] * 2
    assert batch.source.samples == 3  # type: ignore[attr-defined]
