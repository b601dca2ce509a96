"""What `openrlhf_gtpo.trainers.trl` leans on in TRL 1.16, and the settings and rewards that it refuses."""

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from inspect import signature
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from trl import GRPOConfig, GRPOTrainer

from openrlhf_gtpo.errors import SettingsError, UserError
from openrlhf_gtpo.shaping import Shaped, grpo_s, gtpo

_SUPPORTED = "1.16."
_OVERRIDDEN = {
    "_calculate_rewards": "self inputs prompts completions completion_ids_list",
    "_compute_loss": "self model inputs",
    "_generate_and_score_completions": "self inputs",
    "_get_per_token_logps_and_entropies": (
        "self model input_ids attention_mask logits_to_keep batch_size compute_entropy"
    ),
}

_Rule = tuple[str, list[Any] | None, str]
"""Names of arguments of GRPOTrainer or GRPOConfig; what they may be, first the fix (None: their default); why."""

_ALWAYS: list[_Rule] = [
    ("scale_rewards multi_objective_aggregation", None, "has no effect, since shaping normalises the rewards")
]
_OF_SHAPE: dict[Any, list[_Rule]] = {
    gtpo: [
        ("importance_sampling_level", None, "is not GTPO's, whose ratio is a token's (Eq. 7)"),
        ("off_policy_mask_threshold", None, "goes by the sign of a response's advantage, and every token has its own"),
        ("loss_type", ["dapo", "grpo", "bnpo", "dr_grpo", "cispo", "sapo"], "weighs whole responses, and GTPO tokens"),
    ],
    grpo_s: [
        ("loss_type", ["grpo"], "is not GRPO-S's loss, which is a mean over responses (Eq. 10)"),
        (
            "beta top_entropy_quantile off_policy_mask_threshold",
            None,
            "goes by single tokens, and GRPO-S's loss has one term a response (Eq. 10)",
        ),
        ("vllm_importance_sampling_mode", ["sequence_mask", "sequence_truncate"], "weighs single tokens"),
    ],
}
_OTHER = (
    "makes tokens come from another distribution than the policy's, whose entropies these are "
    "(sampler_entropies=True takes those of vLLM's sampler)"
)
_TRUNCATED: list[_Rule] = [
    ("top_p top_k repetition_penalty vllm_structured_outputs_regex", None, _OTHER),
    ("min_p generation_kwargs", [None, 0.0, {}], _OTHER),
]
_ELSEWHERE = "does not sample a response in one call of this process's vLLM, which sampler_entropies needs"
_SAMPLED: list[_Rule] = [
    ("use_vllm", [True], "leaves out vLLM, whose sampler's entropies sampler_entropies takes"),
    ("vllm_mode tools rollout_func environment_factory", None, _ELSEWHERE),
]
_MISMATCHED: list[_Rule] = [
    (
        "vllm_importance_sampling_correction",
        [False],
        "weighs responses with probabilities of the policy's whole distribution over those of the sampler's, "
        "which top_p and the like changed",
    )
]


def check_trl() -> None:
    """Make sure that GRPOTrainer is the one that is overridden.

    Raises:
        UserError: it is of another version of TRL, or another package has replaced its methods.
    """
    found = version("trl")
    if not found.startswith(_SUPPORTED) or not all(
        " ".join(signature(getattr(GRPOTrainer, name)).parameters).startswith(expected)
        for name, expected in _OVERRIDDEN.items()
    ):
        raise UserError(
            f"GTPOTrainer overrides {', '.join(_OVERRIDDEN)} of GRPOTrainer as they are in TRL {_SUPPORTED}x, but "
            f"found {GRPOTrainer.__module__}.{GRPOTrainer.__qualname__} of TRL {found}: "
            f"`pip install 'trl=={_SUPPORTED}*'`, and import nothing that replaces GRPOTrainer."
        )


