"""The policy's groups and what a guide adds to them: who is asked, who joins which batch, who is left out."""

import dataclasses
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openrlhf_gtpo.batch import Group, Response, RolloutBatch
from openrlhf_gtpo.guide.groups import GuideTally

from ..controller.batches import response
from .tables import MAX_LEN, Engine, G, generator, guided, joined, labels, marks, names, said

MIXED, WRONG, RIGHT = [1.0, 0.0, 0.0, 0.0], [0.0] * G, [1.0] * G
FILTERED = {"algo__dynamic_filtering_enable": True}


def guide_says(**scores: list[float | None]) -> dict[str, Any]:
    return {prompt: said(prompt, found, "guide") for prompt, found in scores.items()}


def test_every_group_gets_the_guides_responses_behind_its_own() -> None:
    groups = [said("a", MIXED), said("b", WRONG), said("c", RIGHT)]
    samples, guide = joined(guided(), groups, guide_says(a=[1.0, 0.0], b=[0.0, 0.0], c=[1.0, 1.0]))
    assert labels(samples) == [
        label for prompt in "abc" for label in names(prompt, "policy", G) + names(prompt, "guide", 2)
    ]
    assert marks(samples) == [(group, 0, 0, place >= G) for group in range(3) for place in range(G + 2)]
    told = guide.tally.metrics()
    assert (told["guide/asked_groups"], told["guide/responses"], told["guide/pass_rate"]) == (3, 6, 0.5)
    assert told["guide/zero_reward_groups"] == told["guide/rescued_groups"] == told["guide/fillers"] == 0
    assert 0 <= told["guide/wait_seconds"] < 60
    one = GuideTally(responses=1, correct=1, zero_reward_groups=1, rescued_groups=1).metrics()
    assert one["guide/pass_rate"] == one["guide/rescued_share"] == 1


@pytest.mark.parametrize("filters", [True, False])
def test_groups_all_wrong_form_a_second_batch_but_for_those_that_the_guide_cannot_solve(filters: bool) -> None:
    """With dynamic filtering they come back from what it threw away; without, they are taken out of the first."""
    args = guided(guide__when=["zero_reward"], algo__dynamic_filtering_enable=filters)
    groups = [said("b", WRONG), said("a", MIXED), said("c", WRONG), said("d", WRONG)]
    samples, guide = joined(args, groups, guide_says(b=[0.0, 1.0], a=[1.0], c=[1.0, 0.0], d=[0.0, 0.0]))
    assert guide.engines[0].asked == ["b", "c", "d"], "the other group is not asked for"
    assert labels(samples) == [
        *names("a", "policy", G),
        *(label for prompt in "bc" for label in names(prompt, "policy", G) + names(prompt, "guide", 2)),
    ]
    first = [(0, 0, 0, 0)] * G
    assert marks(samples) == first + [(g, 1, 0, place >= G) for g in (1, 2) for place in range(G + 2)]
    told = guide.tally.metrics()
    assert (told["guide/zero_reward_groups"], told["guide/rescued_groups"], told["guide/unsolved_groups"]) == (3, 2, 1)
    assert (told["guide/rescued_share"], told["guide/failed_groups"]) == (pytest.approx(2 / 3), 0)


def test_a_group_goes_without_a_guide_whose_reward_failed_and_one_that_lost_its_own_is_not_asked_for() -> None:
    args = guided(guide__when=["all", "zero_reward"])
    groups = [said("a", MIXED), said("b", WRONG), said("c", [0.0, None, 0.0, 0.0])]
    samples, guide = joined(args, groups, guide_says(a=[1.0, None], b=[None, 1.0], c=[1.0]))
    assert guide.engines[0].asked == ["a", "b"]
    assert labels(samples) == names("a", "policy", G) + names("c", "policy", G), "OpenRLHF drops the last"
    told = guide.tally.metrics()
    assert (told["guide/failed_groups"], told["guide/unsolved_groups"], told["guide/responses"]) == (2, 0, 0)


# ── how the guide is asked ──


