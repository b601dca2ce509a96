"""What a rollout brings home: OpenRLHF's real executors, a real HTTP reward server, an engine that only counts.

The engine is a stand-in because it is not the subject here; tests/plugin/engine/test_vllm_entropy.py has the real one.
"""

import math
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import vllm
import vllm.envs
from openrlhf.utils.agent import AgentInstanceBase, MultiTurnAgentExecutor, SingleTurnAgentExecutor
from vllm import SamplingParams

from math_reward.client import Settings
from openrlhf_gtpo.engine import one_message
from openrlhf_gtpo.rewards.client import RewardClient
from openrlhf_gtpo.rollout.actor import (
    AgentMismatch,
    RewardingExecutor,
    RolloutActor,
    RolloutSettings,
    aligned,
    completion_tokens,
    number,
)
from openrlhf_gtpo.seeds import derived
from openrlhf_gtpo.vllm_entropy import engine_kwargs

from ...fake_reward_server import Answer, FakeRewardServer, Post, finds


class Tokenizer:
    """One token a character; 0 pads, 1 ends. Keeps the number of tokens of each text that is asked for."""

    eos_token_id, pad_token_id = 1, 0

    def __init__(self) -> None:
        self.decoded: list[int] = []

    def __call__(self, text: str, **kwargs: Any) -> dict[str, torch.Tensor]:
        return {"input_ids": torch.tensor([[ord(c) for c in text]])}

    def decode(self, tokens: list[int], skip_special_tokens: bool = False) -> str:
        self.decoded.append(len(tokens))
        return "".join({0: "<pad>", 1: "<eos>"}.get(t, chr(t)) for t in tokens)


class Engine:
    """Answers each call with the next text; token k of a call has entropy k / 10 and log-probability -k / 100."""

    def __init__(self, *texts: str) -> None:
        self.texts = iter(texts)
        self.asked: list[Any] = []

    async def generate(self, prompt_token_ids: list[int], sampling_params: Any, multi_modal_data: Any = None) -> Any:
        self.asked.append(sampling_params)
        tokens = [ord(c) for c in next(self.texts)] + [1]
        logprobs = [
            {t: SimpleNamespace(logprob=-k / 100), 5: SimpleNamespace(logprob=k / 10)} for k, t in enumerate(tokens)
        ]
        output = SimpleNamespace(
            token_ids=tokens, text=Tokenizer().decode(tokens), logprobs=logprobs, finish_reason="stop"
        )
        return SimpleNamespace(outputs=[output])


async def roll(
    executor: RewardingExecutor,
    engine: Engine,
    prompt: str = "1+1?",
    label: Any = "2",
    tokenizer: Tokenizer | None = None,
) -> dict[str, Any]:
    return await executor.execute(
        prompt=prompt,
        label=label,
        sampling_params=SamplingParams(max_tokens=32),
        max_length=128,
        hf_tokenizer=tokenizer or Tokenizer(),
        llm_engine=engine,
    )


OPENRLHFS_ENGINE = {
    "enforce_eager": True,
    "tensor_parallel_size": 1,
    "distributed_executor_backend": "uni",
    "max_model_len": 96,
    "dtype": "float32",
    "full_determinism": False,
    "agent_func_path": None,
    "mm_pad_token_ids": set(),
}
"""What `openrlhf.trainer.ray.vllm_engine.create_vllm_engines` gives an engine, as far as it matters here."""


@pytest.fixture
async def graded() -> AsyncIterator[tuple[RewardClient, list[Post]]]:
    """A client of a live /v1/grade server that keeps what it is sent and finds every "2" correct."""
    with FakeRewardServer(always=finds("2")) as server:
        client = RewardClient(Settings((server.url,), deadline=0))
        yield client, server.posts
        client.close()


def single_turn(client: RewardClient | None, ends_turns: bool = False) -> RewardingExecutor:
    return RewardingExecutor(SingleTurnAgentExecutor(None), client, None, ends_turns)


async def test_a_single_turn_rollout_brings_entropies_and_a_reward(graded: Any) -> None:
    client, seen = graded
    engine = Engine("so 2")
    response = await roll(single_turn(client), engine)
    assert engine.asked[0].logprobs == 1
    assert not engine.asked[0].detokenize  # nobody reads the text
    assert response["action_ranges"] == [(4, 9)]
    assert response["entropy"] == pytest.approx([0.0] * 4 + [0.0, 0.1, 0.2, 0.3, 0.4])
    assert response["logprob"] == pytest.approx([0.0] * 4 + [0.0, -0.01, -0.02, -0.03, -0.04])
    assert (response["reward"], response["scores"], response["reward_error"]) == (1.0, 1.0, None)
    assert response["rollout_log_probs"] is None, "what OpenRLHF did not ask for stays as in OpenRLHF"
    assert [text for post in seen for text in post.texts] == ["so 2"], "the completion alone, without its end token"


