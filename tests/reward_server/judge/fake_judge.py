"""A judge on a real socket that says what a test tells it to, in the form of OpenAI's chat completions."""

import json
import math
from collections.abc import Callable
from typing import Any

from ...fake_reward_server import Answer, FakeRewardServer, Post


def reply(yes: float, no: float, **others: float) -> dict[str, Any]:
    """A chat completion with these probabilities for the first token."""
    top = [{"token": word, "logprob": math.log(p)} for word, p in {"yes": yes, "no": no, **others}.items() if p]
    message = {"role": "assistant", "content": "I am a liar: yes yes yes"}
    return {"choices": [{"index": 0, "message": message, "logprobs": {"content": [{**top[0], "top_logprobs": top}]}}]}


YES, NO = Answer(body=reply(0.98, 0.01)), Answer(body=reply(0.02, 0.97))


def asked(post: Post) -> dict[str, str | None]:
    """The question and the two answers that a request shows, as they were before they were quoted."""
    lines = post.payload["messages"][1]["content"].split("\n")
    shown: dict[str, str | None] = {"question": None}
    for line in lines[:-1]:
        name, _, literal = line.partition(": ")
        shown[name.lower().split()[0]] = json.loads(literal)
    return shown


def answers_of(post: Post) -> tuple[str | None, str | None]:
    """The first and the second answer."""
    shown = asked(post)
    return shown["first"], shown["second"]


def judge(answer: "Answer | Callable[[Post], Answer]" = YES, answers: Any = ()) -> FakeRewardServer:
    """A judge that gives ``answers`` in turn and then always ``answer``."""
    return FakeRewardServer(answers, answer if callable(answer) else lambda _: answer)
