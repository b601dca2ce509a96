"""What a run writes to the terminal: the lines that begin with the program's name, wherever in the run they are
printed. All other output of Ray, vLLM and OpenRLHF goes to a file."""

import contextlib
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

MARK = "openrlhf-gtpo train: "
"""With which a line begins that the terminal shows, whichever process of a run prints it."""
SHOWN = 40
"""Lines of the log that are shown when a run fails."""


class Terminal:
    """Standard output and error of the driver.

    Ray prints what its workers print on ``sys.stdout`` and ``sys.stderr`` of the driver, with the worker's name before
    each line. A line with `MARK` in it is the plugin's, and is shown from there on.
    """

    def __init__(self) -> None:
        self._out: IO[str] = sys.stdout
        self._error: IO[str] = sys.stderr
        self._log: Path | None = None
        self._shown: list[str] = []
        self._ended = False

    def say(self, sentence: str) -> None:
        """Print one line of the plugin's."""
        print(f"{MARK}{sentence}", file=self._error, flush=True)

    @contextlib.contextmanager
    def quiet(self, log: Path, *, append: bool = False) -> Iterator[None]:
        """A context in which this process and its children write to a file, or append to it, but for our lines."""
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log
        kept = [os.dup(1), os.dup(2)]
        with log.open("a" if append else "w", encoding="utf-8", errors="replace", buffering=1) as file:
            self._out, self._error = (os.fdopen(one, "w", encoding="utf-8", errors="replace") for one in kept)
            before = sys.stdout, sys.stderr
            for stream in before:
                stream.flush()
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            sys.stdout = sys.stderr = _Split(file, self._show)
            self.say(f"starting; everything else is written to {log}")
            try:
                yield
            finally:
                sys.stdout, sys.stderr = before
                os.dup2(self._out.fileno(), 1)
                os.dup2(self._error.fileno(), 2)

    def wait_for(self, beginning: str, seconds: float = 10) -> None:
        """Wait until a worker's line with this beginning is shown, for at most ``seconds``: Ray passes lines on with a
        delay, which is long on a busy machine."""
        end = time.monotonic() + seconds
        while not any(line.startswith(beginning) for line in self._shown) and time.monotonic() < end:
            time.sleep(0.1)

    def show_end_of_log(self) -> None:
        """Print the last lines of the log, for an error that nobody foresaw."""
        if self._log is None or not self._log.is_file():
            return
        with self._log.open(encoding="utf-8", errors="replace") as lines:
            print("".join(deque(lines, SHOWN)), end="", file=self._error)
        self.say(f"these are the last lines of {self._log}")

    def end(self, status: int, words: str) -> None:
        """Print the last words of a run, one line for each sentence; what workers print later is in the log alone."""
        self._ended = True
        for line in words.splitlines():
            self.say(f"{'error: ' if status not in (0, 130) else ''}{line}")

    def _show(self, line: str) -> None:
        if not self._ended:
            print(f"{MARK}{line}", file=self._out, flush=True)
            self._shown.append(line)


class _Split:
    """A stream that writes everything to a file, and gives what follows a mark to be shown."""

    def __init__(self, file: IO[str], show: Callable[[str], None]) -> None:
        self._file, self._show = file, show

    def write(self, text: str) -> int:
        for line in text.splitlines():
            _, mark, rest = line.partition(MARK)
            if mark:
                self._show(rest)
        return self._file.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
