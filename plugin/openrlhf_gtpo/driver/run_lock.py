"""A lock on a folder that a run writes to, so that no second run writes there too.

It is a kernel lock on an open file (POSIX, ``fcntl.lockf``). It ends with the process that holds it, in whatever way
that ends; children do not inherit it; over NFS it works between machines. The content of the file is for people."""

import contextlib
import errno
import fcntl
import json
import os
import socket
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from openrlhf_gtpo.errors import SettingsError

FILE = "run.lock"

WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Errors of file systems without locks. The run continues, with a warning if the file names another run."""


@contextlib.contextmanager
def held(folder: Path, flag: str, warn: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of a folder, which is created if necessary.

    Args:
        folder: the folder that a run writes to.
        flag: the flag that names it, for messages.
        warn: called with a sentence if another run may still be active: on another machine, or on a file system
            without locks.

    Raises:
        SettingsError: another run holds the lock, or the folder cannot be written to.
    """
    path = folder / FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file, has_lock = _locked(path)
    except BlockingIOError:
        raise SettingsError(
            f"{flag} {folder}: another run writes there ({_told(path.read_bytes())}): wait for it, stop it, or name "
            "another folder."
        ) from None
    except OSError as error:
        raise SettingsError(f"{flag} {folder} cannot be written to: {error.strerror}.") from None
    # Read through this descriptor: closing any other descriptor of the file would release the lock.
    left = os.pread(file, 1000, 0)
    here = socket.gethostname()
    if left and not (has_lock and _holder(left).get("host") == here):
        warn(
            f"{path} was left by a run that did not end by itself ({_told(left)}): if it is still running, stop it, "
            "since two runs in one folder overwrite each other's files."
        )
    own = {"host": here, "pid": os.getpid(), "start": datetime.now().astimezone().isoformat(" ", "seconds")}
    os.truncate(file, 0)
    os.pwrite(file, json.dumps(own).encode(), 0)
    try:
        yield
    finally:
        # A run that opened it in the meantime sees that it is gone and creates a new one.
        path.unlink(missing_ok=True)
        os.close(file)


def _locked(path: Path) -> tuple[int, bool]:
    """An open file at this path, and whether it is locked; it is not where the file system has no locks.

    Raises:
        BlockingIOError: another process has the lock.
        OSError: the file cannot be opened.
    """
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(file, path):
                return file, True
        except OSError as error:
            if error.errno in WITHOUT_LOCKS:
                return file, False
            os.close(file)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise BlockingIOError(error.errno, error.strerror) from None
            raise
        os.close(file)


def _is_at(file: int, path: Path) -> bool:
    """Whether an open file is still the one at this path."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def _holder(content: bytes) -> dict[str, Any]:
    """What a run wrote about itself; empty if it has not written yet."""
    try:
        holder = json.loads(content)
    except ValueError:
        return {}
    return holder if isinstance(holder, dict) else {}


def _told(content: bytes) -> str:
    holder = _holder(content)
    if not holder:
        return "which has just begun"
    return f"process {holder.get('pid')} on {holder.get('host')} since {holder.get('start')}"
