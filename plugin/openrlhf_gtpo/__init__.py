"""GTPO and GRPO-S (Group Token Policy Optimization, Tan et al., arXiv 2508.04349) for OpenRLHF.

The version is that of the distribution: ``importlib.metadata.version("openrlhf-gtpo")``.
"""
