"""From a text to a tree: one spelling, tokens, the parser, and what a formula says about its parameters.

Exact arithmetic is a part of it, because "1 1/2 million" and "3 feet 6 inches" are numbers. In a worker process.
"""
