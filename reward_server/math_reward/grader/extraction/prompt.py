"""Cuts the prompt off a decoded sequence, so that nothing in the prompt can be graded.

OpenRLHF sends ``prompt`` and ``query``, which is the prompt and the response decoded together. The query may not begin
with exactly the prompt: the tokenizer may change special tokens and white space, and cuts the start of a long prompt.
"""

import re

from math_reward.grader.extraction.special_tokens import SPECIAL_TOKEN

_NOT_CONTENT = re.compile(rf"(?:{SPECIAL_TOKEN}|\s)+")

IDENTIFYING_CHARACTERS = 64
"""How much of the prompt's end, without special tokens and white space, identifies it."""


SHORTEST_QUOTE = 24
"""A shorter piece of a prompt may occur in a response by chance."""


QUOTED_CHARACTERS = 40
"""How much text before a box must also stand in the prompt: "so the answer is" alone is no quotation."""

LONGEST_PHRASE = 160
"""Text of this length that stands in the prompt word for word is a quoted example, and not a set phrase."""

OWN_CHARACTERS = 40
"""With this many characters before a set phrase, the response has words of its own."""


def cut_prompt(query: str, prompt: str) -> str | None:
    """The part of ``query`` after ``prompt``, or None if the prompt cannot be found in it.

    It tries the exact prefix; then the prefix without special tokens and white space; then the last occurrence of the
    prompt's tail, likewise. The last occurrence, because few-shot prompts repeat themselves: the text after any other
    could still be the prompt's.
    """
    after = after_prefix(query, prompt)
    if after is not None:
        return after
    wanted, _ = _content(prompt)
    content, position = _content(query)
    tail = wanted[-IDENTIFYING_CHARACTERS:]
    start = content.rfind(tail)
    return None if start < 0 else _after(query, position, start + len(tail))


def after_prefix(text: str, prompt: str) -> str | None:
    """The part of ``text`` after ``prompt``, or None if ``text`` does not begin with ``prompt``. Special tokens and
    white space do not count.
    """
    if text.startswith(prompt):
        return text[len(prompt) :]
    wanted, _ = _content(prompt)
    # This much of the text has all of the prompt, even with many special tokens.
    content, position = _content(text[: 4 * len(prompt) + 1024])
    return _after(text, position, len(wanted)) if content.startswith(wanted) else None


def with_prompt(text: str, prompt: str | None) -> str:
    """``text`` with its prompt before it, unless it has it there already or there is none."""
    return text if prompt is None or after_prefix(text, prompt) is not None else prompt + text


def without_quote(response: str, prompt: str) -> str:
    """The part of a response after the last place where it repeats the prompt's end; all of it if it does not."""
    wanted, _ = _content(prompt[-4 * IDENTIFYING_CHARACTERS :])
    tail = wanted[-IDENTIFYING_CHARACTERS:]
    if len(tail) < SHORTEST_QUOTE:
        return response
    content, position = _content(response)
    start = content.rfind(tail)
    return response if start < 0 else _after(response, position, start + len(tail))


def is_quoted_box(response: str, prompt: str) -> bool:
    """Whether the last box of a response, with the words before it, is quoted from an example in the prompt.

    It is no quotation if the response has words of its own and only ends with a set phrase of the examples
    ("Therefore, the final answer is") and the same answer.
    """
    start = response.rfind("\\boxed")
    if start < QUOTED_CHARACTERS:
        return False
    line = response[start : start + IDENTIFYING_CHARACTERS].partition("}")[0]
    if response[start - QUOTED_CHARACTERS : start] + line not in prompt:
        return False
    shared = QUOTED_CHARACTERS
    while shared < min(start, LONGEST_PHRASE) and response[start - shared - 1 : start] + line in prompt:
        shared += 1
    own = response[: start - shared].rpartition("\\boxed")[2].strip()
    return shared >= LONGEST_PHRASE or len(own) < OWN_CHARACTERS


def _after(text: str, position: list[int], end: int) -> str:
    return text[position[end - 1] + 1 :] if end else text


def _content(text: str) -> tuple[str, list[int]]:
    """``text`` without special tokens and white space, and the position in ``text`` of each character that is left."""
    position: list[int] = []
    start = 0
    for gap in _NOT_CONTENT.finditer(text):
        position.extend(range(start, gap.start()))
        start = gap.end()
    position.extend(range(start, len(text)))
    return "".join(text[i] for i in position), position
