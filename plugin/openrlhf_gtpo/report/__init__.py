"""One HTML page of one or several runs: curves, evaluations, differing settings, and the first run token by token.

Runs in a process of its own; imports no torch.
"""
