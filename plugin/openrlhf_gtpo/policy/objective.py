"""The objective of a run, by its settings: its loss, and what takes part in its optimiser updates."""

from typing import Any

import torch

from openrlhf_gtpo.algorithms.entropy_bonus import EntropyController
from openrlhf_gtpo.algorithms.table import line_of
from openrlhf_gtpo.guide.loss import ShapedGuideLoss, SupervisedGuideLoss
from openrlhf_gtpo.policy.entropy_bonus import EntropyBonus


def loss_of(args: Any, openrlhfs: Any) -> torch.nn.Module:
    """The estimator's loss, or OpenRLHF's own where it has none; around it another objective for a guide's tokens, if
    the run has one.

    A loss may have a method ``see(experience)``, which gets each micro-batch just before the loss is called with it.

    Args:
        args: OpenRLHF's nested ``args``.
        openrlhfs: OpenRLHF's PolicyLoss of this run.
    """
    settings, loss = args.plugin, openrlhfs
    estimator = line_of(settings.estimator)
    if estimator is not None and (own := estimator.load_loss()) is not None:
        loss = own.like(loss, **settings.options(estimator.loss_flags))
    guide = settings.guide
    if guide is not None and guide.supervised:
        return SupervisedGuideLoss(loss)
    return ShapedGuideLoss(loss, guide.ratio_shaping) if guide is not None and guide.ratio_shaping else loss


def update_parts(strategy: Any, actor: torch.nn.Module) -> list[EntropyBonus]:
    """What sees every micro-batch before and after it is trained on, and has a state in the checkpoints.

    Args:
        strategy: OpenRLHF's, with its ``args``.
        actor: OpenRLHF's Actor in training.
    """
    bonus = strategy.args.plugin.entropy_bonus
    return [] if bonus is None else [EntropyBonus(EntropyController(**bonus), strategy, actor)]
