"""DeepSpeed on a CPU: what its own configuration gets wrong there, and that ours does not."""

import math
from pathlib import Path

import pytest

from ..ranks import run

pytestmark = pytest.mark.engine
SCRIPT = Path(__file__).with_name("gather_late.py")


def gathered(whose: str) -> list[list[float]]:
    """The values of one layer on each of two ranks."""
    return run(2, SCRIPT, whose)


def test_zero_3_waits_for_every_parameter_that_it_gathers() -> None:
    """Where a layer has two parameters, DeepSpeed's own way waits for the second alone, so that the first may still be
    on its way: now and then weights came out as whatever memory had held, and a run began with NaN."""
    assert gathered("ours") == [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]] * 2


def test_zero_3_would_not_wait_without_our_setting() -> None:
    """Shows that the test above can fail; when it fails itself, DeepSpeed no longer needs the setting."""
    for values in gathered("theirs"):
        assert all(map(math.isnan, values[:4])), "the weight was never gathered"
        assert values[4:] == [5.0, 6.0]
