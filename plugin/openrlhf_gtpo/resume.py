"""What a checkpoint is of: a small file in its folder, by which a resume knows before it starts whether it goes on
with the same.

A resume restores the policy, the optimizer with its own settings (`kept`), the step of the learning rate's schedule,
and the place in the order of the prompts, which is drawn for a number of rows. All else is of the new command, the
schedule's shape and length too, but has to be of the same `FORM`."""

import hashlib
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

FILE = "openrlhf_gtpo.json"
PREFIX = "global_step"
"""Before the step in a checkpoint's name; ``best_`` may stand before it."""
UNIVERSAL = "_universal"
"""Behind it, where DeepSpeed's ds_to_universal.py has made it fit any number of processes and stage of ZeRO."""
SCHEDULE = ["actor.lr_scheduler", "actor.lr_warmup_ratio", "actor.min_lr_ratio", "train.max_steps"]
SCHEDULE += ["train.num_episodes", "train.max_epochs", "train.batch_size", "rollout.n_samples_per_prompt"]
"""Flags that decide the learning rate's schedule, beside the number of prompts."""
FORM = ["ds.zero_stage", "ds.param_dtype", "ds.tensor_parallel_size", "ds.load_in_4bit", "ds.lora.rank"]
FORM += ["ds.lora.alpha", "ds.lora.target_modules", "actor.optim", "data.dataloader_num_workers"]
"""Flags with other values of which DeepSpeed, peft or the data loader cannot load a checkpoint, or load another
policy."""
ESTIMATOR = "algo.advantage.estimator"
LEARNED = ("actor.", "algo.", "critic.", "data.", "ds.", "guide.", "reward.", "rollout.", "shaping.", "train.")
"""Groups of flags that decide what is learned: the rest of them may change, and are named."""
CARRIED = [f"reward.{name}" for name in ("deadline", "timeout", "ca_file", "batch_size", "max_in_flight", "offload")]
CARRIED += ["reward.num_nodes", "reward.num_gpus_per_node", "guide.engines", "guide.tensor_parallel_size"]
CARRIED += ["ds.use_universal_ckpt"]
"""Flags of these that only decide how and where."""
ELSEWHERE = ["actor.model_name_or_path", "critic.model_name_or_path", "data.prompt_dataset", "train.agent_func_path"]
ELSEWHERE += ["actor.num_nodes", "actor.num_gpus_per_node", "data.max_samples", "reward.remote_url"]
"""Those that are compared by what they mean."""
_WEIGHTS = re.compile(r"^config\.json$|\.(safetensors|bin)$")
_TOKENIZER = re.compile(r"token|vocab|merges|template")
PIECES, PIECE = 16, 2**16
"""How many pieces of a file of weights are compared, and their bytes: an update changes weights everywhere."""

Flags = Mapping[str, Any]


def kept(flags: Flags) -> list[str]:
    """Flags that a resume ignores: DeepSpeed has their values in the checkpoint's optimizer."""
    adam = [f"actor.adam.{name}" for name in ("lr", "betas", "eps", "weight_decay")]
    return [*adam, "actor.muon.lr", "actor.muon.momentum", *["actor.max_norm"] * (flags["ds.zero_stage"] < 3)]


def newest(folder: str, pointer: str = "latest") -> Path | None:
    """The checkpoint in a ``--ckpt.path`` that a resume goes on from; None if there is none."""
    try:
        name = Path(folder, "_actor", pointer).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return Path(folder, "_actor", name) if name else None


def latest_step(folder: str) -> int | None:
    """The step of the checkpoint that a resumed run would continue from; None if there is none."""
    checkpoint = newest(folder)
    try:
        return step_of(checkpoint.name) if checkpoint else None
    except ValueError:
        return None


def step_of(name: str) -> int:
    """Of a checkpoint, by its name."""
    return int(name.rpartition(PREFIX)[2].removesuffix(UNIVERSAL))


def saved_at(folder: str) -> int | None:
    """When the last checkpoint was written, by the clock of its disk."""
    pointer = Path(folder, "_actor", "latest")
    return pointer.stat().st_mtime_ns if pointer.exists() else None


def record(flags: Flags, rows: Sequence[bytes] | None) -> dict[str, Any]:
    """What the checkpoints of a run are of, as `FILE` has it.

    Args:
        flags: flat; the `kept` ones as they are in force.
        rows: a digest of each prompt and label; None where they are not read here.
    """
    model, estimator = str(flags["actor.model_name_or_path"]), flags[ESTIMATOR]
    settings = {name: flags[name] for name in flags if name.startswith(LEARNED) and name not in ELSEWHERE + CARRIED}
    settings[ESTIMATOR] = os.path.abspath(estimator) if ".py:" in estimator else estimator
    function = flags["reward.remote_url"] or ""  # of services the next may be another, which grades alike
    settings["reward.remote_url"] = os.path.abspath(function) if function.endswith(".py") else None
    made = {
        "openrlhf_gtpo": version("openrlhf-gtpo"),
        "model": {"name": os.path.abspath(model) if os.path.isdir(model) else model, "sha256": _content(model)}
        | {"tokenizer": _content(model, _TOKENIZER)},
        "data": {"name": flags["data.prompt_dataset"], "rows": rows and len(rows), "sha256": rows and _digest(rows)},
        "ranks": flags["actor.num_nodes"] * flags["actor.num_gpus_per_node"],
        "settings": settings,
    }
    return dict(json.loads(json.dumps(made)))


