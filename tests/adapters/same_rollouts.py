"""One rollout batch, saved as plain lists, and what GTPO and GRPO-S make of it in every trainer.

Each trainer's test feeds it through the trainer's own code and compares advantages, and the gradient where the loss is
meant to be the same. What is expected comes from loops over the paper's equations and none of the plugin's code.
"""

import importlib.util
import random
from math import exp, fsum
from pathlib import Path

_spec = importlib.util.spec_from_file_location(
    "naive_shaping", Path(__file__).parents[1] / "plugin" / "naive_shaping.py"
)
assert _spec is not None
assert _spec.loader is not None
_naive = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_naive)

SIZE = 4
"""Responses to each prompt, one after the other."""

_RESPONSES = [  # verdict, penalty, entropy in nats of each token
    # A prompt with answers both correct and wrong, of all lengths; one is overlong.
    (1, 0.0, [0.90, 0.10, 0.25, 1.60]),
    (1, 0.0, [0.30, 0.50]),
    (0, 0.0, [0.05, 0.80, 0.24]),
    (0, -0.5, [0.40, 0.20, 0.60, 1.20, 0.02, 0.70, 2.10]),
    # All correct.
    (1, 0.0, [0.70, 0.20]),
    (1, 0.0, [1.10]),
    (1, -0.25, [0.60, 0.90, 0.30, 0.10, 0.80, 0.45, 1.30]),
    (1, 0.0, [0.15, 0.55, 0.35]),
    # All wrong.
    (0, 0.0, [2.00, 1.00, 0.50]),
    (0, 0.0, [0.33]),
    (0, -1.0, [0.12, 0.34, 0.56, 0.78, 0.90, 0.21, 0.43]),
    (0, 0.0, [1.40, 0.65]),
    # One of a single token in each class, and a correct one that is overlong.
    (1, 0.0, [0.08]),
    (0, 0.0, [1.75]),
    (1, -0.75, [0.95, 1.45, 0.02, 0.31, 0.64, 0.11, 0.27]),
    (0, 0.0, [0.52, 0.04, 1.05, 0.88]),
    # One correct answer, all of whose tokens are certain, and three wrong ones.
    (0, 0.0, [0.61, 0.003, 0.47]),
    (1, 0.0, [0.0, 0.0, 0.0, 0.0]),
    (0, 0.0, [2.60, 0.72]),
    (0, 0.0, [0.19, 0.38, 1.90, 0.07, 0.57]),
]
_LONGEST = max(len(row) for _, _, row in _RESPONSES)
_chance = random.Random(29)


def _padded(rows: list[list[float]]) -> list[list[float]]:
    return [row + [0.0] * (_LONGEST - len(row)) for row in rows]


CORRECT = [bool(verdict) for verdict, _, _ in _RESPONSES]
PENALTY = [penalty for _, penalty, _ in _RESPONSES]
GROUP = [i // SIZE for i in range(len(_RESPONSES))]
MASK = [[int(t < len(row)) for t in range(_LONGEST)] for _, _, row in _RESPONSES]
ENTROPY = _padded([row for _, _, row in _RESPONSES])
OLD = _padded([[_chance.uniform(-3.0, -0.1) for _ in row] for _, _, row in _RESPONSES])
"""Log-probabilities of the policy that sampled."""
NEW = _padded([[old + _chance.uniform(-0.6, 0.6) for old in kept] for kept in _naive.tokens_of(OLD, MASK, None)])
"""Those of the policy that learns: some tokens' ratios, and some responses', are beyond the clip."""
CLIP = (0.2, 0.28)
"""Below and above 1."""


def expected(estimator: str, penalty: list[float] = PENALTY) -> list[list[float]]:
    """Advantages (N, T) of "gtpo" or "grpo_s" with the plugin's defaults."""
    shape = {"gtpo": _naive.naive_gtpo, "grpo_s": _naive.naive_grpo_s}[estimator]
    _, found, _ = shape(ENTROPY, MASK, CORRECT, GROUP, 1.0, 0.1, "group", "group", penalty, None, 1e-8)
    return found


def expected_gradient(estimator: str, penalty: list[float] = PENALTY) -> list[list[float]]:
    """The loss's derivative with respect to each of `NEW`, (N, T).

    GTPO: Eq. 7's loss, the mean over all tokens of -min(w * A, clip(w) * A), w a token's ratio. GRPO-S: Eq. 11's, the
    mean over responses of the same with Eq. 10's ratio, the mean of the response's w.
    """
    tokens = sum(map(sum, MASK))
    rows = []
    for advantage, mask, new, old in zip(expected(estimator, penalty), MASK, NEW, OLD, strict=True):
        length = sum(mask)
        ratio = [exp(a - b) for a, b in zip(new[:length], old, strict=False)]
        if estimator == "grpo_s":
            decides, slope = [fsum(ratio) / length] * length, [w / length / len(MASK) for w in ratio]
        else:
            decides, slope = ratio, [w / tokens for w in ratio]
        free = [w < 1 + CLIP[1] if a > 0 else w > 1 - CLIP[0] for w, a in zip(decides, advantage, strict=False)]
        rows.append([-a * s if f else 0.0 for a, s, f in zip(advantage, slope, free, strict=False)])
    return _padded(rows)
