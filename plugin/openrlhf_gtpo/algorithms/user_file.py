"""A user's own Python file, of which a flag names something: ``FILE.py:NAME``."""

import functools
import importlib.util
import sys
import traceback
import zlib
from pathlib import Path
from types import ModuleType


class FileUnusable(ValueError):
    """What a user's file has cannot be used; the sentence says why."""


def parts(place: str) -> tuple[Path, str]:
    """File and name of ``FILE.py:NAME``.

    Raises:
        FileUnusable: one of them is missing.
    """
    path, _, name = place.rpartition(":")
    if not (path and name.isidentifier()):
        raise FileUnusable(f"{place} does not name a function: write FILE.py:NAME")
    return Path(path).absolute(), name


@functools.cache
def load(path: Path) -> ModuleType:
    """The file as a module, which later imports find by its name.

    Raises:
        FileUnusable: there is no such file, or it cannot be imported.
    """
    if not path.is_file():
        raise FileUnusable(f"{path} does not exist: name a Python file and what to take from it, FILE.py:NAME")
    # Files of one name in two folders are two modules, with the same names in every process.
    spec = importlib.util.spec_from_file_location(f"openrlhf_gtpo_user_{path.stem}_{zlib.crc32(bytes(path)):x}", path)
    if spec is None or spec.loader is None:
        raise FileUnusable(f"{path} is no Python file: its name has to end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[module.__name__]
        raise FileUnusable(f"{path} cannot be imported: {told(error, path)}") from error
    return module


def told(error: Exception, path: Path) -> str:
    """An exception in one line, with the last line of the user's file that it passed."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    where = f" in line {lines[-1]}" if lines else ""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}{where}: {text}" if text else f"{type(error).__name__}{where}"
