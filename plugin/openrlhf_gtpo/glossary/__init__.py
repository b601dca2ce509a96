"""Every metric that a run logs: unit, over what it is taken, where it is computed.

A table without side effects, read by ``openrlhf-gtpo report``, by the tests and by the page ``docs/metrics.md``.
"""
