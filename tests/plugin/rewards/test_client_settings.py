"""The client's settings are refused in one sentence."""

from typing import Any

import pytest

from openrlhf_gtpo.rewards.client import RewardClientSettings


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"urls": ()}, "at least one"),
        ({"urls": "http://a"}, "must be a tuple"),
        ({"urls": ("a:8000",)}, "not 'a:8000'"),
        ({"urls": ("ftp://a/v1/grade",)}, "http:// or https://"),
        ({"urls": ("http:///v1/grade",)}, "http:// or https://"),
        ({"urls": ("http://a:99999",)}, "http:// or https://"),
        ({"urls": ("reward.py",)}, "not 'reward.py'"),
        ({"urls": ("http://user:pass@a",)}, "must not hold credentials"),
        ({"token": ""}, "token"),
        ({"token": "tell-nobody\n"}, "token"),
        ({"token": "tell nobody"}, "token"),
        ({"token": "tell-nobody\u2026"}, "token"),
        ({"timeout": 0}, "timeout must be a positive number of seconds, not 0"),
        ({"timeout": float("nan")}, "timeout"),
        ({"deadline": -1}, "deadline must be 0 or a positive number"),
        ({"deadline": float("inf")}, "deadline"),
        ({"batch_size": 0}, "batch_size must be at least 1, not 0"),
        ({"batch_wait": -0.1}, "batch_wait"),
        ({"max_in_flight": 0}, "max_in_flight"),
        ({"max_backoff": 0}, "max_backoff"),
    ],
)
def test_a_setting_out_of_bounds_is_refused_in_one_sentence(settings: dict[str, Any], words: str):
    with pytest.raises(ValueError, match=r"urls|must") as caught:
        RewardClientSettings(**({"urls": ("http://a",)} | settings))
    message = str(caught.value)
    assert words in message
    assert "nobody" not in message
    assert "pass@" not in message
    assert "\n" not in message
