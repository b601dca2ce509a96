"""The vLLM versions that the entropy hook was tested with, each with a real engine: docs/vllm_versions.md."""

FIRST, LAST = "0.27", "0.33"

INSTALL_TESTED = f"install a vLLM from {FIRST} to {LAST}, each of which was tested"
"""The fix in messages about a vLLM that the hook does not fit."""
