"""What is made of a body: no more values than are allowed, and the same whether it is decoded at once or in parts."""

import asyncio
import json
import tracemalloc
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from math_reward.http import bodies
from math_reward.http.bodies import AT_ONCE_BYTES, BodyReader
from math_reward.http.openapi import EXAMPLES, schemas
from math_reward.http.requests import ExplainRequest, GradeRequest, RewardRequest, Unusable
from math_reward.json_lines import MAX_REFERENCES
from math_reward.pool.item import DEFAULT_OPTIONS, Item

MEBIBYTE = 2**20
MAX_ITEMS = 4096
GRADE, REWARD = BodyReader(GradeRequest, MAX_ITEMS), BodyReader(RewardRequest, MAX_ITEMS)


def filled(begin: str, value: str, end: str) -> bytes:
    """A body of 16 MiB with the value as often as there is room."""
    room = 16 * MEBIBYTE - len(begin) - len(end)
    return (begin + value * (room // len(value)) + end).encode()


@pytest.mark.parametrize(
    ("reader", "body"),
    [
        (GRADE, filled('{"items": [', "[],", "[]]}")),
        (GRADE, filled('{"items": [', '{"completion":"","reference":""},', "{}]}")),
        (GRADE, filled('{"items": [', '{"completion":"","reference":[],"options":{}},', "{}]}")),
        (GRADE, filled('{"items": [{"completion": "1", "reference": [', "1,", "1]}]}")),
        (GRADE, filled('{"items": [], "prompts": [', '"a",', '""]}')),
        (GRADE, filled('{"items": [{"completion": "1", "reference": [' + "1," * MAX_REFERENCES, "[", "")),
        (GRADE, filled('{"items": [{"completion": "1", "reference": ', "9", "}]}")),
        (GRADE, filled('{"items": ', "[", "")),
        (GRADE, filled("", " ", "[]")),
        (REWARD, filled('{"labels": [', "0.5,", "1]}")),
        (REWARD, filled('{"query": [', '"a",', '""]}')),
        (REWARD, filled('{"other": [', '{"a":[]},', "1]}")),
        (REWARD, filled('{"other": ', "[", "")),
        (REWARD, filled('{"query": ["1"], "prompts": ["1"], "labels": ["1"]', ',"prompts":["1","2"]', "}")),
        (GRADE, filled('{"items": []', ',"options":{}', ',"options":0}')),
        (GRADE, filled('{"items": [{"completion": "1"', ',"reference":[]', "}, 0]}")),
        (GRADE, filled('{"items": [{"completion": "1", "reference": "1"', ',"options":{}', "}, 0]}")),
        (GRADE, filled("", " ", '{"items": [')[:-30] + b'"", ' * 5 + b"]}"),
    ],
)
async def test_little_is_made_of_a_body_that_is_refused(reader: BodyReader[Any], body: bytes):
    tracemalloc.start()
    try:
        with pytest.raises(Unusable):
            (await reader.read(body)).to_grade(DEFAULT_OPTIONS)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    # The body without the blanks around it is copied.
    assert peak < len(body) + 8 * MEBIBYTE


ITEMS = st.fixed_dictionaries(
    {"completion": st.text(max_size=20), "reference": st.none() | st.text(max_size=5) | st.lists(st.text(max_size=3))},
    optional={"prompt": st.none() | st.integers(0, 1) | st.text(max_size=5), "options": st.just({"rel_tol": 0.5})},
)


def graded(body: bytes) -> list[Item]:
    return asyncio.run(GRADE.read(body)).to_grade(DEFAULT_OPTIONS)


@given(items=st.lists(ITEMS, max_size=8), ascii_alone=st.booleans())
def test_it_reads_what_the_standard_library_reads_at_once_and_in_parts(items: list[Any], ascii_alone: bool):
    text = json.dumps({"items": items, "prompts": ["p", "é"]}, ensure_ascii=ascii_alone).encode()

    at_once = graded(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bodies, "AT_ONCE_BYTES", 1)
        in_parts = graded(text)

    assert at_once == in_parts == msgspec.convert(json.loads(text), GradeRequest).to_grade(DEFAULT_OPTIONS)


@pytest.mark.parametrize(
    "body",
    [
        {"items": [{"completion": "1"}]},
        {"items": [{"completion": "1", "reference": [["2"]]}]},
        {"items": [{"completion": "1", "reference": ["2"] * 65}]},
        {"items": [{"completion": "1", "reference": "2", "options": {"rel_tol": 2}}]},
        {"items": [{"completion": "1", "refrence": "2"}]},
        {"items": [{"completion": "1", "reference": "2", "options": {"mod": "strict"}}]},
        {"items": {}},
        {"items": [], "options": {"mode": "lax"}},
        {"items": [], "prompts": [1]},
        [],
    ],
)
async def test_it_refuses_in_parts_as_at_once(body: Any, monkeypatch: pytest.MonkeyPatch):
    text = json.dumps(body).encode()

    with pytest.raises(Unusable) as at_once:
        (await GRADE.read(text)).to_grade(DEFAULT_OPTIONS)
    monkeypatch.setattr(bodies, "AT_ONCE_BYTES", 1)
    with pytest.raises(Unusable) as in_parts:
        (await GRADE.read(text)).to_grade(DEFAULT_OPTIONS)

    place, _, _ = str(at_once.value).partition(": ")
    assert str(in_parts.value).startswith(place)


async def test_the_event_loop_has_many_turns_while_a_large_body_is_read():
    items = [{"completion": "x" * 2000, "reference": str(number)} for number in range(4000)]
    body = json.dumps({"items": items}).encode()
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    await GRADE.read(body)
    counting.cancel()

    assert turns >= len(body) / (2 * AT_ONCE_BYTES)


@pytest.mark.parametrize("at_once_bytes", [1, AT_ONCE_BYTES])
@pytest.mark.parametrize("field", ["items", "prompts"])
async def test_as_many_items_as_are_allowed_and_no_more(
    field: str, at_once_bytes: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bodies, "AT_ONCE_BYTES", at_once_bytes)
    values = {"items": {"completion": "1", "reference": "1"}, "prompts": "1"}
    reader = BodyReader(GradeRequest, 5)

    def body(count: int) -> bytes:
        return json.dumps({"items": [], field: [values[field]] * count}).encode()

    assert len(getattr(await reader.read(body(5)), field)) == 5
    with pytest.raises(Unusable, match=rf"^Field '{field}': .*\b5\b"):
        await reader.read(body(6))


async def test_a_service_may_allow_more_items_than_are_counted_while_a_body_is_read():
    body = json.dumps({"items": [], "prompts": ["1"] * 70_000}).encode()

    assert len((await BodyReader(GradeRequest, 70_000).read(body)).prompts) == 70_000
    with pytest.raises(Unusable, match="69999"):
        await BodyReader(GradeRequest, 69_999).read(body)


async def test_the_document_has_what_the_structs_read():
    written = schemas()

    for model in (GradeRequest, RewardRequest, ExplainRequest):
        schema = written[model.__name__]
        assert set(schema["properties"]) == set(model.__struct_fields__)
        assert schema["examples"] == [EXAMPLES[model]]
        assert await BodyReader(model, MAX_ITEMS).read(json.dumps(EXAMPLES[model]).encode())
    *_, references, _ = written["GradeItem" if "GradeItem" in written else "RequestItem"]["properties"]["reference"][
        "anyOf"
    ]
    assert references["maxItems"] == MAX_REFERENCES
    names = {place.rpartition("/")[2] for place in json.dumps(written).split('"') if place.startswith("#/")}
    assert names <= set(written)
