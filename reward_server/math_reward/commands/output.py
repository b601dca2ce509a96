"""Creates the files that a command writes."""

from contextlib import ExitStack
from typing import IO

from math_reward.commands.rows import FileRefused


def created(stack: ExitStack, path: str) -> IO[str]:
    """A new file for text, which ``stack`` closes.

    Raises:
        FileRefused: it cannot be written.
    """
    try:
        return stack.enter_context(open(path, "w", encoding="utf-8"))
    except OSError as error:
        raise FileRefused(f"{path} cannot be written: {error.strerror}.") from None
