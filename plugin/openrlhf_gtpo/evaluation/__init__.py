"""Evaluation of a policy: sampling with vLLM, verdicts of the reward service, Pass@k with confidence intervals.

Runs in the process of ``openrlhf-gtpo eval``, which has an engine of its own.
"""
