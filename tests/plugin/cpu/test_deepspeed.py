"""DeepSpeed on a CPU: what its own configuration gets wrong there, and ours does not."""

from pathlib import Path

import pytest

from ..ranks import run


@pytest.mark.engine
def test_zero_3_waits_for_every_parameter_that_it_gathers() -> None:
    """Where a layer has two parameters, DeepSpeed's own way waits for the second alone, so that the first may still be
    on its way: now and then weights came out as whatever memory had held, and a run began with NaN."""
    assert run(2, Path(__file__).with_name("gather_late.py")) == [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]] * 2
