"""GTPO and GRPO-S (Group Token Policy Optimization, Tan et al., arXiv 2508.04349) for OpenRLHF."""

__version__ = "0.1.0"
