"""One of two ranks that gather a ZeRO-3 layer while every gather is as late as its handle allows.

    RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 python gather_late.py

A handle here begins the work only when it is waited for, which is the latest that an asynchronous operation may be
done. Prints the JSON list of the gathered values."""

import json
from typing import Any

from openrlhf_gtpo.cpu import platform

platform.prepare_process()

import deepspeed  # noqa: E402 (the CPU platform comes first)
import deepspeed.comm as dist  # noqa: E402
import openrlhf.utils.deepspeed.deepspeed as deepspeed_strategy  # noqa: E402
import torch  # noqa: E402

from openrlhf_gtpo.cpu import torch_cuda  # noqa: E402


class Late:
    """A gather that nobody has begun."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args, self.kwargs = args, kwargs

    def wait(self) -> None:
        gather(*self.args, **self.kwargs)


def gather_late(*args: Any, async_op: bool = False, **kwargs: Any) -> Any:
    late = Late(*args, **kwargs)
    return late if async_op else late.wait()


if __name__ == "__main__":
    torch_cuda.install()
    config = deepspeed_strategy.get_train_ds_config(offload=False, stage=3, param_dtype="fp32")
    config |= {"train_micro_batch_size_per_gpu": 1}
    deepspeed.init_distributed("gloo")
    with deepspeed.zero.Init(config_dict_or_path=config, dtype=torch.float32):
        layer = torch.nn.Linear(2, 2)
    with deepspeed.zero.GatheredParameters(list(layer.parameters()), modifier_rank=0):
        if dist.get_rank() == 0:
            with torch.no_grad():
                layer.weight.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
                layer.bias.copy_(torch.tensor([5.0, 6.0]))
    gather, dist.all_gather_into_tensor = dist.all_gather_into_tensor, gather_late
    torch.use_deterministic_algorithms(True, warn_only=True)  # memory that nobody wrote to is NaN
    with deepspeed.zero.GatheredParameters(list(layer.parameters())):
        print(json.dumps([*layer.weight.flatten().tolist(), *layer.bias.tolist()]))
