"""The base of every error that ends a run with one sentence instead of a traceback."""

__all__ = ["OneSentence"]


class OneSentence(RuntimeError):
    """Its text is one sentence that says what is wrong and what to do. The driver prints it and stops."""
