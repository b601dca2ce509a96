"""Checks whether there is room: for responses among a model's positions, and on the GPUs, with the estimate of
`openrlhf_gtpo.driver.memory`."""

from openrlhf_gtpo.data.findings import Finding, fault, ok, skipped, warning
from openrlhf_gtpo.driver import memory
from openrlhf_gtpo.driver.model_size import positions_of, too_few_positions
from openrlhf_gtpo.settings import MOST_AT_ONCE

__all__ = ["check_memory", "check_positions"]


def check_positions(model: str | None, max_len: int | None) -> Finding:
    """Check that a model has a position for each token of a prompt and its response.

    Args:
        model: folder or hub id.
        max_len: tokens of a prompt and its response.
    """
    name = "positions"
    if model is None or max_len is None:
        return _not_given(name, model, max_len)
    most = positions_of(model)
    if most is None:
        return skipped(name, f"Not checked: {model} has no config.json here, or scales its positions.")
    if most < max_len:
        return fault(name, f"--max_len is {max_len:,}, but {too_few_positions(model, most)}.")
    return ok(name, f"{model} has {most:,} positions for {max_len:,} tokens.")


def check_memory(model: str | None, device: str, gpus: int | None, max_len: int | None) -> Finding:
    """Check the memory for a run with the setup of the launch scripts: engines of one GPU share the GPUs with the
    policy, ZeRO-3, micro-batches of one response. `--dry-run` estimates with the flags of a command line.

    Args:
        model: folder or hub id.
        device: ``cpu`` or ``gpu``.
        gpus: GPUs that train; None for all of this machine.
        max_len: tokens of a prompt and its response.
    """
    name = "memory"
    if device == "cpu":
        return skipped(name, "Not checked: it is about GPUs.")
    if model is None or max_len is None:
        return _not_given(name, model, max_len)
    shape = memory.model_named(model)
    if shape is None:
        return skipped(name, f"Not checked: {model} has no config.json here, or is not of a supported kind.")
    import torch

    count = gpus or torch.cuda.device_count()
    if not count:
        return skipped(name, f"Not checked: there is no GPU here, so give --gpus and set {memory.GPU_VARIABLE} (GiB).")
    setup = memory.Setup(1, count, memory.gpu_bytes(), 3, 1, 0.6, True, True, True, adam_offload=False)
    work = memory.Workload(max_len, train_batch=1, forward_batch=1, at_once=MOST_AT_ONCE // 4, checkpointing=True)
    found = memory.need(shape, setup, work)
    faults = memory.warnings(found, setup, work)
    if faults:
        return warning(name, " ".join(faults))
    training, has, host = (size / memory.GIB for size in (found.training, setup.gpu_memory, found.host))
    return ok(
        name,
        f"{model} takes at most {training:.1f} GiB of {has:.1f} on each of {count} GPUs with micro-batches of one "
        f"response, and {host:.1f} GiB of the node's memory while engines and trainer sleep; an engine has room for "
        f"{int(found.full_length):,} responses of {max_len:,} tokens.",
    )


def _not_given(name: str, model: str | None, max_len: int | None) -> Finding:
    missing = " and ".join(flag for flag, value in (("--model", model), ("--max_len", max_len)) if value is None)
    return skipped(name, f"Not checked: give {missing}.")
