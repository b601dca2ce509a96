"""Stands in for flash-attn on a machine without CUDA, where it cannot be built.

OpenRLHF packs samples with four of its functions, and gathers for ring attention with a fifth. They are here in plain
torch, with the same arguments and results; the attention itself is transformers' own, which keeps packed sequences
apart by their positions. This folder is on the path of a CPU run alone.
"""
