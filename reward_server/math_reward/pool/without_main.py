"""Starts worker processes that do not import the program that uses the pool.

multiprocessing has each new process import the main module again, in case it defines what the process runs. A worker
runs functions of this package, and the program may be a training script: it would need a guard around its last line,
and each worker would import its libraries.
"""

import contextlib
import threading
from collections.abc import Iterator
from multiprocessing import spawn
from typing import Any

_one_at_a_time = threading.Lock()


@contextlib.contextmanager
def without_main() -> Iterator[None]:
    """Processes that this thread starts meanwhile do not import the main module; those of other threads do."""
    thread = threading.current_thread()

    def data(name: str) -> dict[str, Any]:
        prepared = as_ever(name)
        if threading.current_thread() is not thread:
            return prepared
        return {key: value for key, value in prepared.items() if not key.startswith("init_main_from_")}

    with _one_at_a_time:
        as_ever = spawn.get_preparation_data
        spawn.get_preparation_data = data
        try:
            yield
        finally:
            spawn.get_preparation_data = as_ever
