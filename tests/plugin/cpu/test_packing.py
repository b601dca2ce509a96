"""Packed samples on a CPU, and prompts that responses share, give the padded rows' numbers at the same tokens."""

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from flash_attn.bert_padding import pad_input, unpad_input
from hypothesis import given
from hypothesis import strategies as st

from ...small_models import small_qwen2
from ..ranks import run

SCRIPT = Path(__file__).with_name("packed_or_padded.py")


def computed(how: str, model: Path, folder: Path, ranks: int = 1) -> dict[str, Any]:
    out = folder / f"{how}.pt"
    assert run(ranks, SCRIPT, how, model, out) == [str(out)] * ranks
    return torch.load(out)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Qwen2 with fewer key heads than heads, as the real ones have."""
    folder = tmp_path_factory.mktemp("model")
    small_qwen2(hidden_size=32, num_attention_heads=4).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def padded(model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return computed("padded", model, tmp_path_factory.mktemp("padded"))


@pytest.mark.engine
@pytest.mark.parametrize(("how", "ranks"), [("packed", 1), ("ring", 2), ("shared", 1)])
def test_log_probabilities_entropies_losses_and_gradients_are_those_of_padded_samples(
    how: str, ranks: int, model: Path, padded: dict[str, Any], tmp_path: Path
):
    found = computed(how, model, tmp_path, ranks)

    assert set(padded) == set(found)
    for loss, expected in padded.items():
        assert expected["gradient"].abs().max() > 1e-3, "there is something to compare"
        for name, values in expected.items():
            if how == "shared" and name == "entropy":
                continue  # asked for, it would compute ordinary rows
            torch.testing.assert_close(
                found[loss][name], values, atol=1e-5, rtol=1e-5, msg=lambda text, at=(loss, name): f"{at}: {text}"
            )


@given(st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=5))
def test_what_is_unpadded_and_padded_again_is_what_it_was_with_zeros_for_the_padding(rows: list[list[bool]]):
    rows = [row if any(row) else [True] * 6 for row in rows]
    mask = torch.tensor(rows, dtype=torch.long)
    values = torch.arange(1, mask.numel() * 2 + 1, dtype=torch.float64).reshape(*mask.shape, 2)

    tokens, indices, bounds, longest, lengths = unpad_input(values, mask)

    assert torch.equal(pad_input(tokens, indices, *mask.shape), values * mask[..., None])
    assert lengths.tolist() == [sum(row) for row in rows]
    assert longest == max(lengths)
    assert [tokens[start:end].tolist() for start, end in itertools.pairwise(bounds)] == [
        [value for value, there in zip(row_values.tolist(), row, strict=True) if there]
        for row_values, row in zip(values, rows, strict=True)
    ]
