"""An agent of two turns: the answer of the first is looked at, and the second may mend it."""

from typing import Any

import torch
from openrlhf.utils.agent import AgentInstanceBase, MultiTurnAgentExecutor


class SecondChance(AgentInstanceBase):
    """Answers a first wrong attempt with a hint, and ends after the second."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.turn = 0

    async def step(self, state_dict: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        self.turn += 1
        right = f"\\boxed{{{state_dict['label']}}}" in state_dict["action_text"]
        done = right or self.turn == 2
        reward = torch.tensor(float(right))
        return {
            "rewards": reward,
            "scores": reward,
            "environment_feedback": ""
            if done
            else "<|im_start|>user\nLast digit of 1+1?<|im_end|>\n<|im_start|>assistant\n",
            "done": done,
            "sampling_params": state_dict["sampling_params"],
            "extra_logs": {"turns": torch.tensor(float(self.turn))},
        }


class AgentExecutor(MultiTurnAgentExecutor):
    def __init__(self) -> None:
        super().__init__(SecondChance)
