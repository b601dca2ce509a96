"""``openrlhf-gtpo doctor``: finds what to fix on a machine, in a model folder and in a data set before training.

Runs in the command's own process; what may crash or hang, such as an engine, is tried in a child process.
"""
