"""``openrlhf-gtpo doctor``: finds what to fix on a machine, in a model folder and in a data set before training."""