LIMITS = {"max_len": 48, "max_new_tokens": 12, "min_new_tokens": 2, "temperature": 0.6, "top_p": 0.9, "top_k": 20}


@pytest.mark.parametrize("log_probs", [True, False])
def test_a_guide_is_sampled_from_its_own_distribution_whatever_the_policy_is_sampled_with(log_probs: bool) -> None:
    engine = Engine(guide_says(a=[1.0]))
    generate = generator(guided(guide__samples=3), [engine])
    for one in said("a", MIXED):
        # OpenRLHF's executor returns them where the importance correction asks for them.
        more = {"images": "picture.png", "rollout_log_probs": one["logprob"] if log_probs else None}
        generate._process_response_into_experience(one | more, **LIMITS)
    (told,) = engine.arguments
    parameters = told.pop("sampling_params")
    assert isinstance(told.pop("seed"), int)
    assert told == {
        "prompt": "a",
        "label": "a policy 0",
        "max_length": 48,
        "hf_tokenizer": "the policy's tokenizer",
        "num_samples": 3,
        "images": "picture.png",
    }
    assert (parameters.temperature, parameters.top_p, parameters.top_k) == (1.0, 1.0, 0)
    assert (parameters.min_p, parameters.repetition_penalty) == (0.0, 1.0)
    assert (parameters.max_tokens, parameters.min_tokens) == (12, 2)
    assert not parameters.skip_special_tokens
    assert parameters.logprobs == (1 if log_probs else None), "as the policy's, or they could not be batched"


def test_its_engines_take_turns_and_each_prompt_has_a_seed_of_its_own() -> None:
    def asks() -> tuple[list[list[str]], list[int]]:
        engines = [Engine(guide_says(a=[1.0], b=[1.0], c=[1.0])) for _ in range(2)]
        generate = generator(guided(), engines)
        for place, prompt in enumerate("abc"):
            for one in said(prompt, MIXED):
                generate._process_response_into_experience({**one, "place": place}, max_len=MAX_LEN)
        return [engine.asked for engine in engines], [one["seed"] for each in engines for one in each.arguments]

    prompts, seeds = asks()
    assert prompts == [["a", "c"], ["b"]]
    assert len(set(seeds)) == 3
    assert asks() == (prompts, seeds), "a run that is repeated asks the same"


# ── engines that sleep ──


def test_where_engines_sleep_the_guides_are_woken_after_the_policys_answers_and_sent_back_to_sleep() -> None:
    args = guided(guide__when=["all", "zero_reward"], vllm__enable_sleep=True, **FILTERED)
    log: list[tuple[str, str]] = []
    policy = Engine({"a": said("a", MIXED), "b": said("b", WRONG), "c": said("c", MIXED)}, log=log)
    engine = Engine(guide_says(a=[1.0], b=[1.0], c=[1.0]), "guide", log)
    generate = generator(args, [engine], [policy], ["a", "b", "c"])
    samples, *_ = generate.generate_samples(max_len=MAX_LEN)
    turn = ["wake_up", *(f"generate_responses {prompt}" for prompt in "abc"), "sleep"]
    assert log == [(who, done) for who in ("policy", "guide") for done in turn]
    assert [one.returned["prompt"] for one in samples.responses] == ["a"] * 5 + ["c"] * 5 + ["b"] * 5


def test_where_nobody_sleeps_the_guide_is_asked_while_the_policy_still_answers() -> None:
    log: list[tuple[str, str]] = []
    # "a" is thrown away: "c" is drawn for it when the guide works already.
    policy = Engine({"a": said("a", RIGHT), "b": said("b", MIXED), "c": said("c", MIXED)}, log=log)
    guide = Engine(guide_says(b=[1.0], c=[1.0]), "guide", log)
    generate = generator(guided(**FILTERED), [guide], [policy], ["a", "b", "c"])
    generate.generate_samples(max_len=MAX_LEN)
    assert log[2:] == [
        ("policy", "generate_responses c"),
        ("guide", "generate_responses b"),
        ("guide", "generate_responses c"),
    ]


# ── fillers ──


