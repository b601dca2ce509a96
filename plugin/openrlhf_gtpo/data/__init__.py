"""Data sets as OpenRLHF trains on them: prompts that ask for a boxed answer, references that can be graded."""
