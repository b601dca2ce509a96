"""A run's lock on a folder that it writes into, so that no second run writes there too.

The lock is the kernel's on an open file (POSIX, ``fcntl.lockf``): it ends with the process that holds it, however that
ends, no child inherits it, and over NFS it holds between machines. What the file says is for people."""

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

__all__ = ["FILE", "held"]

FILE = "run.lock"

WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""What a file system says that has no locks: the run goes on, and what the file says is told."""


@contextlib.contextmanager
def held(folder: Path, flag: str, warn: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of a folder, which is made if it is not there.

    Args:
        folder: that a run writes into.
        flag: that names it, for the sentences.
        warn: told where a run on another machine, or on a file system without locks, may be at work still.

    Raises:
        SettingsError: another run holds it, or the folder cannot be written to.
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
    # Through this descriptor: closing another one of the file would end the lock.
    left = os.pread(file, 1000, 0)
    here = socket.gethostname()
    if left and not (has_lock and _holder(left).get("host") == here):
        warn(
            f"{path} is of a run that did not end by itself ({_told(left)}): if it is still there, stop it, since two "
            "runs in one folder spoil each other's files."
        )
    own = {"host": here, "pid": os.getpid(), "start": datetime.now().astimezone().isoformat(" ", "seconds")}
    os.truncate(file, 0)
    os.pwrite(file, json.dumps(own).encode(), 0)
    try:
        yield
    finally:
        # Whoever opened it in the meantime finds that it is gone and makes a new one.
        path.unlink(missing_ok=True)
        os.close(file)


def _locked(path: Path) -> tuple[int, bool]:
    """An open file at this path with the lock on it; or without, where the file system has no locks.

    Raises:
        BlockingIOError: another process has the lock.
        OSError: it cannot be opened.
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
    """What a run wrote of itself; nothing where it has yet to."""
    try:
        found = json.loads(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _told(content: bytes) -> str:
    holder = _holder(content)
    if not holder:
        return "which has just begun"
    return f"process {holder.get('pid')} on {holder.get('host')} since {holder.get('start')}"
