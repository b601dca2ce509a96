"""The statistics of the distribution that a token is sampled from: one line each, which everything else follows.

`openrlhf_gtpo.algorithms.entropy` computes them in the pass over the logits that gives the token's log-probability;
`openrlhf_gtpo.vllm_entropy` returns those that a user asks for. Does not import torch: a process that only reads them
needs none.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from math_reward.nearest import did_you_mean

__all__ = ["CONFIG_KEY", "ENTROPY", "STATISTICS", "Statistic", "declared"]


@dataclass(frozen=True)
class Statistic:
    """A line of the list. Every statistic is >= 0, which no log-probability in its place would be."""

    what: str
    """Its definition, p being the probabilities of the tokens."""
    unit: str


STATISTICS: dict[str, Statistic] = {
    "entropy": Statistic("Shannon entropy, -sum p log p", "nats"),
    "collision_probability": Statistic("that two draws give the same token, sum p^2", "probability"),
    "support_size": Statistic("how many tokens could be sampled, those with p > 0 before rounding", "tokens"),
    "min_entropy": Statistic("surprisal of the most likely token, -log max p", "nats"),
}
"""Name -> definition and unit. The names are those that users write."""

ENTROPY = ("entropy",)
"""What GTPO and GRPO-S need, so what an engine returns unless it is asked for others."""

CONFIG_KEY = "openrlhf_gtpo_statistics"
"""The names' key in vLLM's ``additional_config``, for an engine that returns other statistics than `ENTROPY`."""


def declared(names: Iterable[str]) -> tuple[str, ...]:
    """The names of `STATISTICS` that a user asks for, checked.

    Raises:
        ValueError: no name, a name twice, or one that is not in the list.
    """
    asked = (names,) if isinstance(names, str) else tuple(names)
    for name in asked:
        if name not in STATISTICS:
            known = did_you_mean(name, STATISTICS, f"there are {', '.join(STATISTICS)}")
            raise ValueError(f"There is no statistic {name}{known}")
    if not asked or len(set(asked)) < len(asked):
        raise ValueError(
            f"statistics must name at least one statistic, and each once, not {', '.join(asked) or '()'}."
        )
    return asked
