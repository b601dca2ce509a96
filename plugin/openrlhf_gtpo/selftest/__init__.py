"""``openrlhf-gtpo selftest``: what can be known of this machine's GPUs only by running on them.

Runs in the command's own process, in one for each engine that it times, and in the training runs that it starts.
"""
