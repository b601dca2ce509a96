"""What may be sent to the service: the structs that a body is decoded into, which the OpenAPI document shows too."""

import dataclasses
import math
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from math_reward.grader import Mode, Options
from math_reward.json_lines import MAX_REFERENCES, reference_of
from math_reward.pool.item import Item

_OneReference = str | int | float | None
Reference = _OneReference | Annotated[list[_OneReference], Meta(max_length=MAX_REFERENCES)]


class Unusable(ValueError):
    """A request cannot be used; the message is a sentence that says which part of it, and why."""

    status = 422


class WrongMediaType(Unusable):
    """A body is not sent as JSON."""

    status = 415


class Body(Struct, forbid_unknown_fields=True):
    """A part of a request's body."""


def _help_of(option: str) -> Meta:
    text = Options.__dataclass_fields__[option].metadata["help"]
    return Meta(description=f"{text[0].upper()}{text[1:]}.")


class GradeOptions(Body):
    """How to grade. An option that an item leaves out comes from the request; one that the request leaves out has its
    default.
    """

    mode: Annotated[Mode | None, _help_of("mode")] = None
    rel_tol: Annotated[Annotated[float, Meta(ge=0, le=1)] | None, _help_of("rel_tol")] = None
    allow_rounded: Annotated[bool | None, _help_of("allow_rounded")] = None
    allow_unevaluated: Annotated[bool | None, _help_of("allow_unevaluated")] = None
    evaluated: Annotated[bool | None, _help_of("evaluated")] = None

    def __post_init__(self) -> None:
        if self.rel_tol is not None and math.isnan(self.rel_tol):
            raise ValueError("rel_tol has to be a number from 0 to 1")

    def over(self, options: Options) -> Options:
        """``options``, with the options that are set here in their place."""
        given = {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}
        return dataclasses.replace(options, **given)


class GradeItem(Body):
    """One completion to grade."""

    completion: Annotated[str, Meta(description="What the model wrote.")]
    reference: Annotated[
        Reference,
        Meta(
            description="The reference answer: LaTeX, plain text or a number; or a list, of which any one may match."
        ),
    ]
    prompt: Annotated[
        str | None,
        Meta(
            description="The prompt, which is never graded: it is cut off a completion that begins with it.",
        ),
    ] = None
    options: GradeOptions | None = None

    def item(self, options: Options) -> Item:
        """The item for the pool. ``options`` are those that it does not set."""
        if self.options is not None:
            options = self.options.over(options)
        reference = reference_of(self.reference)
        return Item(self.completion, reference, self.prompt, options, prompt_may_be_absent=True)


class RequestItem(GradeItem):
    """One of a request's completions, whose prompt other items may share."""

    prompt: Annotated[
        str | Annotated[int, Meta(ge=0)] | None,
        Meta(
            description="What the completion answers, or its place in the request's `prompts`, from 0; never graded: "
            "a completion that begins with it loses it first."
        ),
    ] = None  # type: ignore[assignment]


class GradeRequest(Body):
    """Completions to grade."""

    items: list[RequestItem]
    prompts: Annotated[
        list[str],
        Meta(
            description="Prompts that several items answer, each once; an item has the place of its own as its "
            "`prompt`."
        ),
    ] = []
    options: Annotated[GradeOptions | None, Meta(description="Options for all items that do not set their own.")] = (
        None
    )

    def to_grade(self, defaults: Options) -> list[Item]:
        """The items for the pool.

        Args:
            defaults: of the service.

        Raises:
            Unusable: an item's prompt is not there.
        """
        options = defaults if self.options is None else self.options.over(defaults)
        for index, item in enumerate(self.items):
            if isinstance(item.prompt, int):
                if item.prompt >= len(self.prompts):
                    raise Unusable(f"Item {index} has prompt {item.prompt}; there are {len(self.prompts)} prompts.")
                item.prompt = self.prompts[item.prompt]
        return [item.item(options) for item in self.items]


class RewardRequest(Struct):
    """The request of OpenRLHF to `--reward.remote_url`. Unknown fields are allowed: a later OpenRLHF may send more."""

    query: Annotated[list[str], Meta(description="Each prompt with its response, decoded together.")]
    prompts: list[str]
    labels: Annotated[list[Reference], Meta(description="The reference answers.")]

    def to_grade(self, defaults: Options) -> list[Item]:
        """The items for the pool.

        Args:
            defaults: of the service.

        Raises:
            Unusable: the fields have different lengths.
        """
        lengths = [len(self.query), len(self.prompts), len(self.labels)]
        if len(set(lengths)) != 1:
            raise Unusable(
                "query, prompts and labels have {}, {} and {} entries: send the same number of each.".format(*lengths)
            )
        given = zip(self.query, map(reference_of, self.labels), self.prompts, strict=True)
        return [Item(query, reference, prompt, defaults) for query, reference, prompt in given]
