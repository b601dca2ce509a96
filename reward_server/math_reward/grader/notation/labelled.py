"""Answers to several questions, part by part: "(1) 3; (2) 5", "最大值为5，最小值为1"."""

from __future__ import annotations

import re

from math_reward.grader.words.foreign_words import IDEOGRAPH

MAX_PARTS = 12
_NUMBERINGS = (
    tuple("123456789"), tuple("abcdefgh"), ("i", "ii", "iii", "iv", "v", "vi"), ("I", "II", "III", "IV", "V"),
)  # fmt: skip
_NUMBER = re.compile(r"(?:^|(?<=[\s;,.。}$]))\( ?([1-9a-h]|[ivIV]{1,4}) ?\) ?[:.、]? ?")
_DIVISION = re.compile(r"[,;，；。]")
_LABELLED = re.compile(
    rf"(?:\\text ?\{{ ?)?(?P<label>[{IDEOGRAPH}][{IDEOGRAPH}A-Za-z]{{0,11}}) ?(?:\}} ?)?"
    r"(?P<is>为|是|等于|[:=]|(?:\\text ?\{ ?(?:为|是|等于) ?\}))? ?"
    rf"(?P<value>[^{IDEOGRAPH}]{{1,300}}(?:\\text ?\{{ ?[{IDEOGRAPH}]{{1,4}} ?\}})?)$"
)
_COPULA = re.compile("(?:分别)?(?:等于|为|是)$")
# "more than", "not", "about", "or": with these the value is not the answer.
_NUMERAL = "一二两三四五六七八九十百千万"
_NO_LABEL = re.compile(
    "[不非未没无约或超至错误假伪否负]|[大小多少高低]于|可能|以[上下内外]|左右|[最更][多少]$|另一|其他|其它"
    # The value of something else: half, double, the square, the answer and one.
    rf"|半(?!径|圆|轴|球|长|短|年|月|天|焦|周)|倍(?!数)|平方|立方|倒数|相反数|[加减乘除][以上去掉]?[{_NUMERAL}]"
    "|反过来|翻[倍番]|阶乘|开方|开根"
)
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


def names_another(label: str) -> bool:
    """Whether Chinese words before a value name something else than the answer, or doubt it."""
    return _NO_LABEL.search(label) is not None


def numbered(text: str) -> list[str] | None:
    """The answers to the questions (1), (2) ... in order; None if the text is not numbered like this."""
    marks = list(_NUMBER.finditer(text))
    if not 2 <= len(marks) <= MAX_PARTS or marks[0].start() != 0:
        return None
    names = tuple(mark[1] for mark in marks)
    if not any(names == numbering[: len(names)] for numbering in _NUMBERINGS):
        return None
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    answers = [text[mark.end() : end].strip(" ,;.。") for mark, end in zip(marks, ends, strict=True)]
    return answers if all(answers) else None


def labelled(text: str) -> list[tuple[str, str]] | None:
    """The parts of a text in which Chinese words name each value: the name ("" if a part has none) and the value."""
    parts = [part.strip() for part in _divided(text)]
    if not 1 <= len(parts) <= MAX_PARTS:
        return None
    named: list[tuple[str, str]] = []
    for part in parts:
        match = _LABELLED.fullmatch(part)
        if match is not None:
            label = _COPULA.sub("", match["label"])
            if not label or names_another(label):
                return None
            named.append((label, match["value"].strip()))
        elif re.search(f"[{IDEOGRAPH}]", part) or not part:
            return None
        else:
            named.append(("", part))
    return named if any(label for label, _ in named) else None


def _divided(text: str) -> list[str]:
    """``text``, split at the commas outside brackets."""
    parts: list[str] = []
    depth, start = 0, 0
    for index, character in enumerate(text):
        depth += (character in _OPENING) - (character in _CLOSING)
        if depth == 0 and _DIVISION.match(character):
            parts.append(text[start:index])
            start = index + 1
    parts.append(text[start:])
    return parts
