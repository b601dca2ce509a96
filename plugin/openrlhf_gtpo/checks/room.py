"""Memory of a GPU and of a node, and room on the disk: what a run takes, computed before it starts.

Memory of the training part is DeepSpeed's own estimate, what enters each layer in bfloat16, which gradient
checkpointing keeps, and logits as OpenRLHF holds them. For 1.5 B parameters with ZeRO-3 on one GPU that is 53 GiB with
micro-batches of 16,384 tokens and 78 with 32,768; measured were 48 and 67. Who sleeps leaves the GPU for page-locked
memory of the node, whose blocks torch rounds up to powers of two.

    python -m openrlhf_gtpo.checks.room LIKE FLAGS...

prints the flags that `fitted` adds; the launch scripts ask it."""

import contextlib
import io
import itertools
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openrlhf_gtpo import flags as command_line
from openrlhf_gtpo.checks import Finding
from openrlhf_gtpo.checks.machine import GIB, place_of, shares_gpus
from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.model_size import ModelSize, size_of

GPU_VARIABLE = "GPU_GB"
"""Environment variable with the memory of a GPU in GiB, for a plan on a machine without one."""
OVERHEAD = 2 * GIB
"""A CUDA context, NCCL's buffers and fragmentation on a training GPU; CUDA graphs and scratch in an engine, also while
it sleeps."""
MIB = 2**20
SUB_GROUP = 1_000_000_000
"""Parameters of one buffer of DeepSpeed's ZeRO-3 (its default ``sub_group_size``)."""
CGROUPS = Path("/sys/fs/cgroup")
MICRO_BATCHES = ((16_384, 32_768), (8_192, 12_288), (4_096, 8_192), (2_048, 4_096))
"""Tokens of a micro-batch in training and for log-probabilities, from the quickest down."""
SPARE = 2 * GIB
"""What `fitted` leaves of a GPU, which has less than its name says: of 24 GB 22.5 GiB."""

Flags = Mapping[str, Any]


def check(flags: Flags) -> Iterator[Finding]:
    """Whether the run fits the memory of the GPUs and of a node, and the disk."""
    yield from _fits_the_gpu(flags)
    yield from _fits_the_node(flags)
    yield from _fits_the_disk(flags)


@dataclass(frozen=True)
class Memory:
    """Upper bounds for responses of full length, in bytes on one GPU."""

    has: float
    states: float
    """Weights, gradients and optimizer."""
    inputs: float
    """Of the layers, which gradient checkpointing keeps; 0 without it, where layers keep far more."""
    logits: float
    training: float
    """All three, with overhead."""
    cache: float
    """What an engine has for keys and values."""
    responses: int
    """Of full length that the cache of an engine holds at once."""
    beside: float
    """What an engine keeps of the GPU while the policy trains."""


def ranks(flags: Flags) -> int:
    """GPUs that the policy is trained on."""
    return int(flags["actor.num_nodes"] * flags["actor.num_gpus_per_node"])


def memory_of(flags: Flags) -> Memory | None:
    """None on a CPU, and where the model's config.json is not on this machine.

    Raises:
        SettingsError: GPU_GB is not a number above 0.
    """
    size = size_of(str(flags["actor.model_name_or_path"])) if flags["device"] == "gpu" else None
    if size is None:
        return None
    has, length, each = _gpu_bytes(), flags["data.max_len"], flags["vllm.tensor_parallel_size"]
    states = training_bytes(size, flags["ds.zero_stage"], ranks(flags))
    if flags["ds.adam_offload"]:
        states -= 12 * size.parameters / ranks(flags)
    trained, forward = (flags[f"{part}.micro_batch_size"] * length for part in ("train", "rollout"))
    if flags["train.dynamic_batch_enable"]:  # at least the longest response, which is not cut
        trained = max(length, flags["train.max_tokens_per_gpu"])
        forward = max(length, flags["rollout.max_tokens_per_gpu"] or flags["train.max_tokens_per_gpu"])
    inputs = 2.0 * size.layer_inputs * trained * flags["actor.gradient_checkpointing_enable"]
    logits = max(10.0 * trained, 6.0 * forward) * size.vocabulary  # bfloat16, a float32 copy, gradients of both
    share = flags["vllm.gpu_memory_utilization"] * has
    cache = max(0.0, share - 2 * size.parameters / each - OVERHEAD)
    return Memory(
        has=has,
        states=states,
        inputs=inputs,
        logits=logits,
        training=states + inputs + logits + OVERHEAD,
        cache=cache,
        responses=int(cache * each / (size.cache_bytes * length)),
        beside=(OVERHEAD if flags["vllm.enable_sleep"] else share) if shares_gpus(flags) else 0.0,
    )


