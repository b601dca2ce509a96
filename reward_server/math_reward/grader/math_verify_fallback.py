"""Asks Math-Verify about what the grader's own stages cannot read or decide, if `Options.math_verify` is set.

Only this module and ``math-reward compare`` use Math-Verify. Its time limits are off, because they are Python handlers
of SIGALRM: these raise an exception in every thread but the main one, and cannot interrupt C code. The caller sets the
deadline.
"""

import logging

NOT_INSTALLED = "Math-Verify is not installed: pip install 'math-reward[math-verify]'"


class NotInstalled(RuntimeError):
    """Math-Verify is not installed; the message says how to install it."""


def equal(reference: str, answer: str) -> bool:
    """Whether Math-Verify finds the two answers equal. Not symmetric: the reference sets the form.

    Raises:
        NotInstalled: the optional dependency is missing.
    """
    try:
        from math_verify import LatexExtractionConfig, parse, verify
    except ImportError:
        raise NotInstalled(NOT_INSTALLED) from None
    # Otherwise it warns, once per process, that its time limits are off.
    logging.getLogger("math_verify").setLevel(logging.ERROR)
    readings = [
        parse(f"${text}$", extraction_config=(LatexExtractionConfig(),), parsing_timeout=None)
        for text in (reference, answer)
    ]
    return all(readings) and verify(*readings, timeout_seconds=None)
