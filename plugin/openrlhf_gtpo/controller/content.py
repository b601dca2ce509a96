"""SHA-256 of what a run began with and of what it made: by content, whatever the files' places are called."""

import copy
import glob
import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

CHUNK = 2**20
"""Bytes read at a time."""
WEIGHTS = ("*.safetensors", "*model*.bin")
"""Names of files with weights; as transformers does, the second kind is taken where there is none of the first."""


class NotHashed(Exception):
    """There is no hash; the message is a part of a sentence that says why."""


def file_hash(path: Path) -> str:
    """SHA-256 of a file in hexadecimal, as ``sha256sum`` gives it. It is read piece by piece.

    Raises:
        NotHashed: it cannot be read.
    """
    digest, buffer = hashlib.sha256(), bytearray(CHUNK)
    try:
        with path.open("rb", buffering=0) as file:
            while size := file.readinto(buffer):
                digest.update(memoryview(buffer)[:size])
    except OSError as error:
        raise NotHashed(f"{path} cannot be read: {error.strerror}") from None
    return digest.hexdigest()


def weights_hash(model: str) -> str:
    """One SHA-256 of a model's weights: that of the lines which ``sha256sum`` prints of its weight files inside their
    folder, by name. So ``cd MODEL && sha256sum *.safetensors | sha256sum`` gives it too.

    Args:
        model: a folder, or a hub id that is in Hugging Face's cache.

    Raises:
        NotHashed: there are no weights on this machine, or a file cannot be read.
    """
    folder = _folder(model, "model")
    for pattern in WEIGHTS:
        if files := sorted(folder.glob(pattern)):
            return _hash_of_files(folder, files)
    raise NotHashed(f"{folder} has no {' and no '.join(WEIGHTS)}")


def data_hash(name: str) -> str:
    """SHA-256 of one data set: of a file its own, of a folder or of several files as for `weights_hash`.

    Args:
        name: a file, a pattern, a folder, or a hub id that is in Hugging Face's cache; ``@`` and a folder inside it
            may follow, as in ``--data.prompt_dataset``.

    Raises:
        NotHashed: it is not on this machine, or a file cannot be read.
    """
    where, _, inside = (part.strip() for part in name.partition("@"))
    if os.path.isfile(where):
        return file_hash(Path(where))
    if glob.has_magic(where):
        files = [Path(path) for path in sorted(glob.glob(where, recursive=True))]
        folder = Path(os.path.commonpath([file.parent for file in files])) if files else Path()
    else:
        folder = _folder(where, "dataset") / inside
        files = sorted(path for path in folder.rglob("*") if path.is_file())
    if not files:
        raise NotHashed(f"{where} has no files on this machine")
    return _hash_of_files(folder, files)


def order_of_prompts(loader: Any) -> list[int]:
    """The numbers of the prompts in the order in which the first episode takes them. The loader stays as it is.

    Args:
        loader: a ``StatefulDataLoader`` that has not begun, with batches of one prompt.
    """
    # A copy, since drawing an order moves the sampler's generator; without the data, which may be large.
    sampler = copy.deepcopy(loader.sampler, {id(loader.dataset): loader.dataset})
    return list(sampler)


def order_hash(prompts: Sequence[Any], labels: Sequence[Any], order: Iterable[int]) -> str:
    """SHA-256 of prompts and labels, one JSON list a line, in an order."""
    digest = hashlib.sha256()
    for place in order:
        digest.update(json.dumps([prompts[place], labels[place]]).encode() + b"\n")
    return digest.hexdigest()


def _hash_of_files(folder: Path, files: Sequence[Path]) -> str:
    lines = (f"{file_hash(file)}  {file.relative_to(folder).as_posix()}\n" for file in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _folder(name: str, kind: str) -> Path:
    """The folder itself, or that of a hub id in the cache. Nothing is downloaded."""
    if os.path.isdir(name):
        return Path(name)
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, repo_type=kind, local_files_only=True))
    except Exception:  # it has many, for a name that is no id, an empty cache and a cache without a whole snapshot
        raise NotHashed(f"{name} is neither a folder nor whole in the cache of this machine") from None
