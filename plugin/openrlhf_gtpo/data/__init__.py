"""Data sets for OpenRLHF: prompts that ask for a boxed answer, and reference answers that can be graded."""
