"""Requests and answers of the service, with an example of each."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from math_reward.grader import Verdict
from math_reward.grader.prompt import after_prefix
from math_reward.workers import Graded, Item


def _as_text(reference: Any) -> str:
    """Data sets hold numbers as numbers. A null is a reference that is missing: its item is ``bad_reference``."""
    if reference is None:
        return ""
    if isinstance(reference, str | int | float) and not isinstance(reference, bool):
        return str(reference)
    raise ValueError("a reference answer is text or a number")


Reference = Annotated[
    str,
    BeforeValidator(_as_text),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]}, mode="validation"),
]


class GradeItem(BaseModel):
    """One completion to grade."""

    model_config = ConfigDict(extra="forbid")

    completion: str = Field(description="What the model wrote.")
    reference: Reference = Field(description="The reference answer: LaTeX or plain text, or a number.")
    prompt: str | None = Field(
        default=None,
        description="What the completion answers; never graded: a completion that begins with it loses it first.",
    )

    def item(self) -> Item:
        answer = None if self.prompt is None else after_prefix(self.completion, self.prompt)
        return Item(self.completion if answer is None else answer, self.reference)


class GradeRequest(BaseModel):
    """Completions to grade."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "items": [
                        {"completion": r"Half of it, so \boxed{\frac{1}{2}}.", "reference": "0.5"},
                        {"completion": r"Q: 1+1? A: \boxed{3}", "reference": "2", "prompt": "Q: 1+1? A:"},
                    ]
                }
            ]
        },
    )

    items: list[GradeItem]


class GradeResult(BaseModel):
    """The grade of one completion."""

    reward: float = Field(description="1.0 for a correct completion, else 0.0.")
    correct: bool
    verdict: Verdict
    answer: str | None = Field(description="The answer that was found in the completion.")
    reference: str
    detail: str | None = Field(description="Why, where the verdict alone does not say it.")
    seconds: float = Field(description="Time that grading took, without waiting for a worker.")

    @classmethod
    def of(cls, graded: Graded) -> "GradeResult":
        grade = graded.grade
        return cls(
            reward=grade.reward,
            correct=grade.correct,
            verdict=grade.verdict,
            answer=grade.answer,
            reference=grade.reference,
            detail=grade.detail,
            seconds=graded.seconds,
        )


class GradeResponse(BaseModel):
    """The grades, in the order of the request's items."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "results": [
                        {
                            "reward": 1.0,
                            "correct": True,
                            "verdict": "correct",
                            "answer": r"\frac{1}{2}",
                            "reference": "0.5",
                            "detail": None,
                            "seconds": 0.004,
                        },
                        {
                            "reward": 0.0,
                            "correct": False,
                            "verdict": "wrong",
                            "answer": "3",
                            "reference": "2",
                            "detail": None,
                            "seconds": 0.002,
                        },
                    ]
                }
            ]
        }
    )

    results: list[GradeResult]


class RewardRequest(BaseModel):
    """What OpenRLHF posts to `--reward.remote_url`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"query": [r"Q: 1+1? A: \boxed{2}"], "prompts": ["Q: 1+1? A:"], "labels": ["2"]}]
        }
    )

    query: list[str] = Field(description="Each prompt with its response, decoded together.")
    prompts: list[str]
    labels: list[Reference] = Field(description="The reference answers.")

    @model_validator(mode="after")
    def _same_length(self) -> "RewardRequest":
        lengths = [len(self.query), len(self.prompts), len(self.labels)]
        if len(set(lengths)) != 1:
            raise ValueError(
                "query, prompts and labels have {}, {} and {} entries; give as many of each".format(*lengths)
            )
        return self

    def items(self) -> list[Item]:
        return [
            Item(query, label, prompt)
            for query, prompt, label in zip(self.query, self.prompts, self.labels, strict=True)
        ]


class RewardResponse(BaseModel):
    """What OpenRLHF reads.

    For one query, which is what its rollout workers send, every value is a number: they make a tensor of shape (1,)
    out of it, where a list of one would give (1, 1). For any other number of queries every value is a list with one
    entry per query.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "rewards": 1.0,
                    "scores": 1.0,
                    "extra_logs": {f"verdict_{v.value}": float(v == "correct") for v in Verdict},
                }
            ]
        }
    )

    rewards: float | list[float]
    scores: float | list[float]
    extra_logs: dict[str, float | list[float]] = Field(
        description="1.0 for the verdict of the query and 0.0 for the others; the same keys in every answer."
    )

    @classmethod
    def of(cls, graded: list[Graded]) -> "RewardResponse":
        def per_query(values: list[float]) -> float | list[float]:
            return values[0] if len(values) == 1 else values

        rewards = per_query([g.grade.reward for g in graded])
        logs = {
            f"verdict_{verdict.value}": per_query([float(g.grade.verdict is verdict) for g in graded])
            for verdict in Verdict
        }
        return cls(rewards=rewards, scores=rewards, extra_logs=logs)


class Health(BaseModel):
    """The service is up, or ready."""

    status: str = Field(examples=["ok"])


class Problem(BaseModel):
    """Why a request was refused."""

    detail: str = Field(examples=["Item 3, field 'reference': field required."])
