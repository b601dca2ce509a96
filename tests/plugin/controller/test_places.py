"""Places by dispatch, not by time: OpenRLHF's own generation over engines whose answers come in a drawn order."""

import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import ray
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torchdata.stateful_dataloader import StatefulDataLoader

from openrlhf_gtpo.controller.trainers import in_seeded_order
from openrlhf_gtpo.seeds import derived

from ..guide.tables import MAX_LEN, Engine, generator, guided, said, without_ray
from .batches import G, arguments

MIXED, WRONG, RIGHT, LOST = [1.0, 0.0, 0.0, 1.0], [0.0] * G, [1.0] * G, [1.0, None, 0.0, 0.0]
PROMPTS = [f"p{i}" for i in range(24)]


@pytest.fixture
def arrivals(monkeypatch: pytest.MonkeyPatch) -> random.Random:
    """Decides whose answer comes next."""
    order = random.Random(0)

    def wait(references: list[Any], num_returns: int = 1, timeout: float | None = None) -> Any:
        left = list(references)
        return [left.pop(order.randrange(len(left)))], left

    without_ray(monkeypatch)
    monkeypatch.setattr(ray, "wait", wait)
    monkeypatch.setattr(ray, "cancel", lambda reference: None)
    return order


def batches(
    kinds: Sequence[Sequence[float | None]], engines: int, filters: bool, guide: bool, at_once: int | None = None
) -> tuple[list[list[Any]], list[tuple[str, int, int]], list[tuple[str, int]]]:
    """Two batches of four groups: what each response is, how the policy was asked, and how the guide was."""
    args = guided(
        "guide" if guide else None,
        algo__dynamic_filtering_enable=filters,
        rollout__batch_size=4,
        rollout__over_sampling_batch_size=at_once,
        guide__when=["all", "zero_reward"],
    )
    answers = {prompt: said(prompt, kind) for prompt, kind in zip(PROMPTS, kinds, strict=False)}
    actors = [Engine(answers, f"engine {i}") for i in range(engines)]
    guides = [Engine({prompt: said(prompt, [1.0], "guide") for prompt in answers}, "guide")]
    generate = generator(args, guides, actors, list(answers))
    found = []
    for _ in range(2):
        batch, *_ = generate.generate_samples(max_len=MAX_LEN)
        told = [response.returned for response in batch.responses]
        found.append([(one["prompt"], one["label"], one["observation_tokens"].tolist()) for one in told])
    policy = [(one["prompt"], one["place"], one["seed"]) for actor in actors for one in actor.arguments]
    asked = [(one["prompt"], one["seed"]) for one in guides[0].arguments]
    return found, sorted(policy), sorted(asked)


