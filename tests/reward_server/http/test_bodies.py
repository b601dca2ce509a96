"""How many values a body may have."""

import json
from typing import Any

import pytest

from math_reward.http.bodies import BodyReader
from math_reward.http.requests import GradeRequest, Unusable


@pytest.mark.parametrize(("field", "value"), [("items", {"completion": "1", "reference": "1"}), ("prompts", "1")])
def test_as_many_items_as_are_allowed_and_no_more(field: str, value: Any):
    reader = BodyReader(GradeRequest, 5)

    def body(count: int) -> bytes:
        return json.dumps({"items": [], field: [value] * count}).encode()

    assert len(getattr(reader.read(body(5)), field)) == 5
    with pytest.raises(Unusable, match=f"^At most 5 {field} "):
        reader.read(body(6))
