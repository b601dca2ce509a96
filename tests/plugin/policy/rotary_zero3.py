"""One rank that loads a model by ZeRO-3 in bfloat16, as OpenRLHF does and as the policy's process does.

    RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 python rotary_zero3.py MODEL

Prints a JSON object: for each of the two, the rotary frequencies, and the greatest difference in log-probability from
the same weights without ZeRO over a sequence of as many tokens as the model has positions."""

import json
import sys
from typing import Any

from openrlhf_gtpo.cpu import platform

platform.prepare_process()

import deepspeed  # noqa: E402 (the CPU platform comes first)
import openrlhf.models  # noqa: E402
import openrlhf.trainer.ray.launcher as launcher  # noqa: E402
import openrlhf.utils.deepspeed.deepspeed as deepspeed_strategy  # noqa: E402
import torch  # noqa: E402

import openrlhf_gtpo.policy.actor  # noqa: E402, F401 (what a policy's or reference's process imports)
from openrlhf_gtpo.cpu import torch_cuda  # noqa: E402


def main(folder: str) -> None:
    torch_cuda.install()
    config = deepspeed_strategy.get_eval_ds_config(offload=False, stage=3, param_dtype="bf16")
    config |= {"train_micro_batch_size_per_gpu": 1}
    deepspeed.init_distributed("gloo")
    common = {"attn_implementation": "eager", "param_dtype": "bf16"}
    exact = openrlhf.models.Actor(folder, **common).model
    tokens = torch.arange(exact.config.max_position_embeddings)[None] * 7 % exact.config.vocab_size

    def logprobs(model: Any) -> torch.Tensor:
        with torch.no_grad():
            return model(tokens).logits.float().log_softmax(-1)

    wanted = logprobs(exact)
    told = {}
    for name, kind in (("theirs", openrlhf.models.Actor), ("ours", launcher.Actor)):
        model = kind(folder, ds_config=config, **common).model
        engine, *_ = deepspeed.initialize(model=model, config=config)
        frequencies = engine.module.model.rotary_emb.inv_freq
        gap = (logprobs(engine) - wanted).abs().max().item()
        told[name] = {"frequencies": frequencies.tolist(), "dtype": str(frequencies.dtype), "gap": gap}
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1])
