"""The table of estimators: the values of ``--algo.advantage.estimator`` besides OpenRLHF's own.

To add an estimator, write a function (`openrlhf_gtpo.algorithms.estimators` has three) and a line in `ESTIMATORS`; its
flags, help and metrics follow from these. docs/extending.md shows one. The driver reads the table before it imports
torch, so a line gives its function by name."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["ESTIMATORS", "Estimator", "Flag", "ours"]


@dataclass(frozen=True)
class Flag:
    """A flag of an estimator, which gets the value as an argument named by the last part of the flag's name."""

    name: str
    """As on the command line, without the dashes: ``shaping.alpha1``."""
    options: Mapping[str, Any]
    """Arguments of ``add_argument``: type, default, help, ..."""

    @property
    def option(self) -> str:
        return self.name.rpartition(".")[2]


@dataclass(frozen=True)
class Estimator:
    """A line of the table."""

    title: str
    """Its name in messages."""
    sentence: str
    """Its definition in one sentence, with its source; shown by ``--help``."""
    function: str
    """``module:name`` of a function that takes `estimators.Rollouts` and the value of each of ``flags`` by name, and
    returns an `estimators.Estimate`. A ValueError stops the run with its text."""
    needs_correctness: bool = True
    """Whether it treats correct and wrong responses differently, so that scores have to be binary."""
    openrlhfs_own: bool = False
    """Whether OpenRLHF has it too. Then OpenRLHF's is used, and ours only for groups of different sizes."""
    per_response: bool = False
    """Whether its objective is a mean over responses, with one clip per response (`openrlhf_gtpo.policy.loss`)."""
    flags: tuple[Flag, ...] = ()

    def load(self) -> Callable[..., Any]:
        """The function."""
        module, _, name = self.function.partition(":")
        return getattr(importlib.import_module(module), name)


_HERE = "openrlhf_gtpo.algorithms.estimators"

SHAPING = (
    Flag(
        "shaping.alpha1",
        {"type": float, "default": 1.0, "help": "weight of correctness, beta1 for grpo_s (default: 1.0)"},
    ),
    Flag(
        "shaping.alpha2",
        {"type": float, "default": 0.1, "help": "weight of entropy, beta2 for grpo_s (default: 0.1)"},
    ),
    Flag(
        "shaping.over",
        {
            "choices": ["group", "class"],
            "default": "group",
            "help": "mean and std that normalise the shaped rewards (Eq. 6): of the whole scope, with 0 for the other "
            "class, or of each class by itself, which removes the difference between correct and wrong "
            "(default: group)",
        },
    ),
    Flag(
        "shaping.scope",
        {
            "choices": ["group", "batch"],
            "default": "group",
            "help": "mean and std per prompt group or over the rollout batch (default: group)",
        },
    ),
    Flag(
        "shaping.entropy_clip",
        {
            "type": float,
            "nargs": 2,
            "default": None,
            "metavar": ("LOW", "HIGH"),
            "help": "clamp entropies to [LOW, HIGH] nats before shaping (default: off)",
        },
    ),
    Flag(
        "shaping.weights",
        {
            "choices": ["entropy", "shuffled", "uniform", "surprisal", "inverse"],
            "default": "entropy",
            "help": "what stands where the formulas have the entropy H; all but entropy are controls. shuffled: the "
            "same entropies, permuted by --train.seed among the tokens of a position, group and class (grpo_s: among "
            "the responses of a group and class); uniform: 1; surprisal: minus the token's log-probability; inverse: "
            "1/H for correct and H for wrong ones (default: entropy)",
        },
    ),
)
"""Flags of both GTPO and GRPO-S; the arguments of `openrlhf_gtpo.shaping.gtpo` and `grpo_s`, and what stands for the
entropies (`openrlhf_gtpo.algorithms.weights`)."""

ESTIMATORS: dict[str, Estimator] = {
    "gtpo": Estimator(
        "GTPO",
        "tokens share a class's reward by their entropy (arXiv 2508.04349, Eq. 3 to 6)",
        f"{_HERE}:gtpo",
        flags=SHAPING,
    ),
    "grpo_s": Estimator(
        "GRPO-S",
        "responses share a class's reward by their mean entropy (arXiv 2508.04349, Eq. 8 and 9)",
        f"{_HERE}:grpo_s",
        per_response=True,
        flags=SHAPING,
    ),
    "group_norm": Estimator(
        "GRPO",
        "reward minus the group's mean, divided by its standard deviation (arXiv 2402.03300)",
        f"{_HERE}:group_norm",
        needs_correctness=False,
        openrlhfs_own=True,
    ),
}
"""Name on the command line -> estimator."""


def ours() -> list[str]:
    """The names that OpenRLHF does not know."""
    return [name for name, estimator in ESTIMATORS.items() if not estimator.openrlhfs_own]
