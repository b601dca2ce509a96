"""Parsing JSON in slices gives what the standard library gives, and lets the event loop go on."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from math_reward.json_body import parse_in_slices

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES, st.sampled_from([None, 0, 3]), st.sampled_from(["", " ", "\r\n\t"]))
def test_it_parses_what_the_standard_library_writes(value: Any, indent: int | None, around: str):
    text = around + json.dumps(value, indent=indent) + around

    assert asyncio.run(parse_in_slices(text)) == json.loads(text) == value


@settings(max_examples=400)
@given(st.text(alphabet='{}[]",:1e- \\ut', max_size=14))
def test_it_refuses_what_the_standard_library_refuses(text: str):
    try:
        expected = json.loads(text)
    except json.JSONDecodeError:
        with pytest.raises(json.JSONDecodeError):
            asyncio.run(parse_in_slices(text))
    else:
        assert asyncio.run(parse_in_slices(text)) == expected


async def test_the_event_loop_has_many_turns_while_a_big_body_is_parsed():
    text = json.dumps({"items": [{"completion": "x" * 2000, "reference": str(i)} for i in range(8000)]})
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    value = await parse_in_slices(text)
    counting.cancel()

    assert value == json.loads(text)
    assert turns >= 4