@pytest.mark.filterwarnings("ignore")
@given(
    kinds=st.lists(st.sampled_from([MIXED, MIXED, WRONG, RIGHT, LOST]), min_size=16, max_size=24),
    engines=st.integers(1, 3),
    filters=st.booleans(),
    guide=st.booleans(),
    at_once=st.sampled_from([None, 1, 6, 9, 30]),
    order=st.integers(0, 10**6),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
def test_batches_seeds_and_prompts_drawn_do_not_depend_on_whose_answer_comes_first(
    arrivals: random.Random,
    kinds: list[list[float | None]],
    engines: int,
    filters: bool,
    guide: bool,
    at_once: int | None,
    order: int,
) -> None:
    kinds[0] = MIXED  # a batch without any reward stops a run
    kinds[4:] = [MIXED if kind == LOST else kind for kind in kinds[4:]]
    arrivals.seed(1)
    expected = batches(kinds, 1, filters, guide, at_once)
    arrivals.seed(order)
    assert batches(kinds, engines, filters, guide, at_once) == expected
    if LOST not in kinds:
        assert expected[0][0] == batches(kinds, engines, filters, guide)[0][0], "the first batch is that of one by one"


def test_groups_stand_in_the_order_of_their_prompts(arrivals: random.Random) -> None:
    (first, second), asked, _ = batches([MIXED, RIGHT, MIXED, WRONG, MIXED, MIXED, *[MIXED] * 4], 2, True, False)
    assert [prompt for prompt, *_ in first[::G]] == ["p0", "p2", "p4", "p5"], "p4 and p5 were drawn for p1 and p3"
    assert [prompt for prompt, *_ in second[::G]] == ["p6", "p7", "p8", "p9"]
    assert [label for _, label, _ in first[:G]] == [f"p0 policy {i}" for i in range(G)]
    assert asked == [(f"p{i}", i % 6 if i < 6 else i - 6, derived(42, "policy", i // 6, i % 6)) for i in range(10)]


def test_of_prompts_drawn_at_once_the_first_that_teach_are_the_batch_and_those_behind_are_cancelled(
    arrivals: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answer comes in the order of its prompt, but for p1's, which comes last."""

    def wait(references: list[Any], num_returns: int = 1, timeout: float | None = None) -> Any:
        found = sorted(references, key=lambda one: (one.value[0]["prompt"] == "p1", one.value[0]["place"]))
        return found[:num_returns], found[num_returns:]

    cancelled: list[str] = []
    monkeypatch.setattr(ray, "wait", wait)
    monkeypatch.setattr(ray, "cancel", lambda one: cancelled.append(one.value[0]["prompt"]))
    kinds = [MIXED, MIXED, RIGHT, MIXED, *[MIXED] * 20]
    answers = {prompt: said(prompt, kind) for prompt, kind in zip(PROMPTS, kinds, strict=True)}
    args = guided(
        None, algo__dynamic_filtering_enable=True, rollout__batch_size=2, rollout__over_sampling_batch_size=6
    )

    def batch(lost: str = "") -> tuple[list[str], int, Any]:
        generate = generator(args, [], [Engine(answers | {lost: said(lost, LOST)})], PROMPTS)
        found, _, consumed, _ = generate.generate_samples(max_len=MAX_LEN)
        return [group.policy[0].returned["prompt"] for group in found.groups], consumed, generate

    prompts, consumed, generate = batch()
    assert (prompts, consumed, cancelled) == (["p0", "p1"], 6, []), "p1 is waited for, and all else has come meanwhile"
    assert generate.tally.responses == 2 * G, "p3, which came before p1, is not counted"
    following, consumed, *_ = generate.generate_samples(max_len=MAX_LEN)[0].groups, 6
    assert [group.policy[0].returned["prompt"] for group in following] == ["p6", "p7"], "p2 to p5 are dropped"
    assert cancelled == ["p8", "p9", "p10", "p11"]
    cancelled.clear()
    prompts, consumed, generate = batch(lost="p0")
    assert prompts == ["p1", "p6"], "p6 to p8 are drawn for the one that lost a reward, three times as many"
    assert (consumed, cancelled) == (9, ["p7", "p8"])
    kinds[:6] = [RIGHT] * 6
    answers.update({prompt: said(prompt, RIGHT) for prompt in PROMPTS[:6]})
    cancelled.clear()
    prompts, consumed, generate = batch()
    assert (prompts, consumed) == (["p6", "p7"], 10), "where six do not suffice, the four that were too many follow"
    assert cancelled == [], "p1, which came last, was waited for"


def test_an_evaluation_has_seeds_of_its_own_and_changes_none_of_trainings(arrivals: random.Random) -> None:
    answers = {prompt: said(prompt, MIXED) for prompt in PROMPTS}

    def run(evaluates: bool) -> tuple[list[Any], list[Any]]:
        engine = Engine(answers)
        generate = generator(guided(model=None), [], [engine], PROMPTS[:8])
        generate.eval_dataloader = [(None, [prompt], ["7"], [None]) for prompt in PROMPTS[8:12]]
        generate.generate_samples(max_len=MAX_LEN)
        evaluated = generate.generate_eval_samples(max_len=MAX_LEN) if evaluates else []
        generate.generate_samples(max_len=MAX_LEN)
        seeds = {one["prompt"]: one["seed"] for one in engine.arguments}
        return [seeds.get(prompt) for prompt in PROMPTS[:4]], [
            (sample.prompts[0], seeds[sample.prompts[0]]) for sample in evaluated[::G]
        ]

    training, evaluated = run(True)
    assert training == run(False)[0]
    assert evaluated == [(PROMPTS[8 + i], derived(42, "evaluation", 1, i)) for i in range(4)]


def test_the_seed_decides_the_order_of_prompts_in_every_episode() -> None:
    """The loader is the one that OpenRLHF makes; what else is random in the process does not matter."""

    def episodes(seed: int) -> list[list[int]]:
        torch.rand(seed + 3)  # something else

        def prepare(strategy: Any, tokenizer: Any) -> Any:
            return StatefulDataLoader(list(range(40)), shuffle=True, collate_fn=lambda rows: rows[0])

        loader = in_seeded_order(prepare)(SimpleNamespace(args=arguments(train__seed=seed)), None)
        return [list(loader) for _ in range(2)]

    first = episodes(1)
    assert first == episodes(1)
    assert sorted(first[0]) == sorted(first[1]) == list(range(40))
    assert len({str(order) for order in (*first, *episodes(2), list(range(40)))}) == 5
