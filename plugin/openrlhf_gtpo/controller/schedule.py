"""The number of optimiser updates of a run, and their learning rates under OpenRLHF's schedule."""

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Schedule:
    """Updates and learning rates of a run of ``--train.max_steps``, calculated before it."""

    updates: int
    """Optimiser updates of the whole run."""
    warmup: int
    """Updates in which the learning rate rises from 0, in the first, to its highest value."""
    rates: dict[int, float]
    """Step, counted from 1 -> learning rate of its last update, for the first, the middle and the last step."""


def updates(args: Any, possible: float) -> float:
    """Optimiser updates of the whole run, over which the learning rate's schedule extends.

    Args:
        args: OpenRLHF's nested ``args``.
        possible: OpenRLHF's number of updates, from the number of prompts; infinity where that is not known.
    """
    responses = args.plugin.responses_a_step
    own = args.rollout.batch_size * args.rollout.n_samples_per_prompt
    if math.isfinite(possible):
        possible = possible * responses // own
    if args.plugin.max_steps is None:
        return possible
    return min(possible, args.plugin.max_steps * responses // args.train.batch_size * args.train.max_epochs)


def schedule(args: Any) -> Schedule | None:
    """The schedule of a run that has prompts enough for ``--train.max_steps``; None where that flag is not set, or
    where the learning rate depends on the course of training or on another run's updates.

    Args:
        args: OpenRLHF's nested ``args``.
    """
    total = updates(args, math.inf)
    if math.isinf(total) or total < 1 or args.plugin.updates_from is not None:
        return None
    import torch
    from transformers import get_scheduler  # only here, since the import takes seconds

    total = int(total)
    name, rate = args.actor.lr_scheduler, args.actor.adam.lr
    warmup = math.ceil(total * args.actor.lr_warmup_ratio)
    takes_least = name in ("cosine_with_min_lr", "cosine_warmup_with_min_lr")
    # As OpenRLHF calls it (openrlhf/utils/deepspeed/deepspeed.py), with a dummy optimiser.
    made = get_scheduler(
        name,
        torch.optim.SGD([torch.zeros(1)], lr=rate),
        num_warmup_steps=warmup,
        num_training_steps=total,
        scheduler_specific_kwargs={"min_lr_rate": args.actor.min_lr_ratio} if takes_least else {},
    )
    factors = getattr(made, "lr_lambdas", None)
    if factors is None:
        return None
    steps = args.plugin.max_steps
    last_updates = {step: max(1, total * step // steps) for step in sorted({1, (steps + 1) // 2, steps})}
    return Schedule(total, warmup, {step: rate * factors[0](last - 1) for step, last in last_updates.items()})