def read(checkpoint: Path) -> dict[str, Any]:
    """The record of a checkpoint; empty for one that was written without."""
    try:
        made = checkpoint.with_name(checkpoint.name.removesuffix(UNIVERSAL))
        return dict(json.loads((made / FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def in_force(flags: Flags) -> dict[str, Any]:
    """Values of the `kept` flags, None where a checkpoint does not tell; empty for a run that starts over."""
    checkpoint = newest(flags["ckpt.path"]) if flags["ckpt.load_enable"] else None
    if checkpoint is None:
        return {}
    settings = read(checkpoint).get("settings", {})
    return {name: settings.get(name) for name in kept(flags)}


def differences(
    checkpoint: Path, flags: Flags, rows: Sequence[bytes] | None
) -> Iterator[tuple[Literal["fault", "warning"], str]]:
    """What a command line has otherwise than the checkpoint that it is to go on from: ``fault`` where DeepSpeed or the
    data loader would fail or another run would begin in the middle, ``warning`` where it may be meant."""
    was, now = read(checkpoint), record(flags, rows)
    over = "start over without --ckpt.load_enable and with another --ckpt.path"
    # Each rank of ZeRO writes its part of the optimizer; without ZeRO any number may go on.
    ranks = was.get("ranks") or len(list(checkpoint.glob("*_optim_states.pt")))
    if ranks and ranks != now["ranks"] and not flags["ds.use_universal_ckpt"]:
        yield (
            "fault",
            f"{checkpoint} is of {ranks} training process(es), and --actor.num_nodes times --actor.num_gpus_per_node "
            f"are {now['ranks']}: train on {ranks}, or {over}.",
        )
    if not was:
        yield (
            "warning",
            f"{checkpoint} has no {FILE}, as those of older versions: make sure yourself that its model, data, "
            "estimator and learning rate are this command's.",
        )
        return
    old, new = was["model"], now["model"]
    by = "sha256" if old["sha256"] and new["sha256"] else "name"
    if old[by] != new[by]:
        yield (
            "fault",
            f"--actor.model_name_or_path {new['name']} is not the model of {checkpoint}, which is {old['name']} as it "
            f"was then: name that one, or {over}.",
        )
    elif None not in (before := old.get("tokenizer"), new["tokenizer"]) and before != new["tokenizer"]:
        yield (
            "warning",
            f"The tokenizer or the chat template of {new['name']} is not as it was for {checkpoint}, so that prompts "
            "are other ones from here on: give the files from before if no change is meant.",
        )
    old, new = was["data"], now["data"]
    longer = False
    if rows and old["rows"]:
        longer = len(rows) > old["rows"]
        if _digest(rows[: old["rows"]]) != old["sha256"]:
            yield (
                "fault",
                f"--data.prompt_dataset {new['name']} ({len(rows):,} rows) is not the data of {checkpoint}, which is "
                f"{old['name']} as it was then ({old['rows']:,} rows): give that, with the same --data.max_samples, "
                f"or {over}.",
            )
        elif longer:
            yield (
                "warning",
                f"--data.prompt_dataset {new['name']} has {len(rows):,} rows, and had {old['rows']:,}: their order is "
                "drawn again, so that some prompts of this pass come again and others in a later one.",
            )
    yield from _of_settings(checkpoint, flags, was["settings"], now["settings"], longer)
    steps = [flags["train.max_steps"]] if flags["train.max_steps"] else []
    if rows and not flags["data.prompt_probs"]:
        steps.append(math.ceil(len(rows) * flags["train.num_episodes"] / flags["rollout.batch_size"]))
    if steps and (latest_step(flags["ckpt.path"]) or 0) >= min(steps):
        yield (
            "warning",
            f"{checkpoint} has all {min(steps)} steps of this command, so that nothing is trained: raise "
            "--train.num_episodes or --train.max_steps.",
        )


def _of_settings(
    checkpoint: Path, flags: Flags, old: Flags, new: Flags, longer: bool
) -> Iterator[tuple[Literal["fault", "warning"], str]]:
    changed = [name for name in new if old.get(name, new[name]) != new[name]]
    alike = {old.get("ds.zero_stage"), new["ds.zero_stage"]} == {1, 2}
    if "ds.zero_stage" in changed and (alike or flags["ds.use_universal_ckpt"]):
        changed.remove("ds.zero_stage")

    def listed(names: Sequence[str]) -> list[str]:
        return [f"--{name} {new[name]}, before {old[name]}" for name in names if name in changed]

    if form := listed(FORM):
        yield "fault", f"{checkpoint} cannot be loaded with {'; '.join(form)}: give those from before."
    for name in kept(flags):
        if name in changed and old[name] is not None:
            yield "warning", f"--{name} {new[name]} is ignored: a resume keeps the checkpoint's, {old[name]}."
    if schedule := [*listed(SCHEDULE), *["more rows"] * longer]:
        yield (
            "warning",
            "The schedule of the learning rate is laid over this command's steps "
            f"({'; '.join(schedule)}), so that the rate may jump.",
        )
    said = {*FORM, *SCHEDULE, *kept(flags), *["actor.max_norm"] * (flags["ds.zero_stage"] == 3)}
    if others := listed([name for name in changed if name not in said]):
        yield "warning", f"From here on it is {'; '.join(others)}: give those from before if no change is meant."


def _digest(rows: Sequence[bytes]) -> str:
    return hashlib.sha256(b"".join(rows)).hexdigest()


def _content(model: str, names: re.Pattern[str] = _WEIGHTS) -> str | None:
    """Of files of a folder, wherever it lies; None for a hub id, which its name tells."""
    if not os.path.isdir(model):
        return None
    digest = hashlib.sha256()
    for path in sorted(Path(model).iterdir()):
        if names.search(path.name):
            size = path.stat().st_size
            digest.update(f"{path.name} {size}\n".encode())
            with path.open("rb") as file:
                for number in range(PIECES):
                    file.seek(size * number // PIECES)
                    digest.update(file.read(PIECE))
    return digest.hexdigest()
