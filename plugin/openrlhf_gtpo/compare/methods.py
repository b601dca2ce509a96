"""What is compared: estimators with their options, and the controls of GTPO and GRPO-S."""

import argparse
import copy
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from openrlhf_gtpo.algorithms.controls import permuted
from openrlhf_gtpo.algorithms.estimators import Estimator, estimator_named, try_out
from openrlhf_gtpo.algorithms.forking import forking_tokens
from openrlhf_gtpo.algorithms.punishment import overlong_punishment
from openrlhf_gtpo.batch import RolloutBatch, correctness
from openrlhf_gtpo.errors import SettingsError, UserError
from openrlhf_gtpo.flags import shaping_flags
from openrlhf_gtpo.registry import OURS, label_of

NAMES = ("grpo", *OURS)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """``--estimators``, and training's ``--shaping.*``, each with several values."""
    parser.add_argument(
        "--estimators",
        default=",".join(NAMES),
        help=f"{', '.join(NAMES)} or FILE.py:NAME, a function of your own, with commas between them "
        f"({','.join(NAMES)}); those that read entropies bring their controls",
    )
    training = argparse.ArgumentParser(add_help=False)
    shaping_flags(training.add_argument)
    for action in training._actions:
        switch = action.nargs == 0
        if action.dest != "shaping.save_rollouts":
            parser.add_argument(
                *action.option_strings,
                nargs="+",
                type=action.type or str,
                choices=["off", "on"] if switch else action.choices,
                metavar=None if switch or action.choices else "X",
                default=["off"] if switch else [action.default],
                help=f"as in training; with several values, each is a method: {action.help}",
            )


@dataclass(frozen=True)
class Method:
    """An estimator with its options."""

    name: str
    estimator: Estimator
    options: Mapping[str, Any]
    """Names and values of ``--shaping.*``."""
    shuffled: bool = False
    """Whether entropies change places (`openrlhf_gtpo.algorithms.controls`)."""

    def weights(self, batch: RolloutBatch) -> torch.Tensor:
        """(N, T) what the gradient of each token's log-probability is multiplied with in training: the advantage, by
        a response's length divided where the objective is GRPO-S's mean over responses (Eq. 10).

        Raises:
            ValueError: the function failed or an entropy is wrong.
            NotBinary: it needs correctness, and a score is neither 1, 0 nor -1.
        """
        batch = copy.copy(batch)
        if self.options["grop"] == "on" or self.estimator.needs_correctness:
            correctness(batch.scores)
        if self.options["grop"] == "on":
            assert batch.correct is not None
            punishment = overlong_punishment(batch.mask.sum(-1), batch.correct, batch.group)
            batch.reward = batch.given_reward + punishment
        if self.shuffled:
            batch.entropy = self._shuffled(batch)
        taken = {name: self.options[name] for name in self.estimator.options}
        weights = self.estimator.function(batch, **taken).advantages
        if self.estimator.per_response:
            return weights / batch.mask.sum(-1, keepdim=True).clamp(min=1)
        if self.options["top_entropy_share"] < 1:
            weights = weights * forking_tokens(batch.entropy, batch.mask, self.options["top_entropy_share"])
        return weights

    def _shuffled(self, batch: RolloutBatch) -> torch.Tensor:
        """(N, T) entropies of other tokens; where a response's mean is what counts, the mean of another response."""
        assert batch.correct is not None
        if not self.estimator.per_response:
            return permuted(batch.entropy, batch.mask, batch.correct, batch.group)
        length = batch.mask.sum(-1, keepdim=True)
        mean = batch.entropy.sum(-1, keepdim=True) / length.clamp(min=1)
        return permuted(mean, length > 0, batch.correct, batch.group) * batch.mask


def weights_of(methods: Sequence[Method], batch: RolloutBatch) -> dict[str, torch.Tensor]:
    """Name -> `Method.weights`.

    Raises:
        UserError: one failed.
    """
    try:
        return {method.name: method.weights(batch) for method in methods}
    except ValueError as error:
        raise UserError(str(error)) from error


def methods(args: argparse.Namespace) -> list[Method]:
    """GRPO first; then each estimator with each combination of its options, and after GTPO and GRPO-S their controls.

    Raises:
        SettingsError: there is no such estimator, or a function of the user's does not work.
    """
    named = vars(args)
    values = {name.removeprefix("shaping."): given for name, given in named.items() if name.startswith("shaping.")}
    clip = values["entropy_clip"]
    if clip != [None]:
        pairs = [tuple(clip[i : i + 2]) for i in range(0, len(clip), 2)]
        if len(clip) % 2 or any(low > high for low, high in pairs):
            raise SettingsError("--shaping.entropy_clip needs two numbers for each method, LOW and HIGH, LOW first.")
        values["entropy_clip"] = pairs
    found: dict[str, Method] = {}
    for name in ["grpo", *filter(None, map(str.strip, args.estimators.split(",")))]:
        for method in _variants(name, _estimator(name, args.n), values):
            found.setdefault(method.name, method)
    return list(found.values())


def _estimator(name: str, n: int) -> Estimator:
    try:
        if ".py:" in name:
            try_out(name, n)
        found = estimator_named(name)
    except ValueError as error:
        raise SettingsError(f"--estimators: {error}") from None
    if found is None:
        raise SettingsError(f"--estimators: there is no {name}: take {', '.join(NAMES)} or FILE.py:NAME.")
    return found


def _variants(name: str, estimator: Estimator, values: Mapping[str, list[Any]]) -> Iterator[Method]:
    label = label_of(name)
    own = [*estimator.options, "grop", *([] if estimator.per_response else ["top_entropy_share"])]
    default = {key: given[0] for key, given in values.items()}
    has_controls = "alpha2" in estimator.options

    def method(options: Mapping[str, Any], shuffled: bool = False) -> Method:
        said = [f"{key} {_said(options[key])}" for key in own if options[key] != default[key]]
        return Method(", ".join([label, *said, *["shuffled"] * shuffled]), estimator, options, shuffled)

    for combination in itertools.product(*(values[key] for key in own)):
        options = {**default, **dict(zip(own, combination, strict=True))}
        yield method(options)
        if has_controls and options["alpha2"]:
            yield method({**options, "alpha2": 0.0})
            yield method(options, shuffled=True)


def _said(value: Any) -> str:
    if isinstance(value, tuple):
        return "-".join(map(_said, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
