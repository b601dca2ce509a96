"""The models, data sets and programs that a command line names: whether they exist, by OpenRLHF's own rules. A
model's hub id is looked up in Hugging Face's cache if the hub is switched off (``HF_HUB_OFFLINE``); otherwise any
valid id is accepted."""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from openrlhf_gtpo.checks.programs import programs
from openrlhf_gtpo.data.sources import DataUnusable, files_of, names_of, no_hub_id, not_there, nothing, reader_of

POINTER = b"version https://git-lfs"
"""With which a file begins that Git LFS has not fetched."""


def faults(flags: Mapping[str, Any]) -> Iterator[str]:
    """One sentence for each that the run would use and that is not there."""
    models = ["actor.model_name_or_path", "guide.model"]
    if flags["algo.advantage.estimator"] == "gae":
        models.append("critic.model_name_or_path")
    if not (flags["reward.remote_url"] or flags["train.agent_func_path"]):
        models.append("reward.model_name_or_path")
    no_hub = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    offline = no_hub.upper() in ("1", "ON", "YES", "TRUE") and not flags["use_ms"]  # ModelScope has its own cache
    for flag in models:
        if flags[flag] and (sentence := _model(flag, flags[flag], offline)):
            planned = flags["dry_run"] and flags["device"] == "cpu"
            yield f"{sentence}{'; --device gpu plans for GPUs without it' if planned else ''}."
    for flag in ("data.prompt_dataset", "eval.dataset"):
        for name in names_of(flags[flag]):
            if sentence := _data(flag, name):
                listed = "," in flags[flag] or "@" in flags[flag]
                yield f"{sentence} A comma separates data sets, and @ a folder inside one." if listed else sentence
    shares = flags["data.prompt_probs"]
    if shares and shares.count(",") + 1 != len(names_of(flags["data.prompt_dataset"])):
        yield f"--data.prompt_probs is {shares}, but needs one number for each data set of --data.prompt_dataset."
    for flag, (path, _) in programs(flags).items():
        if not path.endswith(".py"):
            yield f"--{flag}: {path} is not a Python file: its name has to end with .py."
        elif not os.path.isfile(path):
            yield f"--{flag}: {nothing(path, 'file')}."


def _model(flag: str, name: str, offline: bool) -> str | None:
    """A sentence without its end."""
    if os.path.isfile(os.path.join(name, "adapter_config.json")):
        return f"--{flag}: {name} is a LoRA adapter, not a model: merge it first, as docs/training.md#lora does"
    if os.path.isfile(os.path.join(name, "config.json")):
        return _incomplete(flag, Path(name))
    if os.path.isdir(name):
        return f"--{flag}: the folder {name} has no config.json, so that there is no model in it"
    if os.path.isfile(name):
        return f"--{flag}: {name} is a file, but a model is a folder with a config.json, or a hub id"
    if wrong := no_hub_id(name, "folder"):
        return f"--{flag}: {wrong}"
    from huggingface_hub import try_to_load_from_cache

    cached = try_to_load_from_cache(name, "config.json")
    if not offline:  # the hub gives what is missing
        return None
    if isinstance(cached, str):
        return _incomplete(flag, Path(cached).parent)
    off = "the hub is switched off (HF_HUB_OFFLINE) without it in its cache"
    return f"--{flag}: {nothing(name, 'folder')}, and {off}: `HF_HUB_OFFLINE=0 hf download {name}`"


def _incomplete(flag: str, folder: Path) -> str | None:
    """What a download or a clone has left out, of which transformers tells only as it loads: a sentence without its
    end."""
    files = {path.name for path in folder.iterdir()}
    lacking = set[str]()
    for index in folder.glob("*.index.json"):
        with contextlib.suppress(ValueError, TypeError, KeyError):
            lacking |= {*json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()} - files
    for path in folder.iterdir():
        if path.suffix in (".safetensors", ".bin", ".json", ".model") and path.is_file():
            with path.open("rb") as file:
                lacking |= {path.name} if file.read(len(POINTER)) == POINTER else set()
    if not lacking:
        return None
    named = f"{min(lacking)}{f' and {len(lacking) - 1} more' if len(lacking) > 1 else ''}"
    return f"--{flag}: {folder} lacks {named}, which its index or a pointer of Git LFS names: download it again"


def _data(flag: str, name: str) -> str | None:
    if not name:
        return f"--{flag} names an empty data set: remove the extra comma, or name a file or a hub id."
    if wrong := not_there(name):
        return f"--{flag}: {wrong}."
    try:
        for path in files_of(name):
            reader_of(path)
    except DataUnusable as error:
        return f"--{flag}: {error}"
    return None
