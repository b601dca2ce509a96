"""The names that OpenRLHF imports from ``flash_attn.bert_padding``."""

from typing import Any, NoReturn

from einops import rearrange

__all__ = ["index_first_axis", "pad_input", "rearrange", "unpad_input"]


def _unavailable(*args: Any, **kwargs: Any) -> NoReturn:
    raise RuntimeError("flash-attn is not available on a CPU: leave out --ds.packing_samples and --ds.ring_attn_size.")


index_first_axis = pad_input = unpad_input = _unavailable
