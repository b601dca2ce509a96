"""The disk that checkpoints take."""

from openrlhf_gtpo.settings import Settings

WEIGHT_BYTES = 2
"""Of a parameter in a policy that is written: bfloat16."""
CHECKPOINT_BYTES = 14
"""Of a parameter in a checkpoint to resume from: the weight in bfloat16, and DeepSpeed's float32 copy and Adam's two
moments."""


def checkpoint_bytes(parameters: int, settings: Settings) -> int:
    """The bytes of a run's checkpoints to resume from; 0 where it keeps none.

    With LoRA only the weights' copy is that large, so this is an upper bound.

    Args:
        parameters: of the policy.
        settings: of the run.
    """
    flags = settings.flags
    return CHECKPOINT_BYTES * parameters * flags["ckpt.max_num"] if flags["ckpt.save_steps"] > 0 else 0
