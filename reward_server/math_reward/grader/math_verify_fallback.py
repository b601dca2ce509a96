"""Math-Verify, asked about what the grader's own stages cannot read or decide. Optional: `Options.math_verify`.

This is the only module that knows of it. Its time limits are off: they are Python handlers of SIGALRM, which raise in
every thread but the main one and cannot interrupt C code. The deadline is the caller's.
"""

import logging


class NotInstalled(RuntimeError):
    """Math-Verify is not there; the message says how to get it."""


def equal(reference: str, answer: str) -> bool:
    """Whether Math-Verify takes the two answers for the same. Not symmetric: the reference sets the form.

    Raises:
        NotInstalled: the optional dependency is missing.
    """
    try:
        from math_verify import LatexExtractionConfig, parse, verify
    except ImportError:
        raise NotInstalled("Math-Verify is not installed: pip install 'openrlhf-gtpo[math-verify]'") from None
    # It would say, once per process, that its time limits are off.
    logging.getLogger("math_verify").setLevel(logging.ERROR)
    readings = [
        parse(f"${text}$", extraction_config=(LatexExtractionConfig(),), parsing_timeout=None)
        for text in (reference, answer)
    ]
    return all(readings) and verify(*readings, timeout_seconds=None)
