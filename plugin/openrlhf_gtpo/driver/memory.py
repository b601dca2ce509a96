"""An estimate of the memory that a run needs on each GPU and on each node, made before it starts.

* Parameters (ZeRO: Rajbhandari et al., arXiv 1910.02054, section 3): 2 bytes for the weight and 2 for the gradient in
  bfloat16, 12 for Adam's float32 copy and two moments, and during an update 4 for DeepSpeed's float32 gradient.
  Stage 1 shards the optimizer over the ranks, stage 2 the gradients too, stage 3 the weights too.
* Activations, with checkpointing: one input for each layer, and everything of one layer (Chen et al., arXiv
  1604.06174).
* Logits, as OpenRLHF handles them (``openrlhf/models/actor.py``): in bfloat16 with a float32 copy; in the backward
  pass also their float32 gradient and its bfloat16 copy.
* An engine: vLLM takes its share of a GPU, and uses as KV cache what weights, sampling and CUDA graphs leave.

All are upper bounds, for responses of full length. `OVERHEAD` stands for fragmentation and NCCL's buffers."""

import math
import os
import re
from dataclasses import dataclass

from openrlhf_gtpo.driver.model_size import Model
from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.settings import Settings

GIB = 2**30
GPU_VARIABLE = "GPU_GB"
"""Environment variable with the memory of a GPU in GiB, for a plan on a machine without one."""
OVERHEAD = 2 * GIB
"""A CUDA context, NCCL's buffers and fragmentation on a training GPU; CUDA graphs and scratch in an engine."""
LIVE_PARAMETERS = 10**9
"""Most parameters that ZeRO-3 gathers before their use: DeepSpeed's default ``stage3_max_live_parameters``."""


@dataclass(frozen=True)
class Need:
    """Bytes on one GPU; `host` is on a node."""

    gpu: float
    """What the GPU has."""
    weights: float
    gradients: float
    optimizer: float
    gathered: float
    """Layers that ZeRO-3 has gathered at a time."""
    reference: float
    train_logits: float
    forward_logits: float
    backward: float
    """Activations and logits of a training micro-batch."""
    forward: float
    """Activations and logits of the responses whose log-probabilities are computed at once."""
    training: float
    """The peak of a training GPU: in the backward pass, or while log-probabilities are computed."""
    beside: float
    """Memory that an engine on the same GPU keeps while the policy trains: 0 if it sleeps, or has other GPUs."""
    resident: float
    """Memory that the trainer keeps on the GPU while the engine generates there; 0 if they have different GPUs."""
    engine_weights: float
    cache: float
    """Memory left for the KV cache; below 0 if the rest does not fit."""
    full_length: float
    """Responses of full length that fit into an engine's KV cache."""
    host: float
    """Memory of a node for sleeping engines, a sleeping trainer and an offloaded optimizer."""


def gpu_bytes() -> float:
    """Memory of a GPU: of this machine's smallest, else the value of GPU_GB, else 80 GiB.

    Raises:
        SettingsError: GPU_GB is not a number above 0.
    """
    import torch

    if count := torch.cuda.device_count():
        return float(min(torch.cuda.get_device_properties(i).total_memory for i in range(count)))
    given = os.environ.get(GPU_VARIABLE) or "80"
    if not re.fullmatch(r"\d+(\.\d+)?", given) or float(given) == 0:
        raise SettingsError(f"{GPU_VARIABLE} is {given}, but the memory of a GPU is a number of GiB above 0.")
    return float(given) * GIB


def need(model: Model, settings: Settings, gpu: float) -> Need:
    """Estimate the memory of a run.

    Args:
        model: the policy.
        settings: of the run.
        gpu: bytes of each GPU.
    """
    flags = settings.flags
    stage, adam_offload, gpus = flags["ds.zero_stage"], flags["ds.adam_offload"], flags["actor.num_gpus_per_node"]
    colocated, engine_sleeps, trainer_sleeps = (
        flags[name] for name in ("train.colocate_all", "vllm.enable_sleep", "ds.enable_sleep")
    )
    length, tensor_parallel = flags["data.max_len"], flags["vllm.tensor_parallel_size"]
    engine = flags["vllm.gpu_memory_utilization"] * gpu

    count, ranks = model.parameters, flags["actor.num_nodes"] * gpus
    weights = 2 * count / (ranks if stage >= 3 else 1)
    gradients = 2 * count / (ranks if stage >= 2 else 1)
    adam = 12 * count / (ranks if stage >= 1 else 1)
    update = 4 * count / (ranks if stage >= 1 else 1)
    optimizer = 0.0 if adam_offload else adam + update
    gathered = 2.0 * min(count, LIVE_PARAMETERS) if stage >= 3 and ranks > 1 else 0.0
    # A reference model for the KL term has the policy's precision and sharding.
    beside_policy = flags["algo.kl.init_coef"] > 0 and (flags["train.colocate_actor_ref"] or colocated)
    reference = weights if beside_policy else 0.0

    tokens = flags["train.micro_batch_size"] * length
    kept = (
        2 * model.hidden * model.layers + model.layer_bytes
        if flags["actor.gradient_checkpointing_enable"]
        else model.layers * model.layer_bytes
    )
    train_logits = 10.0 * tokens * model.vocabulary
    forward_tokens = flags["rollout.micro_batch_size"] * length
    forward_logits = 6.0 * forward_tokens * model.vocabulary
    backward = tokens * kept + train_logits
    forward = forward_tokens * model.layer_bytes + forward_logits
    states = weights + gradients + optimizer + gathered + reference
    training = states + max(backward, forward) + OVERHEAD

    engine_weights = 2 * count / tensor_parallel
    # DeepSpeed's sleep leaves the weights. The optimizer's memory for an update is free between updates.
    between = weights + reference if trainer_sleeps else states - gathered - (0.0 if adam_offload else update)
    resident = between if colocated else 0.0
    # Logits of the responses that an engine generates at once, in float32, plus one copy.
    sampling = 2 * 4.0 * settings.responses_at_once * model.vocabulary / tensor_parallel
    # An engine cannot take more than the trainer leaves.
    room = min(engine, gpu - resident)
    cache = room - engine_weights - sampling - OVERHEAD
    full_length = max(0.0, cache) * tensor_parallel / (model.cache_bytes * length)

    host = gpus * engine_weights if colocated and engine_sleeps else 0.0
    host += gpus * adam if adam_offload else 0.0
    host += gpus * (gradients + adam) if trainer_sleeps and not adam_offload else 0.0
    # An engine on the same GPU that does not sleep keeps its memory while the policy trains.
    beside = 0.0 if engine_sleeps or not colocated else engine
    return Need(
        gpu=gpu,
        weights=weights,
        gradients=gradients,
        optimizer=optimizer,
        gathered=gathered,
        reference=reference,
        train_logits=train_logits,
        forward_logits=forward_logits,
        backward=backward,
        forward=forward,
        training=training + beside,
        beside=beside,
        resident=resident,
        engine_weights=engine_weights,
        cache=cache,
        full_length=full_length,
        host=host,
    )


