"""What a tree is worth: values at points and to many digits, matrices, derivatives, sets of reals, truth tables.

It compares no answers. In a worker process, as all of the grader.
"""
