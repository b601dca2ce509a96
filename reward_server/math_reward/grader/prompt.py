"""Cuts the prompt off a decoded sequence, so that nothing the prompt says can be graded.

OpenRLHF sends ``query``, the prompt and the response decoded together, beside ``prompt``. The two may differ: the
tokenizer adds or renders special tokens and white space in another way, and a prompt that is too long loses its
beginning.
"""

import re

# <|im_start|>, DeepSeek's full-width <｜User｜>, and the angle-bracket tokens of Llama, Gemma and T5.
_SPECIAL_TOKEN = r"<\|[^<>|\s]{1,64}\|>|<｜[^<>｜\s]{1,64}｜>|</?s>|<(?:bos|eos|pad|unk|start_of_turn|end_of_turn)>"
_NOT_CONTENT = re.compile(rf"(?:{_SPECIAL_TOKEN}|\s)+")

TAIL_CHARACTERS = 64
"""How much of the prompt's end, special tokens and white space not counted, identifies it."""


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