@pytest.mark.parametrize(
    ("batch", "micro", "gpus", "ring", "expected"),
    [(1, 1, 1, 1, 0), (4, 1, 1, 1, 2), (5, 1, 1, 1, 0), (4, 3, 2, 1, 2), (16, 1, 2, 1, 6), (4, 2, 4, 2, 2)],
)
def test_fillers_complete_updates_on_every_rank(batch: int, micro: int, gpus: int, ring: int, expected: int) -> None:
    """10 responses: 4 + 1 in each of two groups."""
    ranks = {"actor__num_gpus_per_node": gpus, "ds__ring_attn_size": ring}
    args = guided(train__batch_size=batch, rollout__micro_batch_size=micro, **ranks)
    samples, guide = joined(args, [said("a", MIXED), said("b", MIXED)], guide_says(a=[1.0], b=[0.0]))
    assert guide.tally.fillers == expected
    assert marks(samples)[10:] == [(2, 0, 1, 0)] * expected, "behind everything else, of no group and of nobody"
    assert len(samples) % batch == 0
    ranks = gpus // ring
    assert ranks == 1 or len(samples) // micro % ranks == 0 == len(samples) % micro


def test_a_filler_is_the_shortest_beginning_that_has_a_token_where_there_is_one() -> None:
    def one(tokens: int, prompt_length: int) -> Response:
        return Response(response("p", prompt_length, [0.5] * tokens, 1.0), MAX_LEN)

    batch = RolloutBatch([Group([one(0, 2), one(3, 9), one(4, 5)])])
    batch.fill(4)
    (filler,) = batch.fillers
    assert filler.mask.tolist() == [False] * 4 + [True]
    assert not batch.mask[3].any()
    assert not batch.entropy[3].any(), "a function of one's own sees nothing of it"
    empty = RolloutBatch([Group([one(0, 5)])])
    empty.fill(2)
    assert not empty.fillers[0].mask.any()


def test_a_guide_is_not_asked_in_an_evaluation() -> None:
    guide = Engine(guide_says(a=[1.0]), "guide")
    generate = generator(guided(), [guide], [Engine({"a": said("a", RIGHT)})], "a")
    generate.eval_dataloader = generate.prompts_dataloader
    assert len(generate.generate_eval_samples(max_len=MAX_LEN)) == G
    assert not guide.asked


# ── whose answer is whose ──


@given(
    groups=st.lists(st.tuples(st.sampled_from([MIXED, WRONG, RIGHT]), st.booleans())),
    order=st.randoms(use_true_random=False),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_however_openrlhf_drops_copies_and_reorders_groups_each_gets_the_answer_to_its_own_prompt(
    groups: list[tuple[list[float], bool]], order: Random
) -> None:
    """All prompts have the same text, as where one is drawn twice; labels are numbers, which the guide repeats."""

    class Repeating(Engine):
        def responses(self, arguments: dict[str, Any]) -> list[dict[str, Any]]:
            return [{**one, "label": arguments["label"]} for one in said("same", [1.0], "guide")]

    generate = generator(guided(guide__when=["all", "zero_reward"]), [Repeating({})])
    left = []
    for number, (scores, is_kept) in enumerate(groups):
        own = [{**one, "label": str(number), "place": number} for one in said("same", scores)]
        responses = [generate._process_response_into_experience(one, max_len=MAX_LEN) for one in own]
        if is_kept:
            left.append(Group([dataclasses.replace(response) for response in responses]))
    order.shuffle(left)
    batch = generate._batch(left)
    labels_of = [{response.returned["label"] for response in group.responses} for group in batch.groups]
    assert all(len(labels) == 1 for labels in labels_of)
    assert all((len(group.policy), len(group.guide)) == (G, 1) for group in batch.groups)
    # Groups that are dropped come back in the second batch if they are all wrong.
    expected = {str(i) for i, (scores, is_kept) in enumerate(groups) if is_kept or scores == WRONG}
    assert set().union(*labels_of) == expected
    assert not generate._batch([]), "nothing is left over for the next batch"
