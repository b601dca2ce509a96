"""A worked solution as a rollout actor returns it: OpenRLHF's executor, a real tokenizer, a live reward server."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from openrlhf.utils.agent import SingleTurnAgentExecutor

from math_reward.client import Settings
from openrlhf_gtpo.rewards.client import RewardClient
from openrlhf_gtpo.rollout.actor import RewardingExecutor, RolloutActor

from ...fake_reward_server import FakeRewardServer, Post, finds
from .tables import generator, guided

PROMPT = "<user>1+1?<end><assistant>"
END = 256


@pytest.fixture
async def graded() -> AsyncIterator[tuple[RewardingExecutor, list[Post]]]:
    """An executor whose server keeps what it is sent, finds every "2" correct and cannot read empty references."""
    with FakeRewardServer(always=finds("2")) as server:
        client = RewardClient(Settings((server.url,), deadline=0))
        yield RewardingExecutor(SingleTurnAgentExecutor(None), client, False), server.posts
        client.close()


async def test_it_looks_as_if_it_had_been_generated_with_certainty(graded: Any, tokenizer: Any) -> None:
    executor, seen = graded
    found = await executor.worked_solution(PROMPT, "2", "so 2", 64, tokenizer, False)
    assert found["prompt"] == PROMPT
    assert found["label"] == "2"
    start = len(tokenizer(PROMPT)["input_ids"])
    assert start == 7
    assert found["action_ranges"] == [(7, 12)]
    assert found["observation_tokens"][-1] == END
    assert tokenizer.decode(found["observation_tokens"]) == PROMPT + "so 2<end>"
    assert found["entropy"].tolist() == found["logprob"].tolist() == [0.0] * 12
    assert found["rollout_log_probs"] is None, "as the policy's where OpenRLHF asks for none"
    assert not found["truncated"]
    assert (found["reward"], found["scores"], found["reward_error"]) == (1.0, 1.0, None)
    assert [(item["completion"], item["reference"]) for post in seen for item in post.items] == [("so 2", "2")]
    again = await executor.worked_solution(PROMPT, "2", "so 2", 64, tokenizer, True)
    assert again["rollout_log_probs"] == [0.0] * 12


@pytest.mark.parametrize(("room", "tokens", "truncated"), [(12, 12, False), (11, 11, True), (9, 9, True)])
async def test_what_goes_beyond_the_longest_sequence_is_cut_off(
    graded: Any, tokenizer: Any, room: int, tokens: int, truncated: bool
) -> None:
    executor, seen = graded
    found = await executor.worked_solution(PROMPT, "2", "so 2", room, tokenizer, True)
    assert found["truncated"] is truncated
    assert found["action_ranges"] == [(7, tokens)]
    for name in ("observation_tokens", "entropy", "logprob", "rollout_log_probs"):
        assert len(found[name]) == tokens
    assert seen[0].texts[0] == "so 2"[: tokens - 7], "graded as it is trained on"


async def test_a_processor_of_text_and_images_is_asked_for_its_tokenizer(graded: Any, tokenizer: Any) -> None:
    """Of a model that can see OpenRLHF hands on a processor, which takes what is first for an image."""

    class Processor:
        def __init__(self) -> None:
            self.tokenizer = tokenizer
            self.eos_token_id, self.pad_token_id, self.decode = END, tokenizer.pad_token_id, tokenizer.decode

        def __call__(self, images: Any = None, text: Any = None, **kwargs: Any) -> Any:
            raise ValueError(f"Invalid input type. Must be a single image, a list of images: {images!r}")

    executor, _ = graded
    plain = await executor.worked_solution(PROMPT, "2", "so 2", 64, tokenizer, False)
    found = await executor.worked_solution(PROMPT, "2", "so 2", 64, Processor(), False)
    assert found["observation_tokens"] == plain["observation_tokens"]
    assert (found["scores"], found["reward_error"]) == (1.0, None)


async def test_a_failed_reward_has_its_reason(graded: Any, tokenizer: Any) -> None:
    executor, _ = graded
    found = await executor.worked_solution(PROMPT, "", "so 2", 64, tokenizer, False)
    assert found["reward"] is found["scores"] is None
    assert "reference answer ''" in found["reward_error"]
    assert found["reward_seconds"] >= 0


async def test_a_rollout_actor_answers_with_several_that_become_experiences(graded: Any, tokenizer: Any) -> None:
    actor: Any = object.__new__(RolloutActor)  # its constructor would start vLLM
    actor.executor, seen = graded
    found = await actor.worked_solutions(PROMPT, "2", ["so 2", "3"], 64, tokenizer, False)
    assert [one["scores"] for one in found] == [1.0, 0.0]
    assert {item["completion"] for post in seen for item in post.items} == {"so 2", "3"}
    generate = generator(guided(), None)
    first, second = (generate._experience_of(one, max_len=64) for one in found)
    assert first.action_mask.tolist() == [[0] * 6 + [1] * 5]
    assert second.action_mask.tolist() == [[0] * 6 + [1] * 2]
    assert first.info["logprob"].tolist() == first.info["entropy"].tolist() == [[0.0] * 11]
    assert first.prompts == [PROMPT]
