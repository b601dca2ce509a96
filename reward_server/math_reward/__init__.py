"""Answer verification for math completions: a grader (library) and an HTTP service around it."""

__version__ = "0.1.0"