def check_settings(shape: Callable[..., Shaped], sampler_entropies: bool, given: Mapping[str, Any]) -> None:
    """Refuse settings that would have no effect or be wrong, given the arguments of GRPOTrainer by their names.

    Raises:
        SettingsError: one sentence for each setting.
        ValueError: an option of the shape is wrong.
    """
    method = getattr(shape, "func", shape)
    if method not in _OF_SHAPE:
        raise SettingsError(
            f"shape={shape!r} has to be gtpo or grpo_s of openrlhf_gtpo.shaping, or a functools.partial of one."
        )
    two = torch.tensor([True, False])
    shape(torch.ones(2, 1), torch.ones(2, 1), two, torch.zeros(2, dtype=torch.long))  # it checks its options
    defaults = {name: field.default for name, field in GRPOConfig.__dataclass_fields__.items()}
    settings = {**defaults, **vars(given.get("args") or GRPOConfig), **given}

    def refused(rules: list[_Rule]) -> list[str]:
        return [
            f"{name}={settings[name]!r} {why}: set it to {right[0]!r}."
            for names, values, why in rules
            for name in names.split()
            if settings.get(name) not in (right := [defaults.get(name)] if values is None else values)
        ]

    found = refused(_ALWAYS + _OF_SHAPE[method])
    if not sampler_entropies:
        found += refused(_TRUNCATED)
    else:
        found += refused(_SAMPLED + (_MISMATCHED if refused(_TRUNCATED) else []))
    if found:
        raise SettingsError("\n".join(found))


def place_of(correct: str, names: Sequence[str], weights: torch.Tensor) -> int:
    """The place of the reward function that says what is correct; the first where ``correct`` is empty.

    Raises:
        SettingsError: there is no such function, or its weight is not 1.
    """
    if correct and correct not in names:
        raise SettingsError(f"correct={correct!r} names no reward function: name one of {', '.join(names)}.")
    place = names.index(correct or names[0])
    if weights[place] != 1:
        raise SettingsError(
            f"reward_weights={weights.tolist()} weighs {names[place]}, which says what is correct: give it the weight "
            "1.0; alpha1 and alpha2, options of the shape, weigh correctness and entropy."
        )
    return place


def verdicts(
    rewards: torch.Tensor, weights: torch.Tensor, names: Sequence[str], place: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Take TRL's rewards, (N, F) float with NaN where a function said None, apart.

    Returns:
        (N,) bool, whether a response is correct; (N,) bool, whether there is a verdict; (N,) float, the penalty: the
        other functions' rewards, weighted.

    Raises:
        ValueError: a verdict is neither 0 nor 1 nor NaN.
    """
    verdict, others = rewards[:, place], torch.arange(len(names), device=rewards.device) != place
    judged = ~verdict.isnan()
    wrong = verdict[judged & (verdict != 0) & (verdict != 1)]
    if len(wrong):
        raise ValueError(
            f"The reward function {names[place]} gave {wrong[0].item():g}, and GTPO and GRPO-S need 0 (wrong), "
            "1 (correct) or None: name the function that says so with correct=; the others become penalties."
        )
    return verdict == 1, judged, (rewards * weights.to(rewards) * others).nansum(1)


def taken_apart(pairs: Sequence[Sequence[Sequence[Any]]]) -> tuple[torch.Tensor, list[list[list[float]]]]:
    """Take the entropies out of what vLLM's hooked sampler gave as log-probabilities.

    Args:
        pairs: for each response and token, log-probability and entropy in either order: TRL sorts them by rank.

    Returns:
        (B, T) float32, nats, 0 after a response's end; and the log-probabilities, a list of one for each token.

    Raises:
        UserError: a token has no entropy.
    """
    if not all(len(pair) == 2 and None not in pair and max(pair) >= 0 for row in pairs for pair in row):
        raise UserError(
            "vLLM sampled a token without an entropy: a vLLM whose sampler the hook covers gives one (the table of "
            "versions in docs/vllm_versions.md), unless the policy's logits are NaN."
        )
    # log-probability <= 0 <= entropy
    entropy = pad_sequence([torch.tensor([max(pair) for pair in row]) for row in pairs], batch_first=True)
    return entropy, [[[min(pair)] for pair in row] for row in pairs]
