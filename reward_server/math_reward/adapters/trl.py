"""TRL: a reward function for ``GRPOTrainer(reward_funcs=...)``."""

from collections.abc import Callable, Sequence
from typing import Any

from math_reward.adapters.verdicts import Verdicts, text_of


class MathReward:
    """The reward is 1.0 for a correct completion and 0.0 for any other; completions may be texts or chat messages.

    Args:
        answer: the data set's column of reference answers.
        url: of a reward service; None grades in worker processes of this process.
        how: the other arguments of ``Verdicts``.

    A completion without a verdict ends the training step with an exception: TRL reads None as "not applicable".
    """

    def __init__(self, answer: str = "answer", *, url: Any = None, **how: Any) -> None:
        self.__name__ = "math_reward"  # TRL logs rewards/math_reward/mean
        self._answer = answer
        self._verdicts = Verdicts(url, **how)

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        log_extra: Callable[[str, list[str]], None] | None = None,
        **columns: Any,
    ) -> list[float]:
        if self._answer not in columns:
            known = [name for name, of in columns.items() if isinstance(of, list) and name != "completion_ids"]
            said = f"The data set has no column {self._answer!r}, but {', '.join(known) or 'only prompts'}"
            raise ValueError(f"{said}: name the one with the reference answers, MathReward(answer='...').")
        texts, questions = ([text_of(one) for one in column] for column in (completions, prompts))
        results = self._verdicts.grade(texts, columns[self._answer], questions)
        if log_extra is not None:
            log_extra("verdict", [result.verdict for result in results])
        return [result.reward for result in results]
