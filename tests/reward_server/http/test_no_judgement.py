"""A verdict that says nothing about the answer: what a trainer gets in its place."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from ...refusals import assert_refusal


@pytest.fixture(scope="module")
def ask(serve: Callable[..., Any]) -> httpx.Client:
    """A service whose grader ends its worker where it is told to."""
    return serve("--workers", "1", stub=True).when_ready().client


def queries(*pairs: tuple[str, Any]) -> dict[str, Any]:
    return {"query": [q for q, _ in pairs], "prompts": [""] * len(pairs), "labels": [label for _, label in pairs]}


RIGHT, FAILS, UNREADABLE = (r"\boxed{42}", "42"), ("exit", "42"), (r"\boxed{42}", None)


def test_by_default_it_is_a_reward_of_zero_and_the_logs_tell(ask: httpx.Client):
    answer = ask.post("/get_reward", json=queries(RIGHT, FAILS, UNREADABLE)).json()

    assert answer["rewards"] == answer["scores"] == [1.0, 0.0, 0.0]
    assert answer["extra_logs"]["verdict_error"] == [0.0, 1.0, 0.0]
    assert answer["extra_logs"]["verdict_bad_reference"] == [0.0, 0.0, 1.0]


@pytest.mark.parametrize(("pair", "status", "named"), [(FAILS, 503, "exit code 7"), (UNREADABLE, 422, "reference")])
def test_where_the_url_says_refuse_there_are_no_rewards(
    ask: httpx.Client, pair: tuple[str, Any], status: int, named: str
):
    refused = ask.post("/get_reward?on_no_judgement=refuse", json=queries(RIGHT, pair))
    others = ask.post("/get_reward?on_no_judgement=refuse", json=queries(RIGHT, RIGHT))

    assert refused.status_code == status
    assert_refusal(refused.json()["detail"], "Item 1: ", named)
    assert refused.headers.get("Retry-After") == ("1" if status == 503 else None)
    assert others.json()["rewards"] == [1.0, 1.0]
