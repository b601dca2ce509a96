"""verifiers (and prime-rl, which trains on its tasks): a reward of a task."""

from typing import Any

from math_reward.adapters.verdicts import Verdicts


class MathReward:
    """A function that rewards a correct last reply with 1.0 and any other with 0.0, for ``vf.reward``.

    Args:
        answer: the field of the task's data with the reference answer.
        url: of a reward service; None grades in worker processes of this process.
        how: the other arguments of ``Verdicts``.

    A reply without a verdict is an error of its rollout (``TaskError``), and no reward.
    """

    def __init__(self, answer: str = "answer", url: Any = None, **how: Any) -> None:
        self.__name__ = "math_reward"  # the reward's name in the trace
        self._answer = answer
        self._verdicts = Verdicts(url, **how)

    async def __call__(self, task: Any, trace: Any) -> float:
        reference = getattr(task, self._answer)
        return (await self._verdicts.grade_one(trace.last_reply, reference, task.prompt_text)).reward
