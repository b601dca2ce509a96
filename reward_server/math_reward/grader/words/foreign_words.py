"""Turns the words between and after formulas into LaTeX, in Chinese, Japanese, Korean and Russian answers: 和, または,
万, 度, units, counted things.
"""

from __future__ import annotations

import re

from math_reward.grader.words.chinese_numbers import (
    UNITS_AFTER_DIGITS,
    number_in_characters,
    number_in_digits_and_units,
)

IDEOGRAPH = "\u3400-\u9fff"
_FOREIGN = re.compile(f"[{IDEOGRAPH}、\u3040-\u30ff\uac00-\ud7af\u0400-\u04ff]")
# 42입니다, 42です: the end of a sentence, after a value.
_COPULA = re.compile(r"(?<=[\d}\w)])[ ]?(?:\\text ?\{ ?)?(?:입니다|이다|です|である)\.?(?: ?\})?[ .]{0,2}$")
_CIRCLED = re.compile("[①-⑳](?:[、,，和与]?[①-⑳]){0,19}")
_CIRCLED_DIGIT = re.compile("[①-⑳]")

_PHRASES = {
    phrase: meaning
    for meaning, phrases in {
        r"\text{no solution}": "无解/方程无解/해가 없다/해가 없습니다/해 없음/解なし/нет решений/нет корней",
        r"\text{no real solution}": "无实数解",
        r"\emptyset": "空集",
        r"\mathbb{R}": "全体实数/一切实数/任意实数",
        r"\text{does not exist}": "不存在",
        r"+\infty": "正无穷",
        r"-\infty": "负无穷",
    }.items()
    for phrase in phrases.split("/")
}
# Between two formulas, and not between two words.
_JOINT = re.compile(
    rf"(?<=[^{IDEOGRAPH}\s])[ ]?(?:\\text ?\{{ ?)?(以及|和|与|及|且|、|或者|或|또는|혹은|이거나|이고|그리고"
    r"|または|もしくは|かつ|および|или)"
    rf"(?: ?\}})?[ ]?(?=[^{IDEOGRAPH}\s])"
)
_OR = frozenset(["或", "或者", "또는", "혹은", "이거나", "または", "もしくは", "или"])
_MULTIPLE = re.compile(rf"(?<=\d)[ ]?(万亿|亿|万)(?![{IDEOGRAPH}]*[万亿]|\d)")
_DIGITS_AND_UNITS = re.compile(
    rf"(?<![\d.十百千万亿])(?<!\d,)\d{{1,16}}(?:\.\d{{1,8}})?(?P<units>{UNITS_AFTER_DIGITS})"
)
_POWERS = {"万": "4", "亿": "8", "万亿": "12"}
_DEGREE = re.compile(rf"(?<=[\d}})])[ ]?度(?![{IDEOGRAPH}])")

_UNITS = {
    "千米": "km", "公里": "km", "米": "m", "分米": "dm", "厘米": "cm", "毫米": "mm", "微米": "µm", "纳米": "nm",
    "千克": "kg", "公斤": "kg", "克": "g", "毫克": "mg", "吨": "ton", "升": "L", "毫升": "mL",
    "小时": "hours", "时": "hours", "分钟": "minutes", "秒": "seconds", "天": "days", "周": "weeks", "年": "years",
    "元": "yuan", "円": "yen", "美元": "dollars", "公顷": "hectare",
    "牛": "N", "牛顿": "N", "焦": "J", "焦耳": "J", "瓦": "W",
    "伏": "V", "安": "A", "欧": "Ω", "帕": "Pa", "赫兹": "Hz",
}  # fmt: skip
_POWERED = {"平方": "^2", "立方": "^3"}
_CHINESE_UNIT = rf"(?:{'|'.join(_POWERED)})?(?:{'|'.join(sorted(_UNITS, key=len, reverse=True))})"
CHINESE_UNIT = rf"{_CHINESE_UNIT}(?:(?:/|每){_CHINESE_UNIT})?"
"""A unit in Chinese behind a number, as a pattern: 平方厘米, 米每秒."""
_COUNTERS = frozenset(
    "个只人本种次张条块名位棵页题支组岁分角户辆件双套朵枚颗粒头匹把家间层台架艘段排行列倍步種個條張塊輛雙頭隻項冊枚"
)
_AFTER_NUMBER = re.compile(rf"(?<=[\d}})])[ ]?([{IDEOGRAPH}]{{1,8}}(?:/[{IDEOGRAPH}]{{1,4}})?)(?![{IDEOGRAPH}])")
# Words with these change the value before them, or name something else.
_NOT_COUNTED = frozenset("之不非无约或且以至超少多左右上下内外前后半的倍是")


def from_foreign(text: str) -> str:
    """``text`` with the words between and after its formulas as LaTeX; other words stay as they are."""
    text = _CIRCLED.sub(lambda run: ",".join(_CIRCLED_DIGIT.findall(run[0])), text)
    if not _FOREIGN.search(text):
        return text
    text = _COPULA.sub("", text)
    bare = text.strip().strip("。.，,；;")
    if bare in _PHRASES:
        return _PHRASES[bare]
    number = number_in_characters(bare)
    if number is not None:
        return str(number)
    text = _JOINT.sub(lambda match: r" \text{ or } " if match[1] in _OR else ",", text)
    text = _DIGITS_AND_UNITS.sub(_in_digits, text)
    text = _MULTIPLE.sub(lambda match: rf" \times 10^{{{_POWERS[match[1]]}}}", text)
    text = _DEGREE.sub(r"^\\circ ", text)
    return _AFTER_NUMBER.sub(_measured, text)


def _in_digits(match: re.Match[str]) -> str:
    """``35000`` for 3万5千. A unit of ``_POWERS`` alone is left to ``_MULTIPLE``; what may be two numbers stays."""
    number = None if match["units"] in _POWERS else number_in_digits_and_units(match[0])
    return match[0] if number is None else str(number)


def _measured(match: re.Match[str]) -> str:
    words = match[1]
    unit = "/".join(_unit(part) for part in re.split("[/每]", words))
    if unit != words:
        return rf"\text{{ {unit}}}"
    if words[0] in _COUNTERS and not _NOT_COUNTED.intersection(words):
        return rf"\text{{ {words}}}"
    return match[0]


def _unit(word: str) -> str:
    """``cm^2`` for 平方厘米; a word that is not a unit stays as it is."""
    for prefix, power in _POWERED.items():
        if word.startswith(prefix) and word.removeprefix(prefix) in _UNITS:
            return _UNITS[word.removeprefix(prefix)] + power
    return _UNITS.get(word, word)
