"""Graders that do what the completion says, for tests of the processes around them."""

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

from math_reward.grader import Grade, Options, Verdict, grade

HOARD: list[bytes] = []
"""What items have left behind in this worker."""


def obey(completion: str, reference: str, prompt: str | None, options: Options) -> Grade:
    """``completion`` is a command, ``reference`` a file to which every call adds a line with its process id."""
    with Path(reference).open("a") as calls:
        calls.write(f"{os.getpid()}\n")
    if completion == "hang in C code":
        re.fullmatch("(a+)+b", "a" * 64)
    elif completion == "hang without using the CPU":
        time.sleep(600)
    elif completion == "take long":
        begin = time.process_time()
        while time.process_time() < begin + 0.4:
            pass
    elif completion == "allocate":
        try:
            bytearray(16 * 2**30)
        except MemoryError:
            return Grade(Verdict.TOO_COMPLEX, None, reference)
    elif completion == "hoard":
        HOARD.append(b"x" * (600 * 2**20))
    elif completion == "need room" and HOARD:
        return Grade(Verdict.TOO_COMPLEX, None, reference)
    elif completion.startswith("be killed "):  # so many times
        if len(Path(reference).read_text().splitlines()) <= int(completion.removeprefix("be killed ")):
            os.kill(os.getpid(), signal.SIGKILL)
    elif completion == "exit":
        os._exit(7)
    elif completion == "wait for the file 'go'":
        while not Path(reference).with_name("go").exists():
            time.sleep(0.01)
    return Grade(Verdict.CORRECT, str(os.getpid()), reference)


def obey_or_grade(completion: str, reference: str, prompt: str | None, options: Options) -> Grade:
    """Obeys ``hang``, ``exit`` and ``wait for PATH``, and grades everything else."""
    if completion == "hang":
        re.fullmatch("(a+)+b", "a" * 64)
    if completion.endswith("exit"):  # A query begins with its prompt.
        os._exit(7)
    if completion.startswith("wait for "):
        path = Path(completion.removeprefix("wait for "))
        path.with_suffix(".waits").touch()
        while not path.exists():
            time.sleep(0.01)
    return grade(completion, reference, prompt, options)


def repeat(completion: str, reference: str, prompt: str | None, options: Options) -> Grade:
    """Says what it was given."""
    return Grade(Verdict.WRONG, repr((completion, reference, prompt, options)), str(reference))


def approve(completion: str, reference: str, prompt: str | None, options: Options) -> Grade:
    """Says "correct" of everything."""
    return Grade(Verdict.CORRECT, completion, reference)


class NotToBeLoaded:
    """A grader with which every process that it is sent to "exits" or "hangs"."""

    def __init__(self, how: str) -> None:
        self._how = how

    def __call__(self, completion: str, reference: str, prompt: str | None, options: Options) -> Grade:
        raise AssertionError("no worker lives to call this")

    def __reduce__(self) -> tuple[Callable[[int], object], tuple[int]]:
        return (os._exit, (9,)) if self._how == "exits" else (time.sleep, (600,))
