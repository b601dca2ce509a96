"""A report on one or several runs, as one HTML file without further files.

Runs in the process of ``openrlhf-gtpo report`` and needs no torch, so that it also runs where the files of a run were
copied to.
"""
