"""``--dry-run``: the plan of a run, computed here. It starts nothing, and needs no GPU."""

from collections.abc import Iterator, Mapping
from typing import Any

from openrlhf_gtpo import flags as command_line
from openrlhf_gtpo.checks.machine import GIB
from openrlhf_gtpo.checks.room import GPU_VARIABLE, checkpoint_bytes, free_bytes, memory_of, pinned_bytes, ranks

WRITE_SPEED = 0.7e9
"""Bytes a second of a checkpoint, as one process wrote it to a local disk (docs/gpu.md); several write more."""

Flags = Mapping[str, Any]
Row = tuple[str, str]


def plan(flags: Flags) -> str:
    """What would run with these flags, which are flat and checked: a table of two columns, then every flag that is
    not at its default."""
    rows = [*_steps(flags), *_memory(flags), *_data(flags), *_disk(flags)]
    lines = [f"{name:<10}  {text}" for name, text in rows]
    return "\n".join([*lines, "", "flags that are not at their defaults:", *_changed(flags)])


def _changed(flags: Flags) -> Iterator[str]:
    """Flags with other values than OpenRLHF's and our defaults, as on a command line."""
    for name, default in sorted(vars(command_line.parser().parse_args([])).items()):
        value = flags[name]
        if value != default and name not in ("device", "dry_run", "config"):
            listed = " ".join(map(str, value)) if isinstance(value, list | tuple) else value
            yield f"  --{name} {'' if value is True else listed}"


def _steps(flags: Flags) -> Iterator[Row]:
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
    kind = "GPU" if flags["device"] == "gpu" else "process"
    yield "training", f"{ranks(flags)} {kind}(s), ZeRO stage {flags['ds.zero_stage']}, {flags['ds.param_dtype']}"
    yield (
        "generation",
        f"{flags['vllm.num_engines']} engine(s) of {flags['vllm.tensor_parallel_size']} {kind}(s), "
        f"{command_line.responses_at_once(flags):,} responses at once in each",
    )


def _memory(flags: Flags) -> Iterator[Row]:
    """Upper bounds for responses of full length."""
    memory = memory_of(flags)
    if memory is None:
        unknown = "not known: the model's config.json is not on this machine"
        on_a_cpu = f"not estimated on a CPU; --device gpu plans for GPUs, {GPU_VARIABLE}=80 says how large"
        yield "memory", on_a_cpu if flags["device"] == "cpu" else unknown
        return
    parts = f"{memory.states / GIB:.1f} weights, gradients and optimizer, {memory.logits / GIB:.1f} logits"
    parts += f", {memory.inputs / GIB:.1f} inputs of layers" if memory.inputs else ", and what its layers keep"
    engine = f", {memory.beside / GIB:.1f} an engine" if memory.beside else ""
    most = "at most " if memory.inputs else ""
    total = f"{most}{(memory.training + memory.beside) / GIB:.1f} GiB of a GPU's {memory.has / GIB:.1f} for training"
    yield "memory", f"{total}: {parts}{engine}"
    cache = f"{memory.cache / GIB:.1f} GiB for keys and values"
    yield "", f"an engine has {cache}: {memory.responses:,} responses of full length"
    engines, policy = (part / GIB for part in pinned_bytes(flags) or (0.0, 0.0))
    if engines + policy:
        halves = f"{engines:.0f} weights of engines, {policy:.0f} optimizer"
        yield "", f"a node pins about {engines + policy:.0f} GiB of its memory: {halves}; its processes come on top"


def _data(flags: Flags) -> Iterator[Row]:
    from openrlhf_gtpo.checks.data import prompt_lengths

    for name, count, lengths in prompt_lengths(flags):
        said = name if count is None else f"{name}: {count:,} rows"
        if ordered := sorted(lengths):
            said += f" of {ordered[0]:,} to {ordered[-1]:,} tokens, half of them up to {ordered[len(ordered) // 2]:,}"
        yield "prompts", said
    named = flags["reward.remote_url"] or flags["train.agent_func_path"] or flags["reward.model_name_or_path"]
    yield "rewards", named or "the built-in reward service"


def _disk(flags: Flags) -> Iterator[Row]:
    each, most, folder = checkpoint_bytes(flags), flags["ckpt.max_num"], flags["ckpt.path"]
    free = f"{free_bytes(folder) / 1e9:,.0f} GB are free"
    if not each:
        yield "disk", f"{'no checkpoints' if each == 0 else 'checkpoints of unknown size'} in {folder}; {free}"
        return
    seconds = each / WRITE_SPEED / flags["actor.num_nodes"]
    sizes = f"{most} checkpoint(s) of {each / 1e9:,.1f}, {seconds:,.0f} s each where a node writes 0.7 GB a second"
    yield "disk", f"{each * most / 1e9:,.0f} GB in {folder}: {sizes}; {free}"
