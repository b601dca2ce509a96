"""The service's log: lines on standard error, for which the event loop never waits."""

import logging
import os
import threading
import time

STANDARD_ERROR = 2

ROOM_CHARACTERS = 2**20
"""How much may wait until somebody reads standard error."""

PAUSE_SECONDS = 0.02
"""Lines that come within this time are written at once."""

END_SECONDS = 1.0
"""How long the end of the process waits for what is not written yet."""


class Log(logging.Handler):
    """Writes lines from a thread of its own. Where nobody reads them, as behind a full pipe, it drops and counts them.

    A handler of ``logging`` too, so that what the libraries say takes the same way.

    Attributes:
        dropped: lines that were not written.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
        self.dropped = 0
        self._lines: list[str] = []
        self._characters = 0
        self._own = threading.Lock()
        self._some = threading.Event()
        self._written = threading.Event()
        self._written.set()
        threading.Thread(target=self._run, name="math-reward-log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        self.write(self.format(record))

    def write(self, line: str) -> None:
        """Takes a line, without its end."""
        with self._own:
            if self._characters + len(line) > ROOM_CHARACTERS:
                self.dropped += 1
                return
            self._characters += len(line)
            self._lines.append(line)
            if len(self._lines) == 1:
                self._written.clear()
                self._some.set()

    def flush(self) -> None:
        """Waits until all is written, or END_SECONDS; ``logging`` asks for it when the process ends."""
        self._written.wait(END_SECONDS)

    def _run(self) -> None:
        told = 0
        while True:
            self._some.wait()
            time.sleep(PAUSE_SECONDS)
            with self._own:
                self._some.clear()
                lines, self._lines, self._characters = self._lines, [], 0
                if self.dropped > told:
                    lines.append(f"{self.dropped - told} lines of the log were dropped: nobody read standard error.")
                    told = self.dropped
            try:
                _write("".join(f"{line}\n" for line in lines))
            except OSError:  # nobody will read standard error any more
                self.dropped += len(lines)
            with self._own:
                if not self._lines:
                    self._written.set()


def _write(text: str) -> None:
    """To the descriptor itself: a thread that waits inside ``sys.stderr`` has a lock that the interpreter needs."""
    content = text.encode(errors="backslashreplace")
    while content:
        content = content[os.write(STANDARD_ERROR, content) :]
