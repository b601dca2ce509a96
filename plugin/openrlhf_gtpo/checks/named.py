"""The models, data sets and programs that a command line names: whether they exist, by OpenRLHF's own rules. A
model's hub id is looked up in Hugging Face's cache if the hub is switched off (``HF_HUB_OFFLINE``); otherwise any
valid id is accepted."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from openrlhf_gtpo.data.sources import READERS, DataUnusable, files_of, names_of, reader_of, where_and_inside


def faults(flags: Mapping[str, Any]) -> Iterator[str]:
    """One sentence for each that the run would use and that is not there."""
    offline = _offline() and not flags["use_ms"]  # ModelScope has a cache of its own
    if not flags["actor.model_name_or_path"]:
        yield "No --actor.model_name_or_path: name the policy, a folder or a hub id."
    if not flags["data.prompt_dataset"]:
        yield "No --data.prompt_dataset: name the prompts, such as a .jsonl file."
    wanted = ["actor", "guide"]
    if flags["algo.advantage.estimator"] == "gae":
        wanted.append("critic")
    if not (flags["reward.remote_url"] or flags["train.agent_func_path"]):
        wanted.append("reward")
    for role in wanted:
        flag = "guide.model" if role == "guide" else f"{role}.model_name_or_path"
        if flags[flag] and (sentence := _model(flag, flags[flag], offline)):
            planned = flags["dry_run"] and flags["device"] == "cpu"
            yield f"{sentence.rstrip('.')}; --device gpu plans for GPUs without it." if planned else sentence
    for flag in ("data.prompt_dataset", "eval.dataset"):
        for name in names_of(flags[flag]):
            if sentence := _data(flag, name):
                listed = "," in flags[flag] or "@" in flags[flag]
                yield f"{sentence} A comma separates data sets, and @ a folder inside one." if listed else sentence
    shares = flags["data.prompt_probs"]
    if shares and shares.count(",") + 1 != len(names_of(flags["data.prompt_dataset"])):
        yield f"--data.prompt_probs is {shares}, but needs one number for each data set of --data.prompt_dataset."
    programs = {"train.agent_func_path": flags["train.agent_func_path"]}
    first = (flags["reward.remote_url"] or "").split(",")[0]  # OpenRLHF looks at the first only
    if first.endswith(".py"):
        programs["reward.remote_url"] = first
    for flag, name in programs.items():
        if name and not name.endswith(".py"):
            yield f"--{flag}: {name} is not a Python file: its name has to end with .py."
        elif name and not os.path.isfile(name):
            yield f"--{flag}: {_nothing(name, 'file')}."


def _offline() -> bool:
    """Whether the environment tells transformers and datasets not to use the hub."""
    wanted = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return wanted.upper() in ("1", "ON", "YES", "TRUE")


def _model(flag: str, name: str, offline: bool) -> str | None:
    if os.path.isdir(name):
        if os.path.isfile(os.path.join(name, "adapter_config.json")):
            return (
                f"--{flag}: {name} is a LoRA adapter, not a model: merge it, as docs/training.md#lora does, and name "
                "the merged one."
            )
        if os.path.isfile(os.path.join(name, "config.json")):
            return None
        return f"--{flag}: the folder {name} has no config.json, so transformers cannot load a model from it."
    if os.path.isfile(name):
        return f"--{flag}: {name} is a file, but a model is a folder with a config.json, or a hub id."
    from huggingface_hub import try_to_load_from_cache

    if not _is_hub_id(name):
        return f"--{flag}: {_nothing(name, 'folder')}, and {name!r} is not a hub id (NAME or OWNER/NAME)."
    if not offline or isinstance(try_to_load_from_cache(name, "config.json"), str):
        return None
    return (
        f"--{flag}: {_nothing(name, 'folder')}, and the hub is switched off (HF_HUB_OFFLINE) without it in its cache: "
        f"give a folder, or download it once by `HF_HUB_OFFLINE=0 hf download {name}`."
    )


def _data(flag: str, name: str) -> str | None:
    if not name:
        return f"--{flag} names an empty data set: remove the extra comma, or name a file or a hub id."
    where, inside = where_and_inside(name)
    ending = os.path.splitext(where)[1].lower()
    if "://" in where:  # datasets reads URLs too
        return None
    if files := files_of(where):
        try:
            for path in files:
                reader_of(path)
        except DataUnusable as error:
            return f"--{flag}: {error}"
        return None
    if ending in READERS:
        return f"--{flag}: {_nothing(where, 'file')}."
    if os.path.isdir(where):
        inner = os.path.join(where, inside or "")
        return None if os.path.isdir(inner) else f"--{flag}: {_nothing(inner, 'folder')}."
    if not _is_hub_id(where):
        return f"--{flag}: {_nothing(where, 'file or folder')}, and {where!r} is not a hub id (NAME or OWNER/NAME)."
    return None


def _is_hub_id(name: str) -> bool:
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(name)
    except HFValidationError:
        return False
    return True


def _nothing(name: str, kind: str) -> str:
    """``There is no file data/x.jsonl``; for a relative path, with the folder that it is relative to."""
    at = "" if os.path.isabs(name) else f" in {os.getcwd()}"
    return f"There is no {kind} {name}{at}"
