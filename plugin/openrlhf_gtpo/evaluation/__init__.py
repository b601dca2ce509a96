"""Evaluation of a policy: sampling with vLLM, verdicts of the reward service, Pass@k with confidence intervals."""
