"""The process that the user started: its flags, the checks before anything starts, the plan, and what ends with it."""
