"""The name that OpenRLHF imports from ``flash_attn.utils.distributed``."""

from flash_attn.bert_padding import _unavailable as all_gather

__all__ = ["all_gather"]
