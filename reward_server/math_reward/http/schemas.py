"""The service's requests and answers, with an example of each."""

import dataclasses
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    PlainValidator,
    StrictBool,
    WithJsonSchema,
    model_validator,
)

from math_reward.grader import Mode, Options, Stage, Verdict
from math_reward.json_lines import MAX_REFERENCES, reference_of
from math_reward.nearest import no_such
from math_reward.pool.item import DEFAULT_OPTIONS, Graded, Item

_ONE_REFERENCE = [{"type": "string"}, {"type": "number"}, {"type": "null"}]
_REFERENCES = {"type": "array", "items": {"anyOf": _ONE_REFERENCE}, "maxItems": MAX_REFERENCES}

Reference = Annotated[
    str | tuple[str, ...],
    PlainValidator(reference_of),
    WithJsonSchema({"anyOf": [*_ONE_REFERENCE, _REFERENCES]}, mode="validation"),
]


class Body(BaseModel):
    """A part of a request's body. The refusal of an unknown field names the field that was probably meant."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_fields(cls, value: Any) -> Any:
        if isinstance(value, dict) and (unknown := next((n for n in value if n not in cls.model_fields), None)):
            raise ValueError(no_such("field", unknown, cls.model_fields))
        return value


def _option(name: str, **bounds: Any) -> Any:
    text = Options.__dataclass_fields__[name].metadata["help"]
    return Field(default=None, description=f"{text[0].upper()}{text[1:]}.", **bounds)


class GradeOptions(Body):
    """How to grade. An option that an item leaves out comes from the request; one that the request leaves out has its
    default.
    """

    mode: Mode | None = _option("mode")
    rel_tol: float | None = _option("rel_tol", ge=0, le=1, allow_inf_nan=False)
    allow_rounded: StrictBool | None = _option("allow_rounded")
    allow_unevaluated: StrictBool | None = _option("allow_unevaluated")
    evaluated: StrictBool | None = _option("evaluated")

    def over(self, options: Options) -> Options:
        """``options``, with the options that are set here in their place."""
        given = {name: value for name in GradeOptions.model_fields if (value := getattr(self, name)) is not None}
        return dataclasses.replace(options, **given)


class GradeItem(Body):
    """One completion to grade."""

    completion: str = Field(description="What the model wrote.")
    reference: Reference = Field(
        description="The reference answer: LaTeX, plain text or a number; or a list, of which any one may match."
    )
    prompt: str | None = Field(
        default=None,
        description="The prompt, which is never graded: it is cut off a completion that begins with it.",
    )

    options: GradeOptions | None = None

    def item(self, options: Options) -> Item:
        if self.options is not None:
            options = self.options.over(options)
        return Item(self.completion, self.reference, self.prompt, options, prompt_may_be_absent=True)


def _text_or_place(prompt: Any) -> Any:
    if prompt is None or isinstance(prompt, str):
        return prompt
    if isinstance(prompt, int) and not isinstance(prompt, bool) and prompt >= 0:
        return prompt
    raise ValueError("a prompt is text, or its place in 'prompts', from 0")


class RequestItem(GradeItem):
    """One of a request's completions, whose prompt other items may share."""

    prompt: Annotated[
        str | int | None,
        PlainValidator(_text_or_place),
        WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "null"}]}),
    ] = Field(  # type: ignore[assignment]
        default=None,
        description="What the completion answers, or its place in the request's `prompts`, from 0; never graded: a "
        "completion that begins with it loses it first.",
    )


