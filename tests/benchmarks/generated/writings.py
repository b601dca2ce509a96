"""How an answer is put down: eight habits of LaTeX, boxes of several models, sentences in many languages."""

# Notations are lists of texts: a line for each would be a page for each kind.
# ruff: noqa: E501

from __future__ import annotations

import random
import re
from collections.abc import Callable

_FRACTION = re.compile(r"\\frac\{(\d)\}\{(\d)\}")
_ROUND = re.compile(r"(?<![\\a-zA-Z])\(([^()\[\]]*)\)")


def _without_braces(text: str) -> str:
    return _FRACTION.sub(r"\\frac\1\2", text)


def _with_growing_brackets(text: str) -> str:
    return (
        _ROUND.sub(r"\\left(\1\\right)", text) if "\\left" not in text and text.count("(") == text.count(")") else text
    )


HABITS: dict[str, Callable[[str], str]] = {
    "as it is": lambda text: text,
    "display fractions": lambda text: text.replace("\\frac{", "\\dfrac{"),
    "no braces around digits": _without_braces,
    "growing brackets": _with_growing_brackets,
    "thin spaces": lambda text: text.replace(", ", r",\,").replace(" + ", r"\,+\,").replace(" = ", r"\;=\;"),
    "crosses for dots": lambda text: text.replace(r"\cdot", r"\times"),
    "display style": lambda text: rf"\displaystyle {text}",
    "a full stop and a space at the end": lambda text: rf"{text}\ .",
}

BOXED = [
    r"So the answer is $\boxed{%s}$.", r"\boxed{%s}", r"\[ \boxed{%s} \]", r"**Answer:** \boxed{ %s }", r"\boxed{%s.}",
    r"First I get \boxed{17}, but no: \boxed{%s}<|im_end|>", r"<think>\boxed{99}</think> It is \fbox{%s}",
    r"\boxed{$%s$}", r"<|begin_of_box|>%s<|end_of_box|>",
]  # fmt: skip
UNBOXED = [
    "The final answer is $%s$.", "Adding up, we are done.\n\n**Answer:** $%s$", "#### $%s$", "所以答案是$%s$。", "【答案】$%s$",
    "答えは$%s$です。", "정답은 $%s$입니다.", "La réponse est $%s$.", "Die Antwort lautet $%s$.", "La respuesta es $%s$.",
    "A resposta é $%s$.", "Ответ: $%s$", "الجواب هو $%s$", "उत्तर: $%s$", "Đáp án là $%s$.", "Cevap: $%s$",
    "<answer>$%s$</answer>", r"First I get \boxed{17}; <answer>$%s$</answer>", "Adding up, I have the result.\n\nTherefore, $%s$.",
    "Adding up, so we have $%s$",
]  # fmt: skip


def said(answer: str, source: random.Random) -> str:
    """A completion that ends with ``answer``, in one of the habits."""
    answer = HABITS[source.choice(list(HABITS))](answer)
    plain = "$" in answer or "\\text" in answer or not answer.isascii()
    template = source.choice(BOXED if plain or source.random() < 0.7 else UNBOXED)
    if "$" in answer:
        template = r"\boxed{%s}"
    return template.replace("%s", answer)
