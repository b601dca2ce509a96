"""The table of estimators: the values of ``--algo.advantage.estimator`` besides OpenRLHF's own.

To add an estimator, write a function (`openrlhf_gtpo.algorithms.edge` is a short one) and a line in `ESTIMATORS`; its
flags, help and metrics follow from these. Both may be in a file of one's own, which ``FILE.py:NAME`` names, or a
function of tensors without such a line; docs/extending.md shows both. The driver reads the table before it imports
torch, so a line gives its function by name."""

import functools
import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from openrlhf_gtpo.algorithms import user_file


@dataclass(frozen=True)
class Flag:
    """A flag. A function of an estimator gets the value as an argument named by the last part of the flag's name."""

    name: str
    """As on the command line, without the dashes: ``shaping.alpha1``."""
    options: Mapping[str, Any]
    """Arguments of ``add_argument``: type, default, help, ..."""
    allows: Callable[[Any], bool] = lambda value: True
    """Whether a value that the parser took is within bounds."""
    rule: str = ""
    """The bounds, after "--FLAG is VALUE, but "."""

    @property
    def option(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def default(self) -> Any:
        return self.options.get("default")

    def told(self, value: Any) -> str:
        """The flag with a value, for a message: ``--edge.clip is 2.0 3.0``."""
        return f"--{self.name} is {' '.join(map(str, value)) if isinstance(value, list) else value}"

    def fault(self, value: Any) -> str | None:
        """A sentence about a value out of bounds; None for one within them, and for None, which is no value."""
        return None if value is None or self.allows(value) else f"{self.told(value)}, but {self.rule}."


@dataclass(frozen=True)
class Estimator:
    """A line of the table."""

    title: str
    """Its name in messages."""
    sentence: str
    """Its definition in one sentence, with its source, an arXiv number unless it is a user's own; for ``--help``."""
    function: str
    """``module:name`` of a function that takes `estimators.Rollouts` and the value of each of ``flags`` by name, and
    returns an `estimators.Estimate`. A ValueError stops the run with its text."""
    needs_correctness: bool = True
    """Whether it treats correct and wrong responses differently, so that scores have to be binary."""
    openrlhfs_own: bool = False
    """Whether OpenRLHF has one of this name. Then OpenRLHF's is used, and ours only for groups of different sizes."""
    per_response: bool = False
    """Whether its objective is a mean over responses, with one clip per response (`openrlhf_gtpo.policy.loss`)."""
    flags: tuple[Flag, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """What the function gets besides, by name."""
    loss: str | None = None
    """``module:name`` of a subclass of OpenRLHF's PolicyLoss; None for OpenRLHF's own. Its classmethod ``like`` takes
    OpenRLHF's loss, and the value of each of ``loss_flags`` by name."""
    loss_flags: tuple[Flag, ...] = ()

    @property
    def all_flags(self) -> tuple[Flag, ...]:
        """Those of the function and those of the loss, each once."""
        return tuple({flag.name: flag for flag in (*self.flags, *self.loss_flags)}.values())

    def load(self) -> Callable[..., Any]:
        """The function, which takes the rollouts and the value of each of ``flags`` by name."""
        function: Callable[..., Any] = _named(self.function)
        return functools.partial(function, **self.arguments) if self.arguments else function

    def load_loss(self) -> Any:
        """The loss's class; None for OpenRLHF's own."""
        return None if self.loss is None else _named(self.loss)


def _named(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


Bounds = tuple[Callable[[Any], bool], str]


def flag(name: str, text: str, bounds: Bounds | None = None, **options: Any) -> Flag:
    """A flag.

    Args:
        name: as on the command line, without the dashes.
        text: its help.
        bounds: `Flag.allows` and `Flag.rule`.
        options: further arguments of ``add_argument``.
    """
    return Flag(name, {**options, "help": text}, *(bounds or ()))


A_WEIGHT: Bounds = (lambda value: math.isfinite(value) and value >= 0, "a weight is a number from 0 up")
A_SHARE: Bounds = (lambda value: 0 < value <= 1, "a share is above 0 and at most 1")
AT_LEAST_ONE: Bounds = (lambda value: value >= 1, "needs to be at least 1")
_ALGORITHMS = "openrlhf_gtpo.algorithms"
_HERE = f"{_ALGORITHMS}.estimators"

SHAPING = (
    flag(
        "shaping.alpha1", "weight of correctness, beta1 for grpo_s (default: 1.0)", A_WEIGHT, type=float, default=1.0
    ),
    flag("shaping.alpha2", "weight of entropy, beta2 for grpo_s (default: 0.1)", A_WEIGHT, type=float, default=0.1),
    flag(
        "shaping.over",
        "mean and std that normalise the shaped rewards (Eq. 6): of the whole scope, with 0 for the other class, "
        "or of each class by itself, which removes the difference between correct and wrong (default: group)",
        choices=["group", "class"],
        default="group",
    ),
    flag(
        "shaping.scope",
        "mean and std per prompt group or over the rollout batch (default: group)",
        choices=["group", "batch"],
        default="group",
    ),
    flag(
        "shaping.entropy_clip",
        "clamp entropies to [LOW, HIGH] nats before shaping (default: off)",
        (lambda clip: 0 <= clip[0] < clip[1], "needs 0 <= LOW < HIGH, in nats"),
        type=float,
        nargs=2,
        metavar=("LOW", "HIGH"),
    ),
    flag(
        "shaping.weights",
        "what stands where the formulas have the entropy H; all but entropy are controls. shuffled: the same "
        "entropies, permuted by --train.seed among the tokens of a position, group and class (grpo_s: among the "
        "responses of a group and class); uniform: 1; surprisal: minus the token's log-probability; inverse: 1/H "
        "for correct and H for wrong ones (default: entropy)",
        choices=["entropy", "shuffled", "uniform", "surprisal", "inverse"],
        default="entropy",
    ),
)
"""Flags of both GTPO and GRPO-S; the arguments of `openrlhf_gtpo.shaping.gtpo` and `grpo_s`, and what stands for the
entropies (`openrlhf_gtpo.algorithms.weights`)."""

CLIP_COV_BOUNDS = flag(
    "clip_cov.bounds",
    "clip_cov: covariances between which a token may be cut (default: 1.0 5.0)",
    (lambda bounds: bounds[0] < bounds[1], "needs LOW < HIGH"),
    type=float,
    nargs=2,
    default=[1.0, 5.0],
    metavar=("LOW", "HIGH"),
)

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
        loss="openrlhf_gtpo.policy.loss:SequenceRatioLoss",
    ),
    "group_norm": Estimator(
        "GRPO",
        "reward minus the group's mean, divided by its standard deviation (arXiv 2402.03300)",
        f"{_HERE}:group_norm",
        needs_correctness=False,
        openrlhfs_own=True,
    ),
    "entropy_advantage": Estimator(
        "Entropy advantage",
        "GRPO's advantage plus a bonus for a token's entropy, bounded by the advantage's size (arXiv 2506.14758)",
        f"{_ALGORITHMS}.entropy_advantage:entropy_advantage",
        needs_correctness=False,
        flags=(
            flag(
                "entropy_advantage.alpha",
                "entropy_advantage: weight of the entropy (default: 0.4)",
                A_WEIGHT,
                type=float,
                default=0.4,
            ),
            flag(
                "entropy_advantage.kappa",
                "entropy_advantage: the bonus is at most the advantage's size by this (default: 2.0)",
                (
                    lambda kappa: math.isfinite(kappa) and kappa > 1,
                    "has to be above 1, so that no advantage's sign turns",
                ),
                type=float,
                default=2.0,
            ),
        ),
    ),
    "edge": Estimator(
        "EDGE-GRPO",
        "GRPO's advantage by the response's mean entropy, relative to the group's (arXiv 2507.21848)",
        f"{_ALGORITHMS}.edge:edge",
        needs_correctness=False,
        flags=(
            flag(
                "edge.clip",
                "edge: clamp the divisor to [LOW, HIGH] (default: off, as in the paper)",
                (lambda clip: 0 < clip[0] <= 1 <= clip[1], "needs 0 < LOW <= 1 <= HIGH"),
                type=float,
                nargs=2,
                metavar=("LOW", "HIGH"),
            ),
        ),
    ),
    "clip_cov": Estimator(
        "Clip-Cov",
        "GRPO without the gradient of a few tokens whose log-probability and advantage vary together "
        "(arXiv 2505.22617)",
        f"{_ALGORITHMS}.covariance:clip_cov",
        needs_correctness=False,
        flags=(
            flag(
                "clip_cov.share",
                "clip_cov: share of a batch's tokens that is cut (default: 0.0002)",
                A_SHARE,
                type=float,
                default=2e-4,
            ),
            CLIP_COV_BOUNDS,
        ),
        loss="openrlhf_gtpo.policy.covariance_loss:ClipCovLoss",
        loss_flags=(CLIP_COV_BOUNDS,),
    ),
    "kl_cov": Estimator(
        "KL-Cov",
        "GRPO with a KL penalty on the tokens whose log-probability and advantage vary together most "
        "(arXiv 2505.22617)",
        f"{_ALGORITHMS}.covariance:kl_cov",
        needs_correctness=False,
        flags=(
            flag(
                "kl_cov.share",
                "kl_cov: share of a batch's tokens that is penalised (default: 0.002)",
                A_SHARE,
                type=float,
                default=2e-3,
            ),
        ),
        loss="openrlhf_gtpo.policy.covariance_loss:KLCovLoss",
        loss_flags=(
            flag("kl_cov.coef", "kl_cov: weight of the KL penalty (default: 1.0)", A_WEIGHT, type=float, default=1.0),
        ),
    ),
}
"""Name on the command line -> estimator."""

_OF_THIS_FILE = dict(ESTIMATORS)


def estimator_flags() -> list[Flag]:
    """The flags of all estimators, each once."""
    return list({flag.name: flag for estimator in ESTIMATORS.values() for flag in estimator.all_flags}.values())


def ours() -> list[str]:
    """The names that OpenRLHF does not know."""
    return [name for name, estimator in ESTIMATORS.items() if not estimator.openrlhfs_own]


def in_a_file(name: str) -> bool:
    """Whether a value of the flag names an estimator in a file of one's own."""
    return ".py:" in name or name.endswith(".py")


def line_of(name: str) -> Estimator | None:
    """The line of the estimator that the flag names, in the table or in a file of one's own, which is loaded once in
    each process; None for one that OpenRLHF alone has. A function without a line gets one.

    Raises:
        FileUnusable: the file cannot be imported, or has neither such a line nor such a function.
    """
    if not in_a_file(name):
        return ESTIMATORS.get(name)
    path, key = user_file.parts(name)
    function = getattr(user_file.load(path), key, None)
    line = ESTIMATORS.get(key)
    if line is _OF_THIS_FILE.get(key):  # None, or not the user's
        if not callable(function):
            raise user_file.FileUnusable(
                f"{path} has no function {key} and adds no estimator of this name: define one, or write "
                f'ESTIMATORS["{key}"] = Estimator(...) in it'
            )
        return Estimator(
            f"{path.name}:{key}",
            "a function of your own",
            f"{_ALGORITHMS}.user_function:function",
            needs_correctness=False,
            arguments={"function": name},
        )
    if not isinstance(line, Estimator):
        raise user_file.FileUnusable(
            f'ESTIMATORS["{key}"] of {path} is {type(line)!r}, but a line is an Estimator of '
            "openrlhf_gtpo.algorithms.table"
        )
    return line


def is_ours(name: str) -> bool:
    """Whether OpenRLHF does not know the estimator that the flag names."""
    line = line_of(name)
    return line is not None and not line.openrlhfs_own
