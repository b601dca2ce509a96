"""A training run without a model: the real loop, in which generation, forward passes, the optimiser and the weight
sync take no time, or a given one. `bench_step.py` runs and measures it.

`train.py` is the driver. It runs the product's own with these classes in place of its actors: `controllers.py`,
`policies.py` and `engines.py`, each in its own Ray process. `trace.py` writes what happens there, `figures.py` reads
it, and `material.py` makes a tokenizer, a model and prompts.
"""