@pytest.mark.parametrize(
    ("text", "answer_end"),
    [("so 2, I am sure", 8), ("2", 5), ("2 is what one and one are", 5), ("so 3", 9)],
)
async def test_a_rollout_says_where_its_answer_ends(graded: Any, text: str, answer_end: int) -> None:
    """The prompt has four tokens, and a token is a character; the last one ends the text."""
    response = await roll(single_turn(graded[0]), Engine(text))
    assert response["answer_end"] == answer_end


@pytest.mark.parametrize(("path", "decoded"), [("/v1/grade", [4]), ("/get_reward", [4 + 5])])
async def test_a_response_is_decoded_once_as_its_service_reads_it(path: str, decoded: list[int]) -> None:
    tokenizer = Tokenizer()
    with FakeRewardServer(
        always=finds("2") if "grade" in path else lambda post: Answer(body={"rewards": [1.0]})
    ) as server:
        client = RewardClient(Settings((server.url + path,), deadline=0, reward_models=True))
        response = await roll(single_turn(client), Engine("so 2"), tokenizer=tokenizer)
        client.close()
        assert response["reward"] == 1.0
        assert tokenizer.decoded == decoded
        assert server.posts[0].texts == [{4: "so 2", 9: "1+1?so 2<eos>"}[decoded[0]]]


async def test_a_failed_reward_is_told_and_is_neither_zero_nor_silent(graded: Any) -> None:
    response = await roll(single_turn(graded[0]), Engine("2"), label="")
    assert (response["reward"], response["scores"]) == (None, None)
    assert "reference answer ''" in response["reward_error"]
    response = await roll(single_turn(None), Engine("2"))
    assert (response["reward"], response["reward_error"]) == (None, None), "a model gives it later"


AS_OPENRLHF = """assert (queries, prompts, labels) == (['1+1?2<eos>'], ['1+1?'], ['2'])
    logs = {'n': torch.tensor([3])}
    return {'rewards': torch.tensor([0.5]), 'scores': torch.tensor([1.0]), 'extra_logs': logs}"""


@pytest.mark.parametrize(
    ("body", "reward", "score", "logs", "error"),
    [
        (AS_OPENRLHF, 0.5, 1.0, {"n": 3.0}, None),
        ("raise KeyError('gold')", None, None, {}, "KeyError: 'gold'"),
        ("return {'rewards': float('nan')}", None, None, {}, "reward is nan"),
        ("raise SystemExit(3)", None, None, {}, "SystemExit: 3"),
        ("return [1.0]", None, None, {}, "returned a list, not a dict"),
    ],
)
async def test_a_users_reward_function_is_called_as_openrlhf_calls_it_and_if_it_fails_there_is_a_reason(
    tmp_path: Path, body: str, reward: float | None, score: float | None, logs: dict[str, float], error: str | None
) -> None:
    path = tmp_path / "rewards.py"
    path.write_text(f"import torch\ndef reward_func(queries, prompts, labels):\n    {body}\n")
    inner = SingleTurnAgentExecutor(str(path))
    inner.reward_endpoints = []
    response = await roll(RewardingExecutor(inner, None, 300.0), Engine("2"))
    assert (response["reward"], response["scores"], response["extra_logs"]) == (reward, score, logs)
    said = response["reward_error"]
    assert said is None if error is None else error in said