def training_bytes(size: ModelSize, stage: int, ranks: int) -> float:
    """Weights, gradients and Adam's states on one GPU, as DeepSpeed estimates them without offloading; for stages 0
    and 1 as if nothing were shared, which is too much for stage 1."""
    if stage >= 3:
        return 4 * size.largest_layer + 18 * size.parameters / ranks
    return 2 * size.parameters + 18 * size.parameters / (ranks if stage == 2 else 1)


def _gpu_bytes() -> float:
    """Memory of a GPU: of this machine's smallest, else the value of GPU_GB, else 80 GiB."""
    import torch

    if count := torch.cuda.device_count():
        return float(min(torch.cuda.get_device_properties(i).total_memory for i in range(count)))
    given = os.environ.get(GPU_VARIABLE) or "80"
    try:
        size = float(given)
    except ValueError:
        size = 0
    if not size > 0:
        raise SettingsError(f"{GPU_VARIABLE} is {given}, but the memory of a GPU is a number of GiB above 0.")
    return size * GIB


def fitted(flags: Flags, like: str) -> list[str]:
    """What fits a run to its GPUs, which engines and policy share: as many engines as they hold, the largest
    micro-batches that leave `SPARE`, and Adam's state in the node's memory where none does with it on the GPUs.

    Args:
        flags: flat; parsed.
        like: the model whose size counts where that of the policy is not known.

    Raises:
        SettingsError: the GPUs do not divide into engines, or GPU_GB is not a number above 0.
    """
    each, gpus = flags["vllm.tensor_parallel_size"], ranks(flags)
    if gpus % each:
        nodes = f"{flags['actor.num_nodes']} x {flags['actor.num_gpus_per_node']}"
        raise SettingsError(f"{nodes} GPUs do not divide into vLLM engines of {each}: change NODES or GPUS.")
    if size_of(flags["actor.model_name_or_path"]) is None:
        flags = {**flags, "actor.model_name_or_path": like}
    offloads = [True] if flags["ds.adam_offload"] else [False, True]
    for offload, (train, rollout) in itertools.product(offloads, MICRO_BATCHES):
        tokens = {"train.max_tokens_per_gpu": train, "rollout.max_tokens_per_gpu": rollout}
        memory = memory_of({**flags, **tokens, "ds.adam_offload": offload})
        if memory is not None and memory.training + memory.beside + SPARE <= memory.has:
            break
    # An offloaded policy does not sleep: weights and gradients stay beside the engine. One that does keeps its weights
    # there, of ZeRO-3 a share.
    engine = 0.6 if offload else 0.8 if flags["ds.zero_stage"] == 3 else 0.75
    words = [f"--{name}={count}" for name, count in tokens.items()]
    words += ["--ds.adam_offload" if offload else "--ds.enable_sleep", f"--vllm.gpu_memory_utilization={engine}"]
    return [*words, f"--vllm.num_engines={gpus // each}"]


def _fits_the_gpu(flags: Flags) -> Iterator[Finding]:
    memory = memory_of(flags)
    if memory is None:
        return
    least = memory.states + OVERHEAD + memory.beside
    most = f"at most {(memory.training + memory.beside) / GIB:.1f} GiB"
    has = f"of a GPU's {memory.has / GIB:.1f}"
    stage = " or --ds.zero_stage 3" if flags["ds.zero_stage"] < 3 else ""
    sleep = " or --vllm.enable_sleep" if memory.beside > OVERHEAD else ""
    fix = f"more GPUs{stage} or --ds.adam_offload{sleep}"
    if least > memory.has:
        needs = f"{least / GIB:.1f} GiB {has} for weights, gradients and optimizer alone"
        yield Finding("memory", "fault", f"Training needs {needs}: {fix}.")
    elif memory.training + memory.beside > memory.has:
        yield Finding("memory", "warning", f"Training may not fit: {most} {has}: smaller micro-batches or {fix}.")
    else:
        yield Finding("memory", "ok", f"Training takes {most} {has}.")
    if memory.responses < 1:
        fix = "raise --vllm.gpu_memory_utilization or --vllm.tensor_parallel_size"
        yield Finding("memory", "warning", f"An engine has no room for a response of full length: {fix}.")


