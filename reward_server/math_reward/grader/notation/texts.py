"""Reads answers in words, with or without mathematics among them: ``分层抽样``, ``all integers k >= 2``."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from math_reward.grader.notation.values import TEXT_COMMAND

_WORD_OR_IDEOGRAPH = re.compile(r"[^\W\d_]{2,}|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_CONDITION = "条件"
"""An ending ("condition") that may be left out: 充分不必要条件 is 充分不必要."""
_COMMAND = re.compile(r"\\[a-zA-Z]+")
_NOISE = re.compile(r"[\s.,;:!?'\"()。，、；：！？（）「」《》*]+")


class Wording(NamedTuple):
    """A text as its words and the mathematics between them."""

    words: tuple[str, ...]
    between: tuple[str, ...]
    """The text before, between and after the words, one more than these: mathematics, or nothing."""


def wording(normal: str) -> Wording | None:
    """A normalised text as words; None if it has none, or breaks off in the middle of a formula."""
    text = TEXT_COMMAND.sub(" ", normal)
    if text.count("{") != text.count("}"):
        return None
    text = unicodedata.normalize("NFKC", text)
    words: list[str] = []
    between: list[str] = [""]
    position = 0
    for match in _WORD_OR_IDEOGRAPH.finditer(_COMMAND.sub(lambda m: "\0" * len(m[0]), text)):
        between[-1] = _bare(text[position : match.start()], "")
        words.append(match[0].lower())
        between.append("")
        position = match.end()
    between[-1] = _bare(text[position:])
    if words and not between[-1] and len(words[-1]) > len(_CONDITION) + 1:
        words[-1] = words[-1].removesuffix(_CONDITION)
    return Wording(tuple(words), tuple(between)) if words else None


def _bare(text: str, ending: str = "!") -> str:
    """Mathematics between words, without the punctuation around it; empty if there is only punctuation.

    ``ending`` may stand after it: ``!A`` is not A, and ``n! divisible`` not n.
    """
    if not _NOISE.sub("", text).strip("{}") and (ending or not text.endswith("!")):
        return ""
    return text.lstrip(" .,;:'\"{}。，、；：").rstrip(f" .,;:?'\"{{}}。，、；：！？{ending}")
