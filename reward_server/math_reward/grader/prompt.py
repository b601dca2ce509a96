"""Cuts the prompt off a decoded sequence, so that nothing the prompt says can be graded.

OpenRLHF sends ``query``, the prompt and the response decoded together, beside ``prompt``. The two may differ: the
tokenizer adds or renders special tokens and white space in another way, and a prompt that is too long loses its
beginning.
"""

import re

from math_reward.grader.special_tokens import SPECIAL_TOKEN

_NOT_CONTENT = re.compile(rf"(?:{SPECIAL_TOKEN}|\s)+")

TAIL_CHARACTERS = 64
"""How much of the prompt's end, special tokens and white space not counted, identifies it."""


SHORTEST_QUOTE = 24
"""A shorter piece of a prompt may occur in a response by chance."""


QUOTED_CHARACTERS = 40
"""How much before a box has to stand in the prompt as well: "so the answer is" may be anybody's words."""

LONGEST_PHRASE = 160
"""So much that stands in the prompt word for word is no set phrase, but an example, quoted."""

OWN_CHARACTERS = 40
"""So many characters before a set phrase are the response's own words."""


def cut_prompt(query: str, prompt: str) -> str | None:
    """The part of ``query`` that follows ``prompt``, or None where the prompt cannot be found in it.

    Tried in turn: the exact prefix; the prefix without regard to special tokens and white space; the last occurrence
    of the prompt's tail, likewise. The last and not the first: what follows it is then never the prompt's own text,
    even where the prompt repeats itself, as few-shot prompts do.
    """
    after = after_prefix(query, prompt)
    if after is not None:
        return after
    wanted, _ = _content(prompt)
    content, position = _content(query)
    tail = wanted[-TAIL_CHARACTERS:]
    start = content.rfind(tail)
    return None if start < 0 else _after(query, position, start + len(tail))


def after_prefix(text: str, prompt: str) -> str | None:
    """The part of ``text`` after ``prompt``, with which it begins (special tokens and white space not counted), or
    None where it does not begin with it."""
    if text.startswith(prompt):
        return text[len(prompt) :]
    wanted, _ = _content(prompt)
    # However many special tokens the beginning has, this is enough of it for a prompt of so many characters.
    content, position = _content(text[: 4 * len(prompt) + 1024])
    return _after(text, position, len(wanted)) if content.startswith(wanted) else None


def with_prompt(text: str, prompt: str | None) -> str:
    """``text`` with its prompt before it, unless it has it there already or there is none."""
    return text if prompt is None or after_prefix(text, prompt) is not None else prompt + text


def without_quote(response: str, prompt: str) -> str:
    """The part of a response after the last place where it repeats the prompt's end, or all of it."""
    wanted, _ = _content(prompt[-4 * TAIL_CHARACTERS :])
    tail = wanted[-TAIL_CHARACTERS:]
    if len(tail) < SHORTEST_QUOTE:
        return response
    content, position = _content(response)
    start = content.rfind(tail)
    return response if start < 0 else _after(response, position, start + len(tail))


def is_quoted_box(response: str, prompt: str) -> bool:
    """Whether the last box of a response stands in the prompt with the words before it: an example, quoted.

    A response that has words of its own and concludes them with a phrase that the prompt's examples have too
    ("Therefore, the final answer is"), and with the same answer, says so itself.
    """
    start = response.rfind("\\boxed")
    if start < QUOTED_CHARACTERS:
        return False
    line = response[start : start + TAIL_CHARACTERS].partition("}")[0]
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
    """``text`` without special tokens and white space, and where each character that is left stood in ``text``."""
    position: list[int] = []
    start = 0
    for gap in _NOT_CONTENT.finditer(text):
        position.extend(range(start, gap.start()))
        start = gap.end()
    position.extend(range(start, len(text)))
    return "".join(text[i] for i in position), position
