"""What Chinese answers have between and behind their formulas, as LaTeX: 和, 或, 万, 度, units, counted things."""

from __future__ import annotations

import re

from math_reward.grader.chinese_numbers import number_in_characters

IDEOGRAPH = "\u3400-\u9fff"
_CHARACTER = re.compile(f"[{IDEOGRAPH}]")
_CIRCLED = re.compile("[①-⑳](?:[、,，和与]?[①-⑳]){0,19}")
_CIRCLED_DIGIT = re.compile("[①-⑳]")

_PHRASES = {
    "无解": r"\text{no solution}",
    "方程无解": r"\text{no solution}",
    "无实数解": r"\text{no real solution}",
    "空集": r"\emptyset",
    "全体实数": r"\mathbb{R}",
    "一切实数": r"\mathbb{R}",
    "任意实数": r"\mathbb{R}",
    "不存在": r"\text{does not exist}",
    "正无穷": r"+\infty",
    "负无穷": r"-\infty",
}
# Between two formulas, and not between two words.
_JOINT = re.compile(rf"(?<=[^{IDEOGRAPH}\s])[ ]?(以及|和|与|及|且|、|或者|或)[ ]?(?=[^{IDEOGRAPH}\s])")
_JOINTS = {"或": r" \text{ or } ", "或者": r" \text{ or } "}
_MULTIPLE = re.compile(rf"(?<=\d)[ ]?(万亿|亿|万)(?![{IDEOGRAPH}]*[万亿])")
_POWERS = {"万": "4", "亿": "8", "万亿": "12"}
_DEGREE = re.compile(rf"(?<=[\d}})])[ ]?度(?![{IDEOGRAPH}])")

_UNITS = {
    "千米": "km", "公里": "km", "米": "m", "分米": "dm", "厘米": "cm", "毫米": "mm", "微米": "µm", "纳米": "nm",
    "千克": "kg", "公斤": "kg", "克": "g", "毫克": "mg", "吨": "ton", "升": "L", "毫升": "mL",
    "小时": "hours", "时": "hours", "分钟": "minutes", "秒": "seconds", "天": "days", "周": "weeks", "年": "years",
    "元": "yuan", "美元": "dollars", "公顷": "hectare", "牛": "N", "牛顿": "N", "焦": "J", "焦耳": "J", "瓦": "W",
    "伏": "V", "安": "A", "欧": "Ω", "帕": "Pa", "赫兹": "Hz",
}  # fmt: skip
_POWERED = {"平方": "^2", "立方": "^3"}
_COUNTERS = frozenset("个只人本种次张条块名位棵页题支组岁分角户辆件双套朵枚颗粒头匹把家间层台架艘段排行列倍步")
_AFTER_NUMBER = re.compile(rf"(?<=[\d}})])[ ]?([{IDEOGRAPH}]{{1,8}}(?:/[{IDEOGRAPH}]{{1,4}})?)(?![{IDEOGRAPH}])")
# These say another number or another thing than the value before them.
_NOT_COUNTED = frozenset("不非无约或且以至超少多左右上下内外前后半的倍是")


def from_chinese(text: str) -> str:
    """``text`` with what stands between and behind its formulas in LaTeX; words stay as they are."""
    text = _CIRCLED.sub(lambda run: ",".join(_CIRCLED_DIGIT.findall(run[0])), text)
    if not _CHARACTER.search(text) and "、" not in text:
        return text
    bare = text.strip().strip("。.，,；;")
    if bare in _PHRASES:
        return _PHRASES[bare]
    number = number_in_characters(bare)
    if number is not None:
        return str(number)
    text = _JOINT.sub(lambda match: _JOINTS.get(match[1], ","), text)
    text = _MULTIPLE.sub(lambda match: rf" \times 10^{{{_POWERS[match[1]]}}}", text)
    text = _DEGREE.sub(r"^\\circ ", text)
    return _AFTER_NUMBER.sub(_measured, text)


def _measured(match: re.Match[str]) -> str:
    words = match[1]
    unit = "/".join(_unit(part) for part in words.split("/"))
    if unit != words:
        return rf"\text{{ {unit}}}"
    if words[0] in _COUNTERS and not _NOT_COUNTED.intersection(words):
        return rf"\text{{ {words}}}"
    return match[0]


def _unit(word: str) -> str:
    """``cm^2`` of 平方厘米; a word that is no unit as it is."""
    for prefix, power in _POWERED.items():
        if word.startswith(prefix) and word.removeprefix(prefix) in _UNITS:
            return _UNITS[word.removeprefix(prefix)] + power
    return _UNITS.get(word, word)
