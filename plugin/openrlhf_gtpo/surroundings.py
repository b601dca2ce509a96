"""The surroundings that people's machines give a process: long temporary folders, terminals that are not UTF-8."""

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator

LONGEST = 40
"""Characters of a temporary folder in which a Unix socket's path, at most 107, still has room for Ray's and vLLM's
names."""


@contextlib.contextmanager
def prepared() -> Iterator[None]:
    """A context in which printing cannot fail for a character, and sockets have short paths: where ``TMPDIR`` is long,
    as on a Slurm node, it is a folder in /tmp that is removed afterwards."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError):  # of a stream that is none of a terminal
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    before = {name: os.environ.get(name) for name in ("TMPDIR", "RAY_TMPDIR")}
    longest = max(len(tempfile.gettempdir()), len(before["RAY_TMPDIR"] or ""))
    if longest <= LONGEST or not os.access("/tmp", os.W_OK):
        yield
        return
    folder = tempfile.mkdtemp(prefix="gtpo-", dir="/tmp")
    os.environ.update(dict.fromkeys(before, folder))
    tempfile.tempdir = None
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            os.environ.update({} if value is None else {name: value})
        tempfile.tempdir = None
        shutil.rmtree(folder, ignore_errors=True)
