"""A completion that is graded, as a document that is made once: where its answer may stand, and what is read there."""

from __future__ import annotations

import re
from functools import cached_property

from math_reward.grader.extraction.boxes import BOX, Statement, boxes_in
from math_reward.grader.extraction.document import plain, shown
from math_reward.grader.extraction.phrases import last_phrase
from math_reward.grader.extraction.prompt import cut_prompt, is_quoted_box, without_quote
from math_reward.grader.extraction.question import asked_truth, asked_value
from math_reward.grader.extraction.statement import END_CHARACTERS, SCANNED_CHARACTERS, span_of, stated_in
from math_reward.grader.extraction.thoughts import answering
from math_reward.grader.verdict import Mode

PASSAGE_CHARACTERS = 4_000
"""How much of a completion's end may be its labelled passages or its table."""
_TAG = re.compile(r"</?[a-z_]{1,20}>")


class Document:
    """A completion and its prompt. Each reading of its text is made when it is first asked for.

    Args:
        response: what the model wrote.
        prompt: what it was asked, if that is known.
    """

    def __init__(self, response: str, prompt: str | None) -> None:
        self.prompt = prompt
        self.text = answering(response, prompt)
        """The part of the response that may state its answer."""
        self._response = response

    @staticmethod
    def read(completion: str, prompt: str | None) -> Document | None:
        """The document in a completion that begins with its prompt; None if the prompt is not in it."""
        response = completion if prompt is None else cut_prompt(completion, prompt)
        if response is None:
            return None
        return Document(response if prompt is None else without_quote(response, prompt), prompt)

    @property
    def is_thought(self) -> bool:
        """Whether it has words, and none behind its thought."""
        return bool(self._response.strip()) and not self.text.strip()

    @cached_property
    def has_box(self) -> bool:
        """Whether a box begins in it."""
        return BOX.search(self.text) is not None

    @property
    def is_cut_off(self) -> bool:
        """Whether it ends in its only box."""
        return self.has_box and not boxes_in(self.text)

    @property
    def quotes_its_box(self) -> bool:
        """Whether its last box is quoted from its prompt."""
        return self.prompt is not None and is_quoted_box(self._response, self.prompt)

    @cached_property
    def visible(self) -> str:
        """Its end without comments and programs."""
        return shown(self.text[-SCANNED_CHARACTERS:])

    @cached_property
    def passages(self) -> str:
        """Its end without what only dresses a text."""
        return plain(self.text[-PASSAGE_CHARACTERS:])

    @cached_property
    def is_announced(self) -> bool:
        """Whether its answer stands in a box or behind a phrase."""
        return self.has_box or last_phrase(self.text[-END_CHARACTERS:]) is not None

    def stated(self, mode: Mode) -> Statement | None:
        """The final answer; of a text without boxes also a number in a last sentence that repeats the question."""
        said = stated_in(self.visible, mode)
        if said is not None or mode is Mode.STRICT or self.prompt is None or self.has_box:
            return said
        text = _TAG.sub("", self.text).rstrip()
        asked = asked_value(text[-END_CHARACTERS:], None, self.prompt)
        return None if asked is None else _where(text, asked)

    def asked(self, said: Statement) -> Statement:
        """An answer, or the number that the question asks for in its place."""
        if said.boxed or self.prompt is None:
            return said
        text = said.before + said.text + said.after
        asked = asked_value(text, said.text, self.prompt)
        return said if asked is None else _where(text, asked)

    @cached_property
    def truths(self) -> tuple[bool | None, bool | None]:
        """What the last sentence says of the property that the prompt asks for, if the answer is not announced."""
        return (None, None) if self.is_announced or self.prompt is None else asked_truth(self.visible, self.prompt)

    def span_of(self, said: Statement, completion: str) -> tuple[int, int] | None:
        """Where an answer stands in the whole completion."""
        return span_of(said, self.text, len(completion) - len(self._response) + self._response.rfind(self.text))


def _where(text: str, answer: str) -> Statement:
    """An answer of a text without boxes, with what stands around its last place."""
    before, _, after = text.rpartition(answer)
    return Statement(answer, boxed=False, before=before, after=after)
