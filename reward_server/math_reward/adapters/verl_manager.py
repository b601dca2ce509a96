"""verl: a reward manager, for ``reward.reward_manager``."""

from typing import Any

from verl import DataProto
from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase

from math_reward.adapters.verdicts import text_of
from math_reward.adapters.verl import verdicts_of


class MathRewardManager(RewardManagerBase):
    """Grades each sample's last response, beside its prompt. It calls no ``compute_score``.

    ``+reward.math_reward_url=http://...`` names a service; without it, grading is done in worker processes of each of
    verl's reward workers.
    """

    def __init__(self, config: Any, tokenizer: Any, compute_score: Any = None, **_: Any) -> None:
        super().__init__(config, tokenizer, compute_score)
        self._verdicts = verdicts_of(config.reward.get("math_reward_url"))

    async def run_single(self, data: DataProto) -> dict[str, Any]:
        """The reward of one sample, 1.0 or 0.0, and its verdict; raises ClientError if there is none."""
        sample = data[-1:][0]
        row, ids = sample.non_tensor_batch, sample.batch["responses"]
        ids = ids[: sample.batch["attention_mask"][-len(ids) :].sum()]
        response = self.tokenizer.decode(ids, skip_special_tokens=True)
        reference = row["reward_model"]["ground_truth"]
        reference = reference.tolist() if hasattr(reference, "tolist") else reference
        prompt = text_of(list(row["raw_prompt"])) if "raw_prompt" in row else None
        result = await self._verdicts.grade_one(response, reference, prompt)
        return {"reward_score": result.reward, "reward_extra_info": {"acc": result.reward, "verdict": result.verdict}}
