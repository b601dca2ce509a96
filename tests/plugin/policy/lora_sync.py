"""One rank that trains LoRA adapters for a step by DeepSpeed's ZeRO and hands the weights on to an engine that keeps
them.

    RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 python lora_sync.py MODEL STAGE LORA_RANK

Policy, adapters, DeepSpeed and the weights' way are the real ones; only the engine and the group that carries tensors
to it are recorders. Writes MODEL/rank0.pt: the adapted model's weights before and after, and what the engine got.
Prints that file's name."""

import json
import sys
from types import SimpleNamespace
from typing import Any

from openrlhf_gtpo.cpu import platform

platform.prepare_process()

import deepspeed  # noqa: E402 (the CPU platform comes first)
import openrlhf.trainer.ray.ppo_actor as ppo_actor  # noqa: E402
import openrlhf.utils.deepspeed.deepspeed as deepspeed_strategy  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

from openrlhf_gtpo.cpu import torch_cuda  # noqa: E402
from openrlhf_gtpo.policy.actor import PolicyTrainer  # noqa: E402


class Engine:
    """Notes each parameter that it is told of, and the tensor that comes after."""

    def __init__(self) -> None:
        self.got: dict[str, torch.Tensor] = {}
        self.update_weight = SimpleNamespace(remote=self.expect)

    def expect(self, name: str, dtype: torch.dtype, shape: Any, empty_cache: bool) -> None:
        self.expected = (name, dtype, tuple(shape))

    def broadcast(self, tensor: torch.Tensor, src: int, stream: Any) -> None:
        name, dtype, shape = self.expected
        assert (tensor.dtype, tuple(tensor.shape)) == (dtype, shape), self.expected
        self.got[name] = tensor.clone()


def values(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Every parameter of the model as a whole, by its name."""
    found = {}
    for name, parameter in model.named_parameters():
        with deepspeed.zero.GatheredParameters([parameter]):
            found[name] = parameter.detach().clone()
    return found


def main(folder: str, stage: int, lora_rank: int) -> None:
    torch_cuda.install()
    adam = {"type": "AdamW", "params": {"lr": 1e-2, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.0}}
    config = deepspeed_strategy.get_train_ds_config(
        offload=False, adam_offload=False, stage=stage, param_dtype="fp32", zpg=1, optim_config=adam
    )
    config |= {"train_micro_batch_size_per_gpu": 1}
    deepspeed.init_distributed("gloo")
    actor = ppo_actor.Actor(
        folder,
        attn_implementation="eager",
        param_dtype="fp32",
        lora_rank=lora_rank,
        lora_alpha=16,
        target_modules="all-linear",
        ds_config=config,
    )
    actor.model, *_ = deepspeed.initialize(
        model=actor.model, config=config, model_parameters=[p for p in actor.model.parameters() if p.requires_grad]
    )
    # After a step DeepSpeed keeps small parameters whole and shards large ones: both kinds meet in one layer.
    for _ in range(2):
        tokens = torch.arange(24).reshape(1, 24) + dist.get_rank()
        actor.model.backward(actor.model(tokens, labels=tokens).loss)
        actor.model.step()

    engine = Engine()
    ppo_actor.ray = SimpleNamespace(get=list)  # nothing of this runs in Ray
    trainer: Any = object.__new__(PolicyTrainer)
    ds = SimpleNamespace(zero_stage=stage, tensor_parallel_size=1)
    trainer.strategy = SimpleNamespace(args=SimpleNamespace(ds=ds, vllm=SimpleNamespace()))
    trainer.actor, trainer.use_cuda_ipc, trainer.vllm_engines = actor, False, [engine]
    trainer._model_update_group = engine

    before = values(actor.model.module)
    trainer.broadcast_to_vllm()
    file = f"{folder}/rank{dist.get_rank()}.pt"
    torch.save({"before": before, "after": values(actor.model.module), "got": engine.got}, file)
    print(json.dumps(file))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
