"""Whether a model can be trained on the GPUs that there are: the reckoning of `openrlhf_gtpo.driver.memory`."""

from openrlhf_gtpo.data.findings import Finding, ok, skipped, warning
from openrlhf_gtpo.driver import memory
from openrlhf_gtpo.settings import MOST_AT_ONCE

__all__ = ["check_memory"]


def check_memory(model: str | None, device: str, gpus: int | None, max_len: int | None) -> Finding:
    """As the launch scripts train: engines of one GPU and the policy in turn on the same GPUs, ZeRO-3, one response at
    a time. `--dry-run` reckons with a command line's own flags.

    Args:
        model: folder or hub id.
        device: ``cpu`` or ``gpu``.
        gpus: that train; None is as many as there are here.
        max_len: tokens of a prompt and its response.
    """
    name = "memory"
    if device == "cpu":
        return skipped(name, "Not checked: it is about GPUs.")
    if model is None or max_len is None:
        missing = " and ".join(f for f, value in (("--model", model), ("--max_len", max_len)) if value is None)
        return skipped(name, f"Not checked: give {missing}.")
    shape = memory.model_named(model)
    if shape is None:
        return skipped(name, f"Not checked: the config.json of {model} is not here, or it is of another kind.")
    import torch

    count = gpus or torch.cuda.device_count()
    if not count:
        return skipped(name, f"Not checked: there is no GPU here, so give --gpus, and {memory.GPU_VARIABLE} in GiB.")
    setup = memory.Setup(1, count, memory.gpu_bytes(), 3, 1, 0.6, True, True, True, adam_offload=False)
    work = memory.Workload(max_len, train_batch=1, forward_batch=1, at_once=MOST_AT_ONCE // 4, checkpointing=True)
    found = memory.need(shape, setup, work)
    faults = memory.warnings(found, setup, work)
    if faults:
        return warning(name, " ".join(faults))
    training, has, host = (size / memory.GIB for size in (found.training, setup.gpu_memory, found.host))
    return ok(
        name,
        f"{model} takes at most {training:.1f} GiB of {has:.1f} on each of {count} GPUs with one response at a time, "
        f"{host:.1f} GiB of the node's memory while engines and trainer sleep, and an engine has room for "
        f"{int(found.full_length):,} responses of {max_len:,} tokens.",
    )
