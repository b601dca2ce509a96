"""Orphans of a run are waited for: no zombie is left of them."""

import subprocess
import sys

import psutil
import pytest

PROGRAM = """
import subprocess, sys, time, psutil
from openrlhf_gtpo.driver.orphans import adopt_orphans, reap
adopt_orphans()
# A child that ends at once and leaves a child of its own, which ends after {seconds} s.
grandchild = "import time; time.sleep({seconds})"
child = '''
import subprocess, sys
quiet = {{"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}}  # or its pipe would be waited for, too
print(subprocess.Popen([sys.executable, "-c", sys.argv[1]], **quiet).pid)
'''
pid = int(subprocess.run([sys.executable, "-c", child, grandchild], capture_output=True, text=True).stdout)
assert psutil.Process(pid).ppid() == psutil.Process().pid
print(pid, flush=True)
begin = time.monotonic()
reap({patience})
print(len(psutil.Process().children()), time.monotonic() - begin)
"""


def run(seconds: float, patience: float) -> tuple[int, int, float]:
    """The orphan's pid, how many children are left, and the seconds that were waited."""
    program = PROGRAM.format(seconds=seconds, patience=patience)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    pid, left, waited = done.stdout.split()
    return int(pid), int(left), float(waited)


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process adopt orphans")


def test_an_orphan_that_ends_is_waited_for() -> None:
    pid, left, _ = run(seconds=0.3, patience=30)
    assert left == 0
    assert not psutil.pid_exists(pid)


def test_an_orphan_that_does_not_end_is_killed_when_its_time_is_over() -> None:
    pid, left, waited = run(seconds=60, patience=0.2)
    assert left == 0
    assert not psutil.pid_exists(pid)
    assert 0.2 <= waited < 50
