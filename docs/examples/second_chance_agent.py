"""--train.agent_func_path docs/examples/second_chance_agent.py: an agent that gives a wrong answer one more try.

OpenRLHF makes one SecondChance for each response, and calls step() after each turn of the policy.
"""

import torch
from openrlhf.utils.agent import AgentInstanceBase, MultiTurnAgentExecutor

HINT = "\n<|im_start|>user\nWrong. Again.<|im_end|>\n<|im_start|>assistant\n"  # the turn ended with <|im_end|>


class SecondChance(AgentInstanceBase):
    def __init__(self, *args, **kwargs):
        self.turn = 0

    async def step(self, state_dict, **kwargs):
        """Look at the policy's last turn.

        Args:
            state_dict: "action_text", what the policy wrote; "label", the reference answer; "observation_text",
                everything before; "sampling_params".
        """
        self.turn += 1
        right = f"\\boxed{{{state_dict['label']}}}" in state_dict["action_text"]
        done = right or self.turn == 2
        return {
            "rewards": torch.tensor(float(right)),
            "scores": torch.tensor(float(right)),  # 0 or 1: what GTPO and GRPO-S tell right from wrong by
            "environment_feedback": "" if done else HINT,
            "done": done,
            "sampling_params": state_dict["sampling_params"],
            "extra_logs": {"turns": torch.tensor(float(self.turn))},  # becomes a metric
        }


class AgentExecutor(MultiTurnAgentExecutor):
    def __init__(self):
        super().__init__(SecondChance)
