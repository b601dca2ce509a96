"""What the processes of a run without a model write down: which process each is, the phases of a step, when requests
arrive, how often a tokenizer is unpickled. One file of JSON lines a process."""

import contextlib
import functools
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SETTINGS: dict[str, Any] = json.loads(Path(os.environ["NULL_STEP"]).read_text())
"""What `bench_step.py` wrote for this run."""
FOLDER = Path(SETTINGS["folder"])


def write(**entry: Any) -> None:
    with (FOLDER / f"trace.{os.getpid()}.jsonl").open("a") as file:
        file.write(json.dumps(entry) + "\n")


def begin(role: str) -> None:
    """Say which process this is, and count from now on the tokenizers that are unpickled in it."""
    from transformers.tokenization_utils_base import PreTrainedTokenizerBase

    write(role=role)

    def counted(self: Any, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        write(unpickled=type(self).__name__, at=time.time())

    PreTrainedTokenizerBase.__setstate__ = counted


@functools.cache
def _node() -> tuple[str, int]:
    import ray

    node = next(node for node in ray.nodes() if node["Alive"])
    return node["NodeManagerAddress"], node["NodeManagerPort"]


def _store() -> list[float]:
    """MB that Ray's object store has taken in and has spilled to the disk since the start."""
    from ray._private.internal_api import node_stats

    stats = node_stats(*_node()).store_stats
    return [stats.cumulative_created_bytes / 1e6, stats.spilled_bytes_total / 1e6]


@contextlib.contextmanager
def phase(name: str, *, store: bool = True) -> Iterator[None]:
    """A phase of the step. Where phases are nested, the innermost counts."""
    before, started = _store() if store else None, time.time()
    try:
        yield
    finally:
        ended = time.time()
        write(phase=name, begin=started, end=ended, store=[before, _store() if store else None])


def traced(owner: Any, method: str, name: str, *, store: bool = True) -> None:
    """Replace a method by itself within a phase, if there is one."""
    original = getattr(owner, method, None)
    if original is None:
        return

    @functools.wraps(original)
    def within(*args: Any, **kwargs: Any) -> Any:
        with phase(name, store=store):
            return original(*args, **kwargs)

    setattr(owner, method, within)