class GradeRequest(Body):
    """Completions to grade."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "items": [
                        {"completion": r"Half of it, so \boxed{\frac{1}{2}}.", "reference": "0.5"},
                        {"completion": r"Q: 1+1? A: \boxed{3}", "reference": ["2", "two"], "prompt": "Q: 1+1? A:"},
                    ],
                    "options": {"mode": "strict"},
                }
            ]
        },
    )

    # Only the first fault is looked for, since every value in the body could be one.
    items: Annotated[list[RequestItem], FailFast()]
    prompts: Annotated[list[str], FailFast()] = Field(
        default=[],
        description="Prompts that several items answer, each once; an item has the place of its own as its `prompt`.",
    )
    options: GradeOptions | None = Field(default=None, description="Options for all items that do not set their own.")

    @model_validator(mode="after")
    def _each_place_is_there(self) -> "GradeRequest":
        for index, item in enumerate(self.items):
            if isinstance(item.prompt, int):
                if item.prompt >= len(self.prompts):
                    raise ValueError(
                        f"Item {index}, field 'prompt': there is no place {item.prompt} in 'prompts', which has "
                        f"{len(self.prompts)}"
                    )
                item.prompt = self.prompts[item.prompt]
        return self

    @property
    def prompt_characters(self) -> int:
        """Of the prompts of all items, a shared one counted for each."""
        return sum(len(item.prompt) for item in self.items if isinstance(item.prompt, str))

    def to_grade(self) -> Iterator[Item]:
        options = DEFAULT_OPTIONS if self.options is None else self.options.over(DEFAULT_OPTIONS)
        return (item.item(options) for item in self.items)


class GradeResult(BaseModel):
    """The grade of one completion."""

    reward: float = Field(description="1.0 for a correct completion, else 0.0.")
    correct: bool
    verdict: Verdict
    answer: str | None = Field(description="The answer that was found in the completion.")
    reference: str = Field(description="The reference answer. Of several: the one that matched, else the first.")
    detail: str | None = Field(description="One sentence that says why, if the verdict alone does not.")
    stage: Stage | None = Field(description="The stage that decided; null if nothing was compared.")
    seconds: float = Field(description="Time that grading took, without the wait for a worker.")


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
                            "stage": "exact",
                            "seconds": 0.0004,
                        },
                        {
                            "reward": 0.0,
                            "correct": False,
                            "verdict": "wrong",
                            "answer": "3",
                            "reference": "2",
                            "detail": None,
                            "stage": "exact",
                            "seconds": 0.0002,
                        },
                    ]
                }
            ]
        }
    )

    results: list[GradeResult]


class RewardRequest(BaseModel):
    """The request of OpenRLHF to `--reward.remote_url`. Unknown fields are allowed: a later OpenRLHF may send more."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"query": [r"Q: 1+1? A: \boxed{2}"], "prompts": ["Q: 1+1? A:"], "labels": ["2"]}]
        }
    )

    query: Annotated[list[str], FailFast()] = Field(description="Each prompt with its response, decoded together.")
    prompts: Annotated[list[str], FailFast()]
    labels: Annotated[list[Reference], FailFast()] = Field(description="The reference answers.")

    @model_validator(mode="after")
    def _same_length(self) -> "RewardRequest":
        lengths = [len(self.query), len(self.prompts), len(self.labels)]
        if len(set(lengths)) != 1:
            raise ValueError(
                "query, prompts and labels have {}, {} and {} entries: send the same number of each".format(*lengths)
            )
        return self

    def to_grade(self) -> Iterator[Item]:
        return map(Item, self.query, self.labels, self.prompts)


class RewardResponse(BaseModel):
    """The answer for OpenRLHF.

    For one query, which is what its rollout workers send, every value is a number: they turn it into a tensor of shape
    (1,), while a list with one number would become (1, 1). For any other number of queries every value is a list with
    one entry per query.
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


def reward_answer(graded: list[Graded]) -> dict[str, Any]:
    """The JSON of a ``RewardResponse``."""

    def per_query(values: list[float]) -> float | list[float]:
        return values[0] if len(values) == 1 else values

    rewards = per_query([g.grade.reward for g in graded])
    logs = {
        f"verdict_{verdict.value}": per_query([float(g.grade.verdict is verdict) for g in graded])
        for verdict in Verdict
    }
    return {"rewards": rewards, "scores": rewards, "extra_logs": logs}


class Health(BaseModel):
    """The service is up, or ready."""

    status: str = Field(examples=["ok"])


class Problem(BaseModel):
    """Why a request was refused."""

    detail: str = Field(examples=["Item 3, field 'reference': field required."])
