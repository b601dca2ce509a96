"""inspect_ai: a scorer."""

from typing import Any

import inspect_ai.scorer as its  # type: ignore[import-not-found]
from inspect_ai.solver import TaskState  # type: ignore[import-not-found]

from math_reward.adapters.verdicts import Verdicts


@its.scorer(metrics=[its.accuracy(), its.stderr()])
def math_reward(url: str | list[str] | None = None, **how: Any) -> its.Scorer:
    """Grades the model's output; any one of a sample's targets may match.

    Args:
        url: of a reward service; None grades in worker processes of this process.
        how: the other arguments of ``Verdicts``.

    An output without a verdict is an error of its sample, and no score.
    """
    verdicts = Verdicts(url, **how)

    async def score(state: TaskState, target: its.Target) -> its.Score:
        result = await verdicts.grade_one(state.output.completion, list(target), state.input_text)
        return its.Score(
            value=its.CORRECT if result.correct else its.INCORRECT,
            answer=result.answer,
            explanation=result.detail,
            metadata={"verdict": result.verdict, "stage": result.stage},
        )

    return score
