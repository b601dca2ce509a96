"""Replaces on a CPU what OpenRLHF's training actors use of CUDA: the device, synchronisation, the device mesh and the
weight sync. It also adds float32, which OpenRLHF does not offer."""

import functools
import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest import mock

from openrlhf_gtpo.cpu import weight_sync
from openrlhf_gtpo.cpu.sleep import gpu_name, log
from openrlhf_gtpo.host import replace


class CpuDevice(str):
    """The result of ``torch.cuda.current_device()``: ``cpu`` as a device, but 0 inside ``f"cuda:{...}"``."""

    def __new__(cls) -> "CpuDevice":
        return super().__new__(cls, "cpu")

    def __format__(self, spec: str) -> str:
        return "0"


def install() -> None:
    """Prepare this process. Calling it again changes nothing."""
    import openrlhf.trainer.ray.ppo_actor as ppo_actor
    import openrlhf.utils.deepspeed.deepspeed as deepspeed_strategy
    import openrlhf.utils.utils as openrlhf_utils
    import torch
    import torch.multiprocessing.reductions

    if getattr(ppo_actor, "_on_cpu", False):
        return
    device = CpuDevice()
    cuda: Any = torch.cuda
    cuda.current_device = lambda: device
    for name in ("set_device", "synchronize", "empty_cache", "current_stream"):
        setattr(cuda, name, lambda *args, **kwargs: None)
    cuda.get_device_properties = lambda device: SimpleNamespace(uuid=gpu_name())
    torch.multiprocessing.reductions.reduce_tensor = weight_sync.reduce_tensor
    replace(ppo_actor, stateless_init_process_group=weight_sync.WeightGroup)
    offload = _with_torch_adam(_logged("policy sleeps", ppo_actor.offload_deepspeed_states))
    reload = _logged("policy is awake", ppo_actor.reload_deepspeed_states)
    replace(ppo_actor, offload_deepspeed_states=offload, reload_deepspeed_states=reload)
    # OpenRLHF has bf16 and fp16 only. Without either setting DeepSpeed computes in float32.
    replace(openrlhf_utils, convert_to_torch_dtype={"bf16": torch.bfloat16, "fp32": torch.float32}.__getitem__)
    mesh = deepspeed_strategy.init_device_mesh
    replace(deepspeed_strategy, init_device_mesh=lambda device_type, *args, **kwargs: mesh("cpu", *args, **kwargs))
    replace(deepspeed_strategy, get_train_ds_config=_for_a_cpu(deepspeed_strategy.get_train_ds_config))
    replace(deepspeed_strategy, get_eval_ds_config=_for_a_cpu(deepspeed_strategy.get_eval_ds_config))
    # Without this and torch_adam, DeepSpeed would compile C++ at run time: shared-memory collectives and fused Adam.
    setattr(importlib.import_module("deepspeed.comm.torch"), "build_shm_op", lambda: None)  # noqa: B010 (a submodule)
    ppo_actor._on_cpu = True


def _logged(event: str, function: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(function)
    def logged(*args: Any, **kwargs: Any) -> None:
        function(*args, **kwargs)
        log(event)

    return logged


def _with_torch_adam(offload: Callable[..., None]) -> Callable[..., None]:
    """OpenRLHF's function that moves DeepSpeed's states to host memory. ZeRO-3 first checks that the optimizer is the
    fused Adam; on a CPU it is torch's, so the check is given that class."""

    @functools.wraps(offload)
    def offloaded(model: Any, *args: Any, **kwargs: Any) -> None:
        import deepspeed.ops.adam.fused_adam as fused_adam

        with mock.patch.object(fused_adam, "FusedAdam", type(model.optimizer.optimizer)):
            offload(model, *args, **kwargs)

    return offloaded


def _for_a_cpu(make: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """DeepSpeed's configuration from ``make``, changed for a CPU."""

    @functools.wraps(make)
    def made_for_a_cpu(*args: Any, **kwargs: Any) -> dict[str, Any]:
        config = make(*args, **kwargs)
        if "optimizer" in config:
            config["optimizer"]["params"] |= {"torch_adam": True, "fused": True}
        # When ZeRO-3 gathers several parameters at once, it waits for the last one only. On a GPU's stream the others
        # are done by then. gloo uses two threads, and a late one overwrites weights that were loaded meanwhile.
        config["zero_optimization"]["stage3_allgather_sequential"] = True
        return config

    return made_for_a_cpu
