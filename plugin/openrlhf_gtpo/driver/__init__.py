"""Flags, presets, the checks before anything starts, the plan, names rebound in OpenRLHF, and what ends with the run.

Runs in the process that the user started, which starts all others.
"""
