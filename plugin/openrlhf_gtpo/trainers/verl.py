"""GTPO and GRPO-S (Tan et al., arXiv 2508.04349) in verl's synchronous trainer, with the entropies that verl computes.

verl loads this module where VERL_USE_EXTERNAL_MODULES=openrlhf_gtpo.trainers.verl is set; docs/adapters.md has the
settings. An option of `openrlhf_gtpo.shaping` is set as in +algorithm.shaping.alpha2=0.2.
"""

from functools import partial
from typing import Any

import torch

from openrlhf_gtpo.shaping import grpo_s, gtpo

TESTED = "0.9.1"

try:
    import transfer_queue as tq
    import verl
    from omegaconf import OmegaConf
    from verl.trainer.ppo.core_algos import agg_loss, register_adv_est, register_policy_loss
    from verl.trainer.ppo.v1.trainer_base import register_trainer
    from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

    if verl.__version__ != TESTED:
        raise ImportError(f"this is verl {verl.__version__}")
except ImportError as error:
    raise ImportError(
        f"openrlhf_gtpo.trainers.verl relies on internals of verl {TESTED} ({error}): pip install "
        f"'verl[verl-core]=={TESTED}', or take the module out of VERL_USE_EXTERNAL_MODULES."
    ) from error

_SHAPES = {"gtpo": gtpo, "grpo_s": grpo_s}
_rollouts: tuple[Any, ...] = ()
"""While `GTPOTrainer` computes advantages: entropies and masks (N, T), and what the reward function said of each."""


def _advantages(name: str, token_level_rewards: torch.Tensor, index: Any, config: Any, **_: Any) -> Any:
    if not _rollouts:
        raise ValueError(f"algorithm.adv_estimator={name} needs trainer.v1.trainer_mode=gtpo.")
    entropy, mask, said = _rollouts
    rewards = token_level_rewards.sum(1)
    # What a reward manager adds to the score, such as for an overlong response, is the penalty.
    scores = torch.tensor([float(one.get("score", one.get("acc", r))) for one, r in zip(said, rewards, strict=True)])
    verdicts = torch.tensor([float(one.get("acc", score)) for one, score in zip(said, scores, strict=True)])
    if not ((verdicts == 0) | (verdicts == 1)).all():
        raise ValueError(
            f"algorithm.adv_estimator={name} needs verdicts of 0 and 1, but found {sorted({*verdicts.tolist()})}: "
            'let the reward function return {"score": REWARD, "acc": 0 or 1}.'
        )
    places = {prompt: place for place, prompt in enumerate(index)}
    group, options = torch.tensor([places[prompt] for prompt in index]), _options(config)
    shaped = _SHAPES[name](entropy, mask, verdicts == 1, group, penalty=rewards - scores, **options)
    return shaped.advantages, shaped.rewards


for _name in _SHAPES:
    register_adv_est(_name)(partial(_advantages, _name))


def _options(algorithm: Any) -> Any:
    return OmegaConf.to_container(algorithm.get("shaping") or OmegaConf.create())


@register_trainer("gtpo")
class GTPOTrainer(PPOTrainerSync):
    """verl's synchronous trainer, whose estimators get the entropies of the pass that makes the old log-probabilities.

    Raises:
        TypeError, ValueError: a setting does not work with GTPO or GRPO-S; the message names it.
    """

    def __init__(self, config: Any) -> None:
        algorithm, actor, rollout = config.algorithm, config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
        chosen = [algorithm.adv_estimator, actor.policy_loss.loss_mode, actor.loss_agg_mode]
        if chosen[0] not in _SHAPES or ("grpo_s" in chosen and chosen != ["grpo_s", "grpo_s", "seq-mean-token-mean"]):
            raise ValueError(
                "trainer_mode=gtpo needs adv_estimator=gtpo or, for GRPO-S, adv_estimator=grpo_s with policy_loss."
                f"loss_mode=grpo_s and loss_agg_mode=seq-mean-token-mean, but they are {', '.join(chosen)}."
            )
        if (algorithm.get("rollout_correction") or {}).get("bypass_mode"):
            raise ValueError("rollout_correction.bypass_mode=true leaves out the entropies' pass: set it to false.")
        if (rollout.top_p, rollout.top_k) != (1, -1):
            found = f"rollout.top_p={rollout.top_p} and top_k={rollout.top_k}"
            raise ValueError(f"{found} cut off tokens that verl's entropies count: set them to 1 and -1.")
        one = torch.ones(1, 1)
        _SHAPES[chosen[0]](one, one, one[0] == 1, one[0].long(), **_options(algorithm))  # it checks its options
        config.trainer.v1.trainer_mode = "sync"  # verl compares it with this name for replay buffer and checkpoints
        super().__init__(config)

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        global _rollouts
        if any(not key.endswith("_0") for key in batch.keys):
            raise ValueError("an agent loop returned several outputs for one response, but GTPO needs one.")
        fields = ["entropy", "response_mask", "extra_fields"]
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=fields)
        said = [one.get("reward_extra_info", {}) for one in data.pop("extra_fields").tolist()]
        padded = data.to_padded_tensor()
        # verl's entropy is the difference of two sums: -1e-7 where a token is certain.
        _rollouts = padded["entropy"].float().clamp(min=0), padded["response_mask"], said
        try:
            return super()._compute_advantage(batch, metrics)
        finally:
            _rollouts = ()


@register_policy_loss("grpo_s")
def sequence_ratio_loss(
    old_log_prob: Any, log_prob: Any, advantages: Any, response_mask: Any, loss_agg_mode: str, config: Any, **more: Any
) -> tuple[torch.Tensor, dict[str, float]]:
    """Eq. 10 and 11 on tensors (N, T): one ratio and one clip for each response, the mean of its tokens' ratios."""
    on, weights = response_mask.bool(), more.get("rollout_is_weights")
    log_ratio = torch.where(on, log_prob - old_log_prob, 0.0).clamp(-20.0, 20.0)
    ratio = (log_ratio.exp() * on).sum(1, keepdim=True) / on.sum(1, keepdim=True).clamp(min=1)
    free = ratio * advantages
    clipped = ratio.clamp(1 - config.clip_ratio_low, 1 + config.clip_ratio_high) * advantages
    losses = -torch.minimum(free, clipped) * (1.0 if weights is None else weights)
    loss = agg_loss(losses, on, loss_agg_mode, **config.global_batch_info)
    return loss, {"actor/pg_clipfrac": ((clipped < free) & on).sum().item() / max(1, on.sum().item())}
