"""Checks that the models, data sets and Python files that a command line names exist, by OpenRLHF's own rules.

Nothing is downloaded. A hub id is looked up in Hugging Face's cache if the hub is switched off (``HF_HUB_OFFLINE``);
otherwise any valid id is accepted."""

import glob
import os
from collections.abc import Callable, Mapping
from pathlib import Path

READ_AS_FILES = (".json", ".jsonl", ".csv", ".parquet", ".arrow")
"""Endings of the files that OpenRLHF reads as data."""


def is_offline(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the environment tells transformers and datasets not to use the hub."""
    wanted = environ.get("HF_HUB_OFFLINE") or environ.get("TRANSFORMERS_OFFLINE") or ""
    return wanted.upper() in ("1", "ON", "YES", "TRUE")


def model_fault(flag: str, name: str, *, offline: bool, otherwise: str = "") -> str | None:
    """One sentence if a name is neither a folder with a model nor a hub id, else None.

    Args:
        flag: the flag that names it, such as ``--actor.model_name_or_path``.
        name: a folder or a hub id.
        offline: as `is_offline`.
        otherwise: the end of the sentence if the hub is switched off: what else the command offers.
    """
    if os.path.isdir(name):
        if os.path.isfile(os.path.join(name, "config.json")):
            return None
        return f"{flag}: the folder {name} has no config.json, so transformers cannot load a model from it."
    if os.path.isfile(name):
        return f"{flag}: {name} is a file, but a model is a folder with a config.json, or a hub id."
    fix = f"give a folder, or download it once by `HF_HUB_OFFLINE=0 hf download {name}`{otherwise}"
    return _hub_fault(flag, name, "folder", f"a model {name}", _has_cached_model, offline, fix)


def data_faults(flag: str, listed: str, *, offline: bool, probabilities: str | None = None) -> list[str]:
    """One sentence for each data set that does not exist.

    Args:
        flag: the flag that names them, such as ``--data.prompt_dataset``.
        listed: data sets separated by commas, each a file, a folder or a hub id, optionally with ``@`` and a folder
            inside it.
        offline: as `is_offline`.
        probabilities: of ``--data.prompt_probs``, one for each data set, separated by commas.
    """
    names = [part.strip() for part in listed.split(",")]
    faults = [fault for name in names if (fault := _data_fault(flag, name, offline))]
    if probabilities is None:
        return faults
    try:
        count = len([float(part) for part in probabilities.split(",")])
    except ValueError:
        return [*faults, f"--data.prompt_probs is {probabilities}, but needs numbers with commas between them."]
    if count != len(names):
        faults.append(f"--data.prompt_probs has {count} numbers, but {flag} names {len(names)} data sets.")
    return faults


def python_fault(flag: str, name: str) -> str | None:
    """One sentence if a file with Python code does not exist, else None.

    Args:
        flag: the flag that names it, such as ``--train.agent_func_path``.
        name: path of the file, which has to end with ``.py`` for OpenRLHF.
    """
    if not name.endswith(".py"):
        return f"{flag}: {name} is not a Python file: its name has to end with .py."
    if not os.path.isfile(name):
        return f"{flag}: {_nothing_there(name, 'file')}."
    return None


def _data_fault(flag: str, name: str, offline: bool) -> str | None:
    if not name:
        return f"{flag} names an empty data set: remove the extra comma, or name a file or a hub id."
    where, at, inside = (part.strip() for part in name.partition("@"))
    inside = inside.split("@")[0].strip()
    ending = os.path.splitext(where)[1]
    if "://" in where:  # datasets reads URLs too
        return None
    if ending == ".py":
        return f"{flag}: {where} is a script, which `datasets` no longer runs: give its rows as a .jsonl file."
    if ending in READ_AS_FILES:
        if glob.glob(where, recursive=True) if glob.has_magic(where) else os.path.isfile(where):
            return None
        if os.path.isdir(where):
            return f"{flag}: {where} is a folder, but OpenRLHF reads names with {ending} as files: rename it."
        return f"{flag}: {_nothing_there(where, 'file')}."
    if os.path.isdir(where):
        if at and inside and not os.path.isdir(os.path.join(where, inside)):
            return f"{flag}: {_nothing_there(os.path.join(where, inside), 'folder')}."
        empty = not any(files for _, _, files in os.walk(where))
        return f"{flag}: the folder {where} has no files." if empty else None
    if os.path.isfile(where):
        endings = " ".join(READ_AS_FILES)
        return f"{flag}: {where} is a file that OpenRLHF does not read: its name has to end with one of {endings}."
    fix = "give a file, or set HF_HUB_OFFLINE=0"
    return _hub_fault(flag, where, "file or folder", f"a data set {where}", _has_cached_data, offline, fix)


def _hub_fault(
    flag: str, name: str, kind: str, what: str, is_cached: Callable[[str], bool], offline: bool, fix: str
) -> str | None:
    """One sentence for a name that is not here, if it is no hub id or, offline, if the cache does not have it."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(name)
    except HFValidationError:
        return f"{flag}: {_nothing_there(name, kind)}, and {name!r} is not a hub id (NAME or OWNER/NAME)."
    if not offline or is_cached(name):
        return None
    missing = f"the hub is switched off (HF_HUB_OFFLINE) without {what} in its cache"
    return f"{flag}: {_nothing_there(name, kind)}, and {missing}: {fix}."


def _nothing_there(name: str, kind: str) -> str:
    """``There is no file data/x.jsonl``; for a relative path, with the folder that it is relative to."""
    at = "" if os.path.isabs(name) else f" in {os.getcwd()}"
    return f"There is no {kind} {name}{at}"


def _has_cached_model(name: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(name, "config.json"), str)


def _has_cached_data(name: str) -> bool:
    """Whether the hub's files of a data set are in its cache, or the data set as `datasets` made it of them."""
    from huggingface_hub import constants

    made = Path(os.environ.get("HF_DATASETS_CACHE") or Path(constants.HF_HOME) / "datasets")
    files = Path(constants.HF_HUB_CACHE) / f"datasets--{name.replace('/', '--')}" / "snapshots"
    return files.is_dir() or (made / name.replace("/", "___")).is_dir()
