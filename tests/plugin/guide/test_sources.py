"""How the guide is asked: what its engines and graders are told."""

from typing import Any

import pytest

from openrlhf_gtpo.guide.sources import ModelSource, SolutionSource

from .tables import MAX_LEN, Engine, generator, guided, said


def sample(prompt: str, log_probs: bool = False) -> Any:
    one = said(prompt, [1.0])[0]
    one["images"] = "picture.png"
    if log_probs:
        one["rollout_log_probs"] = one["logprob"]
    return generator(guided(model=None), None)._experience_of(one, max_len=MAX_LEN)


KWARGS = {"max_len": 48, "max_new_tokens": 12, "min_new_tokens": 2, "temperature": 0.6, "top_p": 0.9, "top_k": 20}


@pytest.mark.parametrize("log_probs", [True, False])
def test_a_model_is_sampled_from_its_own_distribution_whatever_the_policy_is_sampled_with(log_probs: bool) -> None:
    engine = Engine({"a": said("a", [1.0], "guide")})
    answer = ModelSource([engine], 3, "tokenizer").ask(sample("a", log_probs), KWARGS, 5)
    assert [one["label"] for one in answer.value] == ["a guide 0"]
    (told,) = engine.arguments
    parameters = told.pop("sampling_params")
    assert told == {
        "prompt": "a",
        "label": "a policy 0",
        "max_length": 48,
        "hf_tokenizer": "tokenizer",
        "num_samples": 3,
        "images": "picture.png",
        "seed": 5,
    }
    assert (parameters.temperature, parameters.top_p, parameters.top_k) == (1.0, 1.0, 0)
    assert (parameters.min_p, parameters.repetition_penalty) == (0.0, 1.0)
    assert (parameters.max_tokens, parameters.min_tokens) == (12, 2)
    assert not parameters.skip_special_tokens
    assert parameters.logprobs == (1 if log_probs else None), "as the policy's, or they could not be batched"


def test_engines_take_turns() -> None:
    engines = [Engine({prompt: [] for prompt in "abc"}) for _ in range(2)]
    source = ModelSource(engines, 1, None)
    for prompt in "abc":
        source.ask(sample(prompt), KWARGS, 5)
    assert [[told["prompt"] for told in engine.arguments] for engine in engines] == [["a", "c"], ["b"]]
    assert source.engines == engines, "which sleep where the policy's do"


def test_worked_solutions_are_drawn_without_repeats_and_graded_by_the_policys_engines() -> None:
    graders = [Engine({"a": [], "b": []}) for _ in range(2)]
    source = SolutionSource({"a": ["1", "2", "3"], "b": ["4"]}, graders, 2, "tokenizer")
    assert source.engines == [], "nobody to wake"
    for prompt in "ab":
        assert source.ask(sample(prompt, log_probs=prompt == "a"), KWARGS, 5) is not None
    (first,), (second,) = (grader.arguments for grader in graders)
    assert len(set(first.pop("solutions"))) == 2
    assert second.pop("solutions") == ["4"], "there is no more"
    expected = {"prompt": "a", "label": "a policy 0", "max_length": 48, "hf_tokenizer": "tokenizer", "log_probs": True}
    assert first == expected
    assert second == {**expected, "prompt": "b", "label": "b policy 0", "log_probs": False}


def test_in_time_every_solution_comes_up() -> None:
    grader = Engine({"a": []})
    source = SolutionSource({"a": ["1", "2", "3"]}, [grader], 1, None)
    for seed in range(50):
        source.ask(sample("a"), KWARGS, seed)
    assert {solution for told in grader.arguments for solution in told["solutions"]} == {"1", "2", "3"}


def test_a_prompt_without_a_solution_gets_none() -> None:
    grader = Engine({})
    assert SolutionSource({"a": ["1"]}, [grader], 1, None).ask(sample("b"), KWARGS, 5) is None
    assert grader.log == []
