"""``openrlhf-gtpo doctor``: what is to be mended on a machine, in a model folder and in a data set before training."""
