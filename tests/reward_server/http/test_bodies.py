"""What is made of a body: what the standard library reads in it, and no more values than are allowed."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from math_reward.http.bodies import BodyReader
from math_reward.http.openapi import EXAMPLES, schemas
from math_reward.http.requests import GradeItem, GradeRequest, RewardRequest, Unusable
from math_reward.json_lines import MAX_REFERENCES
from math_reward.pool.item import DEFAULT_OPTIONS

ITEMS = st.fixed_dictionaries(
    {"completion": st.text(max_size=20), "reference": st.none() | st.text(max_size=5) | st.lists(st.text(max_size=3))},
    optional={"prompt": st.none() | st.integers(0, 1) | st.text(max_size=5), "options": st.just({"rel_tol": 0.5})},
)


@given(items=st.lists(ITEMS, max_size=8), ascii_alone=st.booleans())
def test_it_reads_what_the_standard_library_reads(items: list[Any], ascii_alone: bool):
    text = json.dumps({"items": items, "prompts": ["p", "é"]}, ensure_ascii=ascii_alone).encode()

    read = BodyReader(GradeRequest, 8).read(text).to_grade(DEFAULT_OPTIONS)

    assert read == msgspec.convert(json.loads(text), GradeRequest).to_grade(DEFAULT_OPTIONS)


@pytest.mark.parametrize(("field", "value"), [("items", {"completion": "1", "reference": "1"}), ("prompts", "1")])
def test_as_many_items_as_are_allowed_and_no_more(field: str, value: Any):
    reader = BodyReader(GradeRequest, 5)

    def body(count: int) -> bytes:
        return json.dumps({"items": [], field: [value] * count}).encode()

    assert len(getattr(reader.read(body(5)), field)) == 5
    with pytest.raises(Unusable, match=f"^At most 5 {field} "):
        reader.read(body(6))


def test_the_document_has_what_the_structs_read():
    written = schemas()

    for model in (GradeRequest, RewardRequest, GradeItem):
        schema = written[model.__name__]
        assert set(schema["properties"]) == set(model.__struct_fields__)
        assert schema["examples"] == [EXAMPLES[model]]
        assert BodyReader(model, 2).read(json.dumps(EXAMPLES[model]).encode())
    *_, references, _ = written["RequestItem"]["properties"]["reference"]["anyOf"]
    assert references["maxItems"] == MAX_REFERENCES
    names = {place.rpartition("/")[2] for place in json.dumps(written).split('"') if place.startswith("#/")}
    assert names <= set(written)
