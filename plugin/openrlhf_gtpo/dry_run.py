"""``--dry-run``: the plan of a run, computed here. It starts nothing, and needs no GPU.

Memory of the training part is DeepSpeed's own estimate (`estimate_zero2_model_states_mem_needs` and
`estimate_zero3_model_states_mem_needs`): for N ranks, P parameters and L in the largest layer, 2 P + 18 P / N bytes in
ZeRO-2, 4 L + 18 P / N in ZeRO-3, and logits as OpenRLHF holds them, 10 bytes for each token of a micro-batch and entry
of the vocabulary (bfloat16, a float32 copy, and the gradients of both). An engine has what its share of a GPU leaves
beside 2 bytes a parameter."""

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from openrlhf_gtpo import flags as command_line
from openrlhf_gtpo.checks.machine import shares_gpus
from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.model_size import ModelSize, size_of

GIB = 2**30
GPU_VARIABLE = "GPU_GB"
"""Environment variable with the memory of a GPU in GiB, for a plan on a machine without one."""
OVERHEAD = 2 * GIB
"""A CUDA context, NCCL's buffers and fragmentation on a training GPU; CUDA graphs and scratch in an engine."""
CHECKPOINT_BYTES = 14
"""Of a parameter in a checkpoint: the weight in bfloat16, DeepSpeed's float32 copy and Adam's two moments."""

Flags = Mapping[str, Any]
Row = tuple[str, str]


def plan(flags: Flags) -> str:
    """What would run, as a table of two columns, then every flag that is not at its default.

    Args:
        flags: flat, as checked.
    """
    rows = [*_batch(flags), *_machines(flags), *_memory(flags), *_data(flags), *_disk(flags)]
    width = max(len(name) for name, _ in rows)
    changed = sorted(_changed(flags).items())
    lines = [f"{name:<{width}}  {text}" for name, text in rows]
    return "\n".join([*lines, "", "flags that are not at their defaults:", *(f"  --{n} {v}" for n, v in changed)])


def _changed(flags: Flags) -> dict[str, str]:
    """Flags with other values than OpenRLHF's and our defaults -> their values, as on a command line."""
    defaults = vars(command_line.parser().parse_args([]))
    written = {}
    for name, default in defaults.items():
        value = flags[name]
        if value != default and name not in ("device", "dry_run", "config"):
            listed = " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            written[name] = "" if value is True else listed
    return written


def _batch(flags: Flags) -> Iterator[Row]:
    prompts, samples = flags["rollout.batch_size"], flags["rollout.n_samples_per_prompt"]
    updates = prompts * samples / flags["train.batch_size"] * flags["train.max_epochs"]
    most, answer = flags["train.max_steps"], flags["rollout.max_new_tokens"]
    yield "estimator", flags["algo.advantage.estimator"]
    yield "a step", f"{prompts:,} prompts x {samples} responses = {prompts * samples:,}"
    if flags["guide.model"]:
        yield "guide", f"{flags['guide.model']}, {flags['guide.samples']} more for {' and '.join(flags['guide.when'])}"
    yield "updates", f"{updates:g} a step, of {flags['train.batch_size']:,} responses"
    yield "steps", "until the prompts are used up" if most is None else f"{most:,} at most"
    of_them = "" if answer is None else f", {answer:,} of them a response's"
    yield "lengths", f"up to {flags['data.max_len']:,} tokens{of_them}"


def _machines(flags: Flags) -> Iterator[Row]:
    ranks, kind = _ranks(flags), "GPU" if flags["device"] == "gpu" else "process"
    yield "training", f"{ranks} {kind}(s), ZeRO stage {flags['ds.zero_stage']}, {flags['ds.param_dtype']}"
    yield (
        "generation",
        f"{flags['vllm.num_engines']} engine(s) of {flags['vllm.tensor_parallel_size']} {kind}(s), "
        f"{command_line.responses_at_once(flags):,} responses at once in each",
    )


def _ranks(flags: Flags) -> int:
    return flags["actor.num_nodes"] * flags["actor.num_gpus_per_node"]


