"""Log-probabilities, entropies, loss and gradients of one batch, as OpenRLHF's Actor gives them padded, packed, or
packed and split over the ranks of a ring; without entropies as ours gives them, with each prompt once.

    python packed_or_padded.py padded|packed|shared MODEL OUT
    RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 python packed_or_padded.py ring MODEL OUT

Writes a torch file, one entry for each loss, and prints its name.
"""

import json
import sys
from pathlib import Path
from typing import Any

from openrlhf_gtpo.cpu import platform

platform.prepare_process()

import torch  # noqa: E402 (the CPU platform comes first)
import torch.distributed as dist  # noqa: E402
from openrlhf.models import Actor  # noqa: E402
from openrlhf.models.loss import PolicyLoss  # noqa: E402
from openrlhf.models.ring_attn_utils import set_ring_attn_group  # noqa: E402

from openrlhf_gtpo.cpu import torch_cuda  # noqa: E402
from openrlhf_gtpo.cpu.shared_prompts import SharedPromptsActor  # noqa: E402
from openrlhf_gtpo.policy.layout import layout  # noqa: E402
from openrlhf_gtpo.policy.loss import SequenceRatioLoss  # noqa: E402

LENGTHS = [(9, 7), (9, 1), (9, 3), (6, 12), (6, 5)]
"""Tokens of prompt and response; together odd, so that a ring of two has to pad. Two prompts have several."""
UNMASKED = 3
"""Of the last response a token that an agent's environment wrote, not the policy."""


def batch() -> dict[str, torch.Tensor]:
    """As a micro-batch of experiences is: prompts padded on the left, responses on the right."""
    torch.manual_seed(1)
    before, after = (max(lengths) for lengths in zip(*LENGTHS, strict=True))
    sequences = torch.zeros(len(LENGTHS), before + after, dtype=torch.long)
    attention_mask = torch.zeros_like(sequences)
    for row, (prompt, response) in enumerate(LENGTHS):
        place = slice(before - prompt, before + response)
        sequences[row, place] = torch.randint(2, 512, (prompt + response,))
        attention_mask[row, place] = 1
        if row and prompt == LENGTHS[row - 1][0]:
            sequences[row, :before] = sequences[row - 1, :before]
    action_mask = attention_mask[:, before:].clone()
    action_mask[-1, UNMASKED] = 0
    return {"sequences": sequences, "attention_mask": attention_mask, "action_mask": action_mask}


def model(how: str, folder: Path) -> Actor:
    kind = SharedPromptsActor if how == "shared" else Actor
    packed = how in ("packed", "ring")
    return kind(str(folder), attn_implementation="sdpa", param_dtype="fp32", temperature=0.7, packing_samples=packed)


def losses() -> dict[str, Any]:
    return {"gtpo": PolicyLoss(), "grpo_s": SequenceRatioLoss()}


def main(how: str, folder: Path, out: Path) -> None:
    torch_cuda.install()
    group = None
    if how == "ring":
        from ring_flash_attn import substitute_hf_flash_attn

        dist.init_process_group("gloo")
        group = dist.group.WORLD
        set_ring_attn_group(group)
        substitute_hf_flash_attn(group, 1)
    actor, inputs = model(how, folder), batch()
    if how == "shared":
        assert layout(**inputs) is not None
    mask = inputs["action_mask"].float()
    generator = torch.Generator().manual_seed(2)
    advantages = torch.randn(mask.shape, generator=generator) * mask
    found: dict[str, Any] = {}
    for name, loss_of in losses().items():
        actor.model.zero_grad()
        log_probs, output = actor(**inputs, return_output=True, return_entropy=how != "shared", ring_attn_group=group)
        old = log_probs.detach() + 0.1 * torch.randn(mask.shape, generator=torch.Generator().manual_seed(3)) * mask
        loss = loss_of(log_probs, old, advantages, action_mask=inputs["action_mask"])[0]
        loss.backward()
        if group is not None:  # as DeepSpeed does over all ranks
            for parameter in actor.model.parameters():
                dist.all_reduce(parameter.grad)
                parameter.grad /= dist.get_world_size()
        found[name] = {
            "log_probs": log_probs.detach(),
            "entropy": output.entropy.detach()[:, -mask.shape[1] :] * mask if how != "shared" else None,
            "loss": loss.detach(),
            "gradient": torch.cat([parameter.grad.flatten() for parameter in actor.model.parameters()]),
        }
    if group is None or dist.get_rank() == 0:
        torch.save(found, out)
    print(json.dumps(str(out)))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
