"""What adapters share: the same verdicts from processes of one's own and from a service, and never 0 for a failure."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from math_reward.adapters.trl import MathReward as TRLReward
from math_reward.adapters.verdicts import Verdicts, text_of
from math_reward.adapters.verifiers import MathReward as VerifiersReward
from math_reward.adapters.verl import compute_score
from math_reward.client import Client, ClientClosed, NotJudged, Refused
from math_reward.client.protocols import OPTIONS
from math_reward.grader import grade
from math_reward.http.requests import GradeOptions

from ...refusals import assert_refusal

ROWS: list[tuple[str, Any, str | None]] = [
    (r"It is \boxed{42}.", "42", None),
    (r"\boxed{\frac{1}{2}}", ["one half", 0.5], "What is half of 1?"),
    ("It is 41.", 42, None),
    (r"\boxed{42}", 42.0, None),
    ("I do not know.", "42", None),
]
RIGHT = [1.0, 1.0, 0.0, 1.0, 0.0]


@pytest.fixture(scope="module", params=["local", "remote"])
def verdicts(request: pytest.FixtureRequest, serve: Callable[..., Any]) -> Iterator[Verdicts]:
    if request.param == "local":
        yield Verdicts(workers=1)
        return
    with Client(serve("--workers", "1").url) as client:
        yield Verdicts(client)


def test_they_are_the_graders(verdicts: Verdicts) -> None:
    results = verdicts.grade(*map(list, zip(*ROWS, strict=True)))
    assert [result.reward for result in results] == RIGHT
    alone = [
        grade(text, [str(one) for one in ref] if isinstance(ref, list) else str(ref)) for text, ref, _ in ROWS[:3]
    ]
    assert [(r.verdict, r.answer, r.stage) for r in results[:3]] == [(g.verdict, g.answer, g.stage) for g in alone]


@pytest.mark.parametrize("reference", ["", None, []])
def test_a_reference_that_cannot_be_read_is_an_error(verdicts: Verdicts, reference: Any) -> None:
    with pytest.raises(NotJudged, match="reference"):
        verdicts.grade(["1", "1"], ["1", reference], [None, None])


@pytest.mark.parametrize(("completion", "reference"), [(None, "1"), (1, "1"), ("1", {"a": 1}), ("1", [["1"]])])
def test_an_item_of_the_wrong_kind_is_refused(verdicts: Verdicts, completion: Any, reference: Any) -> None:
    with pytest.raises(Refused, match=r"completion|reference"):
        verdicts.grade([completion], [reference], [None])


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"moed": "strict"}, "'moed': did you mean mode"),
        ({"url": "http://a:1", "answer": "x"}, "'answer': there are mode, "),
        ({"url": "http://a:1", "token": "t"}, "token"),
        ({"url": "http://a:1", "workers": 2}, "workers"),
        ({"url": "a:1"}, "'a:1'"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_graded(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named) as refused:
        Verdicts(**arguments)
    assert_refusal(str(refused.value))


def test_the_options_are_those_of_the_service() -> None:
    assert set(OPTIONS) == set(GradeOptions.__struct_fields__)


@pytest.mark.parametrize("end", ["", "del reward; import gc; gc.collect()", "raise SystemExit(3)"])
def test_a_program_that_has_graded_ends_without_a_word(end: str) -> None:
    program = f"""
from math_reward.adapters.trl import MathReward
reward = MathReward(workers=2)
print(reward(prompts=["?"], completions=["7"], answer=["7"]))
{end}
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("[1.0]\n", "")


def test_an_option_counts(verdicts: Verdicts) -> None:
    strict = Verdicts(verdicts._url, mode="strict")
    assert [one.verdict for one in strict.grade(["It is 7."], ["7"], [None])] == ["no_answer"]


def test_a_forked_process_is_told_that_it_cannot_use_those_of_its_parent() -> None:
    verdicts = Verdicts(workers=1)
    verdicts.grade(["1"], ["1"], [None])
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            verdicts.grade(["1"], ["1"], [None])
        except ClientClosed as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    assert b"after the fork" in os.read(read, 1000)
    os.close(read)


# The calls as the libraries make them; tests/adapters has the libraries themselves


def test_trl_gets_a_float_for_each_completion_of_texts_or_messages(verdicts: Verdicts) -> None:
    reward = TRLReward(answer="target", url=verdicts._url)
    logged: dict[str, list[str]] = {}
    texts = {"prompts": ["6*7?"] * 2, "completions": [r"\boxed{42}", "41"], "target": ["42", "42"]}
    assert reward(**texts, completion_ids=[[1], [2]], trainer_state=None, log_extra=logged.__setitem__) == [1.0, 0.0]
    assert logged == {"verdict": ["correct", "wrong"]}
    chats = {
        "prompts": [[{"role": "user", "content": "6*7?"}]] * 2,
        "completions": [[{"role": "assistant", "content": text}] for text in texts["completions"]],
        "target": ["42", "42"],
    }
    assert reward(**chats, completion_ids=[[1], [2]]) == [1.0, 0.0]
    assert reward.__name__ == "math_reward"
    with pytest.raises(ValueError, match="'target'"):
        reward(prompts=["?"], completions=["1"], completion_ids=[[1]], answer=["1"], trainer_state=None)


def test_verl_gets_a_score_and_the_verdict() -> None:
    async def scores() -> list[dict[str, Any]]:
        given = {"data_source": "a set", "extra_info": {"index": 0, "num_turns": None}}
        calls = (compute_score(solution_str=text, ground_truth=truth, **given) for text, truth, _ in ROWS)
        return await asyncio.gather(*calls)

    found = asyncio.run(scores())
    assert [one["score"] for one in found] == RIGHT
    assert [one["verdict"] for one in found] == ["correct", "correct", "wrong", "correct", "no_answer"]


def test_verifiers_gets_the_reward_of_the_last_reply(verdicts: Verdicts) -> None:
    class Data:
        target = "42"
        prompt_text = "6*7?"

    class Trace:
        last_reply = r"\boxed{42}"

    reward = VerifiersReward("target", url=verdicts._url)
    assert asyncio.run(reward(task=Data(), trace=Trace())) == 1.0
    assert reward.__name__ == "math_reward"


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("a text", "a text"),
        ([{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}], "two"),
        ([{"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "image"}, {"text": "b"}]}], "ab"),
        ([{"role": "assistant", "content": None, "tool_calls": []}], ""),
        ([], ""),
    ],
)
def test_the_text_of_a_message_is_that_of_the_last_one(message: Any, text: str) -> None:
    assert text_of(message) == text
