"""Parsing JSON in slices gives what the standard library gives, lets the event loop go on, and knows when to stop."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.exceptions import HTTPException

from math_reward.http.middleware import json_body
from math_reward.http.middleware.json_body import parse_in_slices

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=60),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def parsed(text: str, max_items: int = 4096) -> Any:
    parsing = parse_in_slices(text.encode(), max_items)
    while True:
        try:
            parsing.send(None)
        except StopIteration as done:
            return done.value


@pytest.fixture(params=[16, 19, json_body.WINDOW_BYTES], scope="module")
def window_bytes(request: pytest.FixtureRequest) -> Iterator[None]:
    """With a narrow window everything is too big for it, and escapes and characters are cut in all ways."""
    before, json_body.WINDOW_BYTES = json_body.WINDOW_BYTES, request.param
    yield
    json_body.WINDOW_BYTES = before


@pytest.mark.usefixtures("window_bytes")
@settings(max_examples=60)
@given(VALUES, st.sampled_from([None, 0, 3]), st.sampled_from(["", " ", "\r\n\t"]), st.booleans())
def test_it_parses_what_the_standard_library_writes(value: Any, indent: int | None, around: str, ascii_alone: bool):
    text = around + json.dumps(value, indent=indent, ensure_ascii=ascii_alone) + around

    assert parsed(text) == json.loads(text) == value


WRITTEN = ["\\\\", "\\\\\\\\", '\\"', "\\n", "\\ud83d", "\\ude00", "\\u00e9", "é", "😀", "a"]


@pytest.mark.usefixtures("window_bytes")
@given(st.lists(st.sampled_from(WRITTEN), max_size=60))
def test_a_string_may_be_cut_anywhere(characters: list[str]):
    text = f'["{"".join(characters)}"]'

    assert parsed(text) == json.loads(text)


@pytest.mark.usefixtures("window_bytes")
@settings(max_examples=200)
@given(st.text(alphabet='{}[]",:1e- \\ut', max_size=40))
def test_it_refuses_what_the_standard_library_refuses(text: str):
    try:
        expected = json.loads(text)
    except json.JSONDecodeError:
        with pytest.raises(json.JSONDecodeError):
            parsed(text)
    else:
        assert parsed(text) == expected


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({"items": [{"completion": "x" * 2000, "reference": str(i)} for i in range(4000)]}),
        json.dumps({"items": [{"completion": "x" * 9_000_000, "reference": "1"}]}),
        json.dumps({"items": [{"completion": "\n\u00e9" * 700_000, "reference": "1"}]}),
        " " * 9_000_000 + "[" + "\n" * 9_000_000 + "]",
    ],
    ids=["items", "a completion", "escapes", "blanks"],
)
async def test_the_event_loop_has_many_turns_while_a_big_body_is_parsed(body: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(json_body, "SLICE_SECONDS", 0.0)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    value = await parse_in_slices(body.encode(), 4096)
    counting.cancel()

    assert value == json.loads(body)
    assert turns >= len(body) / (20 * 65_536)


@pytest.mark.parametrize("inside", ["{}", "[]", "1", '"a"', '{"completion": "a"}'])
def test_it_stops_at_the_first_item_too_many(inside: str):
    exactly = f'{{"items": [{", ".join([inside] * 5)}]}}'
    # What comes after the sixth is not even looked at.
    too_many = f'{{"items": [{", ".join([inside] * 6)}, ' + "x" * 100_000

    assert len(parsed(exactly, max_items=5)["items"]) == 5
    with pytest.raises(HTTPException) as refusal:
        parsed(too_many, max_items=5)
    assert refusal.value.status_code == 422
    assert refusal.value.detail == "Field 'items' has more than the 5 items that are allowed: send several requests."


@pytest.mark.parametrize(
    "where", ['{"items": [{"reference": [%s]}]}', '{"other": {"a": [%s]}}', "[%s]", '[["a", [%s]]]']
)
def test_it_holds_only_so_many_values_wherever_they_are(where: str):
    allowed = json_body.MORE_VALUES + json_body.VALUES_PER_ITEM

    assert parsed(where % ", ".join(["{}"] * (allowed - 8)), max_items=1)
    with pytest.raises(HTTPException) as refusal:
        parsed(where % ", ".join(["{}"] * (allowed + 1)), max_items=1)
    assert refusal.value.detail == "The body holds more than the 1,016 values that are allowed: send several requests."


def test_it_refuses_what_is_nested_deeper_than_any_request():
    deep = json_body.MAX_DEPTH

    assert parsed("[" * deep + "]" * deep)
    for too_deep in ("[" * (deep + 2) + "]" * (deep + 2), "[" * 500_000, '{"a":' * 500_000):
        with pytest.raises(RecursionError):
            parsed(too_deep)
