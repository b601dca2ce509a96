"""Which settings of a judge can be used."""

import math
from typing import Any

import pytest

from math_reward.judge_settings import JudgeRefused, JudgeSettings, judge_of

from ...refusals import assert_refusal


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("http://127.0.0.1:8001", "http://127.0.0.1:8001/v1/chat/completions"),
        ("http://127.0.0.1:8001/", "http://127.0.0.1:8001/v1/chat/completions"),
        ("https://host/v1", "https://host/v1/chat/completions"),
        ("https://host/team/v1/", "https://host/team/v1/chat/completions"),
        ("https://host/v1/chat/completions", "https://host/v1/chat/completions"),
    ],
)
def test_a_url_gets_the_path_of_chat_completions(url: str, asked: str):
    assert JudgeSettings(url, "m").url == asked


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"url": "127.0.0.1:8001"}, "http"),
        ({"url": "ftp://host"}, "http"),
        ({"url": "http://[::1"}, "http"),
        ({"url": "http://host/?key=1"}, "http"),
        ({"url": "http://me:secret@host"}, "credentials"),
        ({"model": " "}, "--judge-model"),
        ({"key": "two\nlines"}, "MATH_REWARD_JUDGE_KEY"),
        ({"deadline": 0}, "deadline"),
        ({"deadline": math.nan}, "deadline"),
        ({"concurrency": 0}, "concurrency"),
    ],
)
def test_what_cannot_be_used_is_refused_without_secrets(settings: dict[str, Any], named: str):
    with pytest.raises(JudgeRefused) as refused:
        JudgeSettings(**{"url": "http://host", "model": "m", **settings})
    assert_refusal(str(refused.value), named)
    assert "secret" not in str(refused.value)


def test_a_judge_has_a_url_and_a_model_or_there_is_none():
    assert judge_of(None, None, "key") is judge_of("", "", None) is None  # compose passes on what was left empty
    for url, model in (("http://host", None), (None, "m"), ("", "m")):
        with pytest.raises(JudgeRefused, match="both"):
            judge_of(url, model, None)
    judge = judge_of("http://host", "m", "", deadline=None, concurrency=5)
    assert judge is not None
    assert (judge.key, judge.deadline, judge.concurrency) == (None, 20.0, 5)
    assert "key" not in repr(JudgeSettings("http://host", "m", key="key"))
