"""The table of estimators, which files of one's own add to."""

import contextlib
from collections.abc import Iterator

from openrlhf_gtpo.algorithms import user_file
from openrlhf_gtpo.algorithms.table import ESTIMATORS


@contextlib.contextmanager
def as_it_was() -> Iterator[None]:
    """What a file adds to the table, when it is imported or named by a flag, is gone afterwards."""
    known = dict(ESTIMATORS)
    try:
        yield
    finally:
        ESTIMATORS.clear()
        ESTIMATORS.update(known)
        user_file.load.cache_clear()