def training_bytes(size: ModelSize, stage: int, ranks: int) -> float:
    """Weights, gradients and Adam's states on one GPU, as DeepSpeed estimates them without offloading; for stages 0
    and 1 as if nothing were shared, which is too much for stage 1."""
    if stage >= 3:
        return 4 * size.largest_layer + 18 * size.parameters / ranks
    return 2 * size.parameters + 18 * size.parameters / (ranks if stage == 2 else 1)


def gpu_bytes() -> float:
    """Memory of a GPU: of this machine's smallest, else the value of GPU_GB, else 80 GiB.

    Raises:
        SettingsError: GPU_GB is not a number above 0.
    """
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


def _memory(flags: Flags) -> Iterator[Row]:
    """Upper bounds for responses of full length."""
    if flags["device"] == "cpu":
        yield "memory", f"not estimated on a CPU; --device gpu plans for GPUs, {GPU_VARIABLE}=80 says how large"
        return
    size = size_of(str(flags["actor.model_name_or_path"]))
    if size is None:
        yield "memory", "not known: the model's config.json is not on this machine"
        return
    has, length = gpu_bytes(), flags["data.max_len"]
    states = training_bytes(size, flags["ds.zero_stage"], _ranks(flags))
    if flags["ds.adam_offload"]:
        states -= 12 * size.parameters / _ranks(flags)
    logits = 10.0 * flags["train.micro_batch_size"] * length * size.vocabulary
    logits = max(logits, 6.0 * flags["rollout.micro_batch_size"] * length * size.vocabulary)  # without gradients
    training, together = states + logits + OVERHEAD, shares_gpus(flags)
    parts = f"{states / GIB:.1f} weights, gradients and optimizer, {logits / GIB:.1f} logits"
    yield "memory", f"at most {training / GIB:.1f} GiB of a GPU's {has / GIB:.1f} for training: {parts}"
    each = flags["vllm.tensor_parallel_size"]
    share = flags["vllm.gpu_memory_utilization"] * has
    cache = share - 2 * size.parameters / each - OVERHEAD
    room = max(0, int(cache * each / (size.cache_bytes * length)))
    yield "", f"an engine has {max(0.0, cache) / GIB:.1f} GiB for keys and values: {room:,} responses of full length"
    beside = share if together and not flags["vllm.enable_sleep"] else 0.0
    if training + beside > has:
        fix = "more GPUs, --ds.zero_stage 3, smaller micro-batches or --ds.adam_offload"
        yield "warning", f"training may not fit: {fix}" + (", or --vllm.enable_sleep" if beside else "")
    if room < 1:
        yield "warning", "no response fits: raise --vllm.gpu_memory_utilization or --vllm.tensor_parallel_size"


def _data(flags: Flags) -> Iterator[Row]:
    from openrlhf_gtpo.checks.data import prompt_lengths

    for name, count, lengths in prompt_lengths(flags):
        said = name if count is None else f"{name}: {count:,} rows"
        if ordered := sorted(lengths):
            said += f" of {ordered[0]:,} to {ordered[-1]:,} tokens, half of them up to {ordered[len(ordered) // 2]:,}"
        yield "prompts", said
    yield (
        "rewards",
        flags["reward.remote_url"]
        or flags["train.agent_func_path"]
        or (flags["reward.model_name_or_path"] or "the built-in reward service"),
    )


def _disk(flags: Flags) -> Iterator[Row]:
    place = Path(flags["ckpt.path"]).absolute()
    while not place.exists():
        place = place.parent
    free = f"{shutil.disk_usage(place).free / 1e9:,.0f} GB are free"
    size = size_of(str(flags["actor.model_name_or_path"])) if flags["ckpt.save_steps"] > 0 else None
    if size is None:
        kept = "no checkpoints to resume from" if flags["ckpt.save_steps"] <= 0 else "checkpoints of unknown size"
        yield "disk", f"{kept} in {flags['ckpt.path']}; {free}"
        return
    each, most = CHECKPOINT_BYTES * size.parameters, flags["ckpt.max_num"]
    yield (
        "disk",
        f"{each * most / 1e9:,.0f} GB in {flags['ckpt.path']}: {most} checkpoint(s) of {each / 1e9:,.1f}; {free}",
    )
    if each * most > shutil.disk_usage(place).free:
        yield "warning", "the checkpoints do not fit: free some, or keep fewer by --ckpt.max_num"
