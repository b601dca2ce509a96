"""What other trainers and evaluators call to get this grader's verdicts: TRL, verl, verifiers (prime-rl), inspect_ai.

Runs in their processes. One module for each, of at most 40 lines, which alone imports its library; ``verdicts`` is
what they share.
"""
