"""Runs in the controller: counts the rewards of one rollout batch, and says what of its first one a user should look
at."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

EXAMPLES, TOKENS = 3, 30
"""Responses, and of each its last tokens, that are shown where all rewards are one."""


@dataclass
class RewardTally:
    """Counts and waiting times of the rewards of one rollout batch."""

    failed_responses: int = 0
    dropped_groups: int = 0
    seconds_sum: float = 0.0
    seconds_max: float = 0.0
    responses: int = 0
    last_error: str = ""
    reasons: Counter[str] = field(default_factory=Counter)
    """Why groups lost a reward."""
    last_token_at: float = 0.0
    last_reward_at: float = 0.0
    rewards: set[float] = field(default_factory=set)
    verdicts: Counter[str] = field(default_factory=Counter)
    truncated: int = 0
    """Responses that were cut off."""
    examples: dict[str, dict[str, Any]] = field(default_factory=dict)
    """A response to each of the first prompts."""

    def add(self, response: dict[str, Any]) -> None:
        """Count one response of a rollout actor."""
        self.responses += 1
        self.truncated += bool(response.get("truncated"))
        self.seconds_sum += response["reward_seconds"]
        self.seconds_max = max(self.seconds_max, response["reward_seconds"])
        self.last_token_at = max(self.last_token_at, response["generated_at"])
        self.last_reward_at = max(self.last_reward_at, response["generated_at"] + response["reward_seconds"])
        if response["reward_error"] is not None:
            self.failed_responses += 1
            self.last_error = response["reward_error"]
        elif response["reward"] is not None:
            self.rewards.add(float(response["reward"]))
            self.verdicts[response["verdict"]] += 1
            if len(self.examples) < EXAMPLES:
                self.examples.setdefault(response["prompt"], response)

    def nothing_to_learn(self, tokenizer: Any) -> list[str]:
        """Where all rewards are one: a warning and its examples, a line each; else nothing."""
        if len(self.rewards) != 1 or self.responses < 2:
            return []
        listed = ", ".join(f"{verdict} {count}" for verdict, count in self.verdicts.most_common() if verdict)
        lines = [
            f"warning: all {self.verdicts.total()} responses of the first step have the reward {min(self.rewards):g}"
            f"{f' ({listed})' if listed else ''}, so that nothing is learned from them; look at the labels, at what "
            "the prompts ask for, and at these:"
        ]
        for prompt, response in self.examples.items():
            begins, tokens = response["action_ranges"][0][0], response["observation_tokens"]
            end = tokenizer.decode(tokens[max(begins, len(tokens) - TOKENS) :], skip_special_tokens=True)
            verdict = f", {response['verdict']}" if response["verdict"] else ""
            lines.append(f"  {prompt[-100:]!r} -> {end!r}; the label is {response['label']!r}{verdict}")
        return lines

    def cut_off(self) -> list[str]:
        """Where more than half of the responses did not come to their end: a warning; else nothing."""
        if 2 * self.truncated <= self.responses:
            return []
        return [
            f"warning: {self.truncated:,} of the {self.responses:,} responses of the first step were cut off before "
            "they ended, and an answer that is cut off is rarely right: raise --rollout.max_new_tokens, or look at "
            "how the model ends its answers (docs/training.md)"
        ]

    def metrics(self) -> dict[str, float]:
        """Metric name -> value. Waiting times are from a response's last token to its reward.

        ``reward/wait_after_generation`` is from the last token of the whole batch to its last reward. That is the time
        that grading adds to a step; before, it runs beside generation.
        """
        return {
            "reward/failed_responses": float(self.failed_responses),
            "reward/dropped_groups": float(self.dropped_groups),
            "reward/wait_seconds_mean": self.seconds_sum / max(1, self.responses),
            "reward/wait_seconds_max": self.seconds_max,
            "reward/wait_after_generation": self.last_reward_at - self.last_token_at,
        }
