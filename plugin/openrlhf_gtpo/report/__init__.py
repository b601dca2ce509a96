"""A report on one or several runs: one HTML file that needs nothing else."""
