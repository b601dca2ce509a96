"""The vLLM versions that the entropy hook was tested with, each with a real engine: docs/vllm_versions.md."""

OPENRLHFS, NEWEST = "0.29", "0.33"

INSTALL_TESTED = f"install vLLM {OPENRLHFS}, which OpenRLHF asks for, or {NEWEST}: the hook was tested with these"
"""The fix in messages about a vLLM that the hook does not fit."""
