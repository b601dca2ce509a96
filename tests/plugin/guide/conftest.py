"""A tokenizer whose tokens are characters, which pads with the end, and a folder to keep one in."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ..conftest import characters_and


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return characters_and(pad_token="<end>")


@pytest.fixture
def saved(tmp_path: Path) -> Callable[..., str]:
    """Writes a model's folder with a tokenizer that has these words more."""

    def save(name: str, *words: str) -> str:
        characters_and(*words, pad_token="<end>").save_pretrained(tmp_path / name)
        return str(tmp_path / name)

    return save