def rows(needed: Need, settings: Settings) -> list[tuple[str, str]]:
    """The estimate for people: names and sentences."""
    parts = [
        (needed.weights, "weights"),
        (needed.gradients, "gradients"),
        (needed.optimizer, "optimizer"),
        (needed.gathered, "gathered layers"),
        (needed.reference, "reference"),
        (OVERHEAD, "fragments and buffers"),
        (needed.beside, "the engine, which does not sleep"),
    ]
    train_batch, forward_batch = (settings.flags[f"{name}.micro_batch_size"] for name in ("train", "rollout"))
    listed = ", ".join(f"{_gib(size)} {name}" for size, name in parts if size)
    told = [
        ("memory", f"at most {_gib(needed.training)} GiB of a GPU's {_gib(needed.gpu)} for training: {listed};"),
        (
            "",
            f"{_gib(needed.backward)} of activations and logits while it learns from {train_batch} responses at "
            f"once, or {_gib(needed.forward)} for log-probabilities of {forward_batch}",
        ),
        (
            "",
            f"{_gib(needed.engine_weights)} GiB of weights on an engine's GPU and {_gib(max(0.0, needed.cache))} of "
            f"KV cache: {_room(needed, settings)}",
        ),
    ]
    if needed.host:
        told.append(("", f"{_gib(needed.host)} GiB of each node's memory for what sleeps or is offloaded"))
    return told


def _room(needed: Need, settings: Settings) -> str:
    """How many of the responses that an engine generates at once its cache holds, were they all of full length."""
    fit, at_once, length = math.floor(needed.full_length), settings.responses_at_once, settings.flags["data.max_len"]
    if fit >= at_once:
        return f"room for all {at_once:,} responses at once, were they all of {length:,} tokens"
    return (
        f"room for {fit:,} of the {at_once:,} responses at once, were they all of {length:,} tokens; where "
        "it is full, vLLM interrupts the youngest and computes them again"
    )


def warnings(needed: Need, settings: Settings) -> list[str]:
    """One sentence for each part that does not fit, with the flags that help."""
    told = []
    has = _gib(needed.gpu)
    states = needed.weights + needed.gradients + needed.optimizer + needed.gathered + needed.reference
    if states > needed.gpu:
        told.append(
            f"Weights, gradients and optimizer take {_gib(states)} GiB of a GPU that has {has}: use more GPUs, a "
            "higher --ds.zero_stage, --ds.adam_offload, or a smaller model."
        )
    elif needed.training > needed.gpu and needed.beside and needed.training - needed.beside <= needed.gpu:
        told.append(
            f"Training takes up to {_gib(needed.training - needed.beside)} GiB and the engine beside it keeps "
            f"{_gib(needed.beside)}, of a GPU that has {has}: add --vllm.enable_sleep and --ds.enable_sleep, or lower "
            "--vllm.gpu_memory_utilization."
        )
    elif needed.training > needed.gpu:
        which = (
            "--rollout.micro_batch_size" if needed.forward_logits > needed.train_logits else "--train.micro_batch_size"
        )
        told.append(
            f"Training takes up to {_gib(needed.training)} GiB of a GPU that has {has}: lower {which} or "
            "--data.max_len."
        )
    taken = settings.flags["vllm.gpu_memory_utilization"] * needed.gpu
    if states <= needed.gpu and needed.resident and taken + needed.resident + OVERHEAD > needed.gpu:
        told.append(
            f"While the engine generates it takes {_gib(taken)} GiB and the trainer keeps {_gib(needed.resident)}, of "
            f"a GPU that has {has}: lower --vllm.gpu_memory_utilization, or add --ds.enable_sleep."
        )
    if needed.full_length < 1:
        told.append(
            f"An engine has {_gib(max(0.0, needed.cache))} GiB for its KV cache, too little for one response of "
            f"{settings.flags['data.max_len']:,} tokens: raise --vllm.gpu_memory_utilization or "
            "--vllm.tensor_parallel_size, or add --ds.enable_sleep if the trainer shares the GPU."
        )
    return told


def _gib(size: float) -> str:
    return f"{size / GIB:.1f}"
