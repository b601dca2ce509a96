"""``openrlhf-gtpo selftest``: what can be known of this machine's GPUs only by running on them. Processes: the
command's own, one for each engine that it times, and the training runs that it starts."""