def pinned_bytes(flags: Flags) -> tuple[float, float] | None:
    """Memory of a node for engines that sleep, and for the trainers' optimizer that sleeps or is offloaded, nearly all
    of it page-locked; None where `memory_of` is None.

    vLLM takes a block for each segment of its weights: of their own, in whole 2 MiB, from 10 MiB up; shared ones of 20
    and 2 MiB below that and below 1 MiB."""
    size = size_of(str(flags["actor.model_name_or_path"])) if flags["device"] == "gpu" else None
    if size is None:
        return None
    nodes, on_a_node = flags["actor.num_nodes"], flags["actor.num_gpus_per_node"]
    each, engine, policy = flags["vllm.tensor_parallel_size"], 0, 0
    if flags["vllm.enable_sleep"]:
        weights = [2 * count // each for count in size.weights]
        segments = [-(-one // (2 * MIB)) * 2 * MIB for one in weights if one >= 10 * MIB]
        for low, high, segment in ((MIB, 10 * MIB, 20 * MIB), (0, MIB, 2 * MIB)):
            segments += [segment] * -(-sum(one for one in weights if low <= one < high) // segment)
        engine = sum(map(_power_of_two, segments)) * -(-flags["vllm.num_engines"] * each // nodes)
    own = -(-size.parameters // (ranks(flags) if flags["ds.zero_stage"] else 1))
    if flags["ds.adam_offload"]:  # the moments are not page-locked
        policy = (8 * own + 2 * _power_of_two(4 * own)) * on_a_node
    elif flags["ds.enable_sleep"]:
        parts = [SUB_GROUP] * (own // SUB_GROUP) + [own % SUB_GROUP] if flags["ds.zero_stage"] == 3 else [own]
        policy = (3 * sum(_power_of_two(4 * part) for part in parts) + _power_of_two(2 * own)) * on_a_node
    return float(engine), float(policy)


def _power_of_two(size: int) -> int:
    return 1 << max(0, size - 1).bit_length()


def node_bytes() -> float | None:
    """Memory of this node, or what its container or job may have of it; None where torch sees no GPU, since the run is
    then for another machine."""
    import torch

    if not torch.cuda.device_count():
        return None
    return float(min([os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), *limits_of_cgroups()]))


def limits_of_cgroups(own: Path = Path("/proc/self/cgroup")) -> Iterator[int]:
    """Bytes that this process's control groups and those above them may have, of version 1 or 2.

    Args:
        own: the file that names the groups of a process.
    """
    for line in own.read_text(encoding="utf-8").splitlines() if own.is_file() else ():
        _, controllers, name = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root, file = (CGROUPS / "memory", "memory.limit_in_bytes") if controllers else (CGROUPS, "memory.max")
        group = root / name.lstrip("/")
        for folder in (group, *group.parents):
            with contextlib.suppress(OSError, ValueError):  # "max", or not there, as the root of version 2
                yield int((folder / file).read_text())


def _fits_the_node(flags: Flags) -> Iterator[Finding]:
    pinned, has = pinned_bytes(flags), node_bytes()
    if pinned is None or has is None or not sum(pinned):
        return
    needs = f"pins about {sum(pinned) / GIB:.0f} GiB of the node's memory, of which {has / GIB:.0f} may be used"
    if sum(pinned) > 0.9 * has:
        fix = "use a node with more, more nodes, or no --vllm.enable_sleep with a GPU of its own for each engine"
        yield Finding("memory of the node", "warning", f"Sleep {needs}, and its processes need room too: {fix}.")
    else:
        yield Finding("memory of the node", "ok", f"Sleep {needs}.")


def checkpoint_bytes(flags: Flags) -> float | None:
    """Of one checkpoint: of each parameter the weight in bfloat16, DeepSpeed's float32 copy and Adam's two moments; 0
    without any, None where the model's size is not known."""
    if flags["ckpt.save_steps"] <= 0:
        return 0.0
    size = size_of(str(flags["actor.model_name_or_path"]))
    return None if size is None else 14.0 * size.parameters


def free_bytes(folder: str) -> float:
    """On the disk of a folder that need not be there yet."""
    return float(shutil.disk_usage(place_of(Path(folder))).free)


def _fits_the_disk(flags: Flags) -> Iterator[Finding]:
    """Checkpoints that are there already make room for new ones."""
    each, folder = checkpoint_bytes(flags), flags["ckpt.path"]
    if not each:
        return
    there = sum(file.stat().st_size for file in Path(folder, "_actor").rglob("*") if file.is_file())
    needed, free = max(0.0, each * flags["ckpt.max_num"] - there), free_bytes(folder)
    kept = f"{flags['ckpt.max_num']:,} checkpoint(s) of {each / 1e9:,.1f} GB"
    if needed <= free:
        yield Finding("checkpoints", "ok", f"The disk of {folder} has room for {kept}.")
        return
    yield Finding(
        "checkpoints",
        "fault",
        f"{kept} do not fit the disk of {folder}, which has {free / 1e9:,.0f} GB free: keep fewer by --ckpt.max_num, "
        "name a folder on another disk by --ckpt.path, or write none by --ckpt.save_steps -1.",
    )


def main(words: Sequence[str]) -> int:
    """The flags of `fitted`, on a line, for a model and the words of a command line; none where training will say what
    is wrong with the words, or print its help."""
    with contextlib.redirect_stdout(io.StringIO()):  # of help, and of a model's own program
        try:
            flags = vars(command_line.parse([*words[1:], "--device", "gpu"]))
        except SettingsError:
            return 0
        try:
            added = fitted(flags, words[0])
        except SettingsError as error:
            print(error, file=sys.stderr)
            return 2
    print(*added)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
