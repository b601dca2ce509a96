"""--algo.advantage.estimator launch/compare/shuffled_idea.py:shuffled_idea --shuffled_idea.of FILE.py:NAME

The control of an idea: the same function or estimator, given the entropies and the log-probabilities of other tokens.
Both are permuted together, by `--train.seed`, among the tokens of the same position, group and class. So every token
has a pair that a token had, and only which token has it is chance: what the idea gains without that, it does not gain
by its signal.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any

from openrlhf_gtpo.algorithms.estimators import Estimate, Rollouts
from openrlhf_gtpo.algorithms.table import ESTIMATORS, Estimator, Flag, flag, in_a_file, line_of
from openrlhf_gtpo.algorithms.weights import shuffled


def shuffled_idea(rollouts: Rollouts, of: str) -> Estimate:
    """What the idea makes of a batch whose entropies and log-probabilities are shuffled.

    Args:
        rollouts: the batch; `correct` is needed.
        of: ``FILE.py:NAME`` of the idea, whose own flags have their defaults.

    Raises:
        FileUnusable: the idea cannot be loaded.
    """
    line = _line(of)
    estimate: Estimate = line.load()(permuted(rollouts), **defaults(line.flags))
    return estimate


def permuted(rollouts: Rollouts) -> Rollouts:
    """The batch with entropies and log-probabilities permuted together, by its seed."""
    assert rollouts.correct is not None
    entropy, logprob = shuffled(
        (rollouts.entropy, rollouts.logprob), rollouts.mask, rollouts.correct, rollouts.group, rollouts.seed
    )
    return dataclasses.replace(rollouts, entropy=entropy, logprob=logprob)


class LossOfTheIdea:
    """Builds the idea's loss, or leaves OpenRLHF's own where it has none."""

    @classmethod
    def like(cls, loss: Any, of: str) -> Any:
        line = _line(of)
        own = line.load_loss()
        return loss if own is None else own.like(loss, **defaults(line.loss_flags))


def defaults(flags: Iterable[Flag]) -> dict[str, Any]:
    """The defaults of an estimator's flags, by the names of its function's or its loss's arguments."""
    return {one.option: one.default for one in flags}


@functools.cache
def _line(of: str) -> Estimator:
    """The idea's line. The table forgets what the idea's file adds: the command line has no flags of it."""
    known = dict(ESTIMATORS)
    line = line_of(of)
    assert line is not None, "the flag's bounds"
    ESTIMATORS.clear()
    ESTIMATORS.update(known)
    return line


OF = flag(
    "shuffled_idea.of",
    "the idea whose control this is, FILE.py:NAME",
    (in_a_file, "names an idea as FILE.py:NAME"),
)
ESTIMATORS["shuffled_idea"] = Estimator(
    "Shuffled idea",
    "an idea of one's own, given the entropies and log-probabilities of other tokens",
    f"{__name__}:shuffled_idea",
    flags=(OF,),
    loss=f"{__name__}:LossOfTheIdea",
    loss_flags=(OF,),
)
