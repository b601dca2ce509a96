"""Creates the files that a command writes, and prints its report."""

import io
import sys
from contextlib import ExitStack
from typing import IO

from math_reward.commands.options import STANDARD
from math_reward.commands.rows import FileRefused


def created(stack: ExitStack, path: str) -> IO[str]:
    """A new file for text, which ``stack`` closes; or standard output, to which each line goes as it is written.

    Raises:
        FileRefused: it cannot be written.
    """
    try:
        if path == STANDARD:
            return stack.enter_context(open(sys.stdout.fileno(), "w", encoding="utf-8", buffering=1, closefd=False))
        return stack.enter_context(open(path, "w", encoding="utf-8"))
    except OSError as error:
        raise FileRefused(f"{path} cannot be written: {error.strerror}.") from None


def print_report(report: object) -> None:
    """Prints; a reference in it may be text that the terminal cannot show."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    print(report)