class TwoTurns(AgentInstanceBase):
    """Asks back once; the second answer is rewarded."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.turn = 0

    async def reset(self, states: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return {"observation": states["observation"]}

    async def step(self, state_dict: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        self.turn += 1
        done = self.turn == 2
        return {
            "rewards": torch.tensor(float(done)),
            "scores": torch.tensor(float(done)),
            "environment_feedback": "" if done else "sure?",
            "done": done,
        }


async def test_an_agents_turns_keep_their_entropies_and_the_tools_words_have_none() -> None:
    engine = Engine("no", "yes")
    response = await roll(RewardingExecutor(MultiTurnAgentExecutor(TwoTurns), None), engine)
    assert [asked.detokenize for asked in engine.asked] == [True, True]  # an agent may read the text
    assert response["action_ranges"] == [(4, 7), (12, 16)]
    assert response["entropy"] == pytest.approx([0.0] * 4 + [0.0, 0.1, 0.2] + [0.0] * 5 + [0.0, 0.1, 0.2, 0.3])
    assert (response["reward"], response["scores"]) == (1.0, 1.0)


async def started(model: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Any], Any], **changes: Any) -> Any:
    """An actor's own constructor up to the engine: vLLM's real arguments, and what ``read`` makes of them."""
    seen = []

    def from_engine_args(args: Any) -> Any:
        seen.append(read(args))
        raise InterruptedError

    monkeypatch.setattr(vllm.AsyncLLMEngine, "from_engine_args", from_engine_args)
    monkeypatch.setenv("RAY_ADDRESS", "nowhere")  # else OpenRLHF looks for the cluster
    actor: Any = object.__new__(RolloutActor)
    settings = {"rollout": RolloutSettings(None, "some.Class"), **OPENRLHFS_ENGINE, **changes}
    with pytest.raises(InterruptedError):
        await actor.__init__(model=str(model), num_gpus=0, bundle_indices=None, **settings)
    return seen[0]


async def test_a_rollouts_engine_returns_entropies_sends_one_message_a_request_and_knows_how_many_it_gets(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rollout = RolloutSettings(None, "some.Class", max_num_seqs=512)
    asked = await started(tiny_model, monkeypatch, lambda args: args, rollout=rollout)
    assert asked.create_engine_config().scheduler_config.max_num_seqs == 512
    wanted = engine_kwargs() | {"worker_extension_cls": "some.Class", "scheduler_cls": one_message.SCHEDULER}
    assert {name: getattr(asked, name) for name in wanted} == wanted
    assert asked.disable_log_stats


async def test_full_determinism_makes_a_gpus_engine_invariant_of_its_batches(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As vLLM itself reads it, when the engine is made."""
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # OpenRLHF sets it with the flag
    for chosen in (False, True):
        monkeypatch.setenv("VLLM_BATCH_INVARIANT", "")  # so that it is put back afterwards
        monkeypatch.delenv("VLLM_BATCH_INVARIANT")
        read = await started(
            tiny_model, monkeypatch, lambda args: vllm.envs.VLLM_BATCH_INVARIANT, full_determinism=chosen
        )
        assert read is chosen


async def test_each_response_of_a_group_and_each_turn_of_an_agent_has_a_seed_of_its_own() -> None:
    actor: Any = object.__new__(RolloutActor)
    engine = Engine("no", "no", "yes", "yes", "2")
    actor.generate = engine.generate
    actor.executor = RewardingExecutor(MultiTurnAgentExecutor(TwoTurns), None)
    asked = {
        "prompt": "1+1?",
        "label": "2",
        "sampling_params": SamplingParams(max_tokens=32),
        "max_length": 128,
        "hf_tokenizer": Tokenizer(),
        "images": None,
    }
    responses = await actor.generate_responses(**asked, num_samples=2, seed=7, place=5)
    assert [response["place"] for response in responses] == [5, 5]
    expected = {derived(derived(7, response), turn) for response in (0, 1) for turn in (0, 1)}
    assert {one.seed for one in engine.asked} == expected
    assert len(expected) == 4
    actor.executor = single_turn(None)
    await actor.generate_responses(**asked)
    assert engine.asked[-1].seed is None, "nobody asked for one"


def test_an_agent_whose_ranges_are_not_its_calls_is_refused() -> None:
    response = {"observation_tokens": [1, 2, 3, 4], "action_ranges": [(1, 3)]}
    with pytest.raises(AgentMismatch, match=r"\[\(1, 3\)\].* \[1, 2\]"):
        aligned(response, [([0.1], [0.0]), ([0.1, 0.2], [0.0, 0.0])])


async def test_a_response_ends_where_the_chat_template_ends_a_turn(graded: Any, tokenizer: Any) -> None:
    """Of a base model, whose sequences end with another token."""
    tokenizer.eos_token = tokenizer.pad_token = "<assistant>"
    end = tokenizer.convert_tokens_to_ids("<end>")
    for chat, stops in ((True, [end]), (False, [])):
        engine = Engine("2")
        await roll(single_turn(graded[0], chat), engine, tokenizer=tokenizer)
        (asked,) = engine.asked
        assert (asked.stop_token_ids or [], asked.all_stop_token_ids) == (stops, set(stops))
    ended = {"observation_tokens": [*tokenizer("1+1?2")["input_ids"], end], "action_ranges": [(4, 6)]}
    assert tokenizer.decode(completion_tokens(ended, tokenizer, end)) == "2"


def test_only_the_end_of_a_completion_loses_its_end_tokens() -> None:
    response = {"observation_tokens": [ord("q"), ord("a"), 1, ord("b"), 1, 0], "action_ranges": [(1, 6)]}
    assert Tokenizer().decode(completion_tokens(response, Tokenizer())) == "a<eos>b"
    assert completion_tokens({"observation_tokens": [ord("q")], "action_ranges": []}, Tokenizer()) == []


def test_anything_else_is_not_a_number() -> None:
    for value in (None, math.nan, math.inf, True, "1", [], [1, 2]):
        with pytest.raises(ValueError, match=r"^it is "):
            number(value, "it")
