"""The service's answers, for the OpenAPI document."""

from typing import Any

from pydantic import BaseModel, Field

from math_reward.grader import Stage, Verdict
from math_reward.pool.item import Graded

REFERENCE_CHARACTERS = 200
"""How much of a reference an answer has."""


class GradeResult(BaseModel):
    """The grade of one completion."""

    reward: float = Field(description="1.0 for a correct completion, else 0.0.")
    correct: bool
    verdict: Verdict
    answer: str | None = Field(description="The answer that was found in the completion.")
    reference: str = Field(
        description="The reference answer, at most 200 characters of it. Of several: the one that matched, else "
        "the first."
    )
    detail: str | None = Field(description="One sentence that says why, if the verdict alone does not.")
    stage: Stage | None = Field(description="The stage that decided; null if nothing was compared.")
    span: tuple[int, int] | None = Field(
        description="Where the answer stands in the completion: its first character and the one after its last; null "
        "if there is none, or it stands there in other words."
    )
    seconds: float = Field(description="Time that grading took, without the wait for a worker.")


class GradeResponse(BaseModel):
    """The grades, in the order of the request's items."""

    results: list[GradeResult]


class RewardResponse(BaseModel):
    """The answer for OpenRLHF.

    For one query, which is what its rollout workers send, every value is a number: they turn it into a tensor of shape
    (1,), while a list with one number would become (1, 1). For any other number of queries every value is a list with
    one entry per query.
    """

    rewards: float | list[float]
    scores: float | list[float]
    extra_logs: dict[str, float | list[float]] = Field(
        description="1.0 for the verdict of the query and 0.0 for the others; the same keys in every answer."
    )


def result_of(graded: Graded) -> dict[str, Any]:
    """The JSON of a ``GradeResult``. A reference that is no answer may be as long as a body, and is shown in part."""
    result = graded.as_dict()
    if len(graded.reference) > REFERENCE_CHARACTERS:
        result["reference"] = f"{graded.reference[:REFERENCE_CHARACTERS]}…"
    return result


def reward_answer(graded: list[Graded]) -> dict[str, Any]:
    """The JSON of a ``RewardResponse``."""

    def per_query(values: list[float]) -> float | list[float]:
        return values[0] if len(values) == 1 else values

    rewards = per_query([float(g.verdict == Verdict.CORRECT.value) for g in graded])
    logs = {
        f"verdict_{verdict.value}": per_query([float(g.verdict == verdict.value) for g in graded])
        for verdict in Verdict
    }
    return {"rewards": rewards, "scores": rewards, "extra_logs": logs}
