"""Ray stands aside: what engines of tables answer is there already."""

import pytest

from .tables import without_ray


@pytest.fixture(autouse=True)
def no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    without_ray(monkeypatch)
