"""Stands in for flash-attn on a machine without CUDA, where it cannot be built.

OpenRLHF imports four of its functions at the top of ``openrlhf.models.ring_attn_utils`` and calls them only for sample
packing and ring attention, which the CPU platform refuses at start-up. This folder is on the path of a CPU run alone.
"""
