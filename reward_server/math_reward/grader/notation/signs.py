r"""Signs of Unicode as ASCII or LaTeX, and what is counted in a script that no formula has."""

import re
import unicodedata
from html.entities import html5

from math_reward.grader.words.foreign_words import from_foreign
from math_reward.grader.words.number_words import MULTIPLIERS
from math_reward.grader.words.units import is_unit

_SUPERSCRIPT_RUN = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱ]+")
_SUBSCRIPT_RUN = re.compile("[₀₁₂₃₄₅₆₇₈₉]+")
_VULGAR = re.compile("[¼½¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞]")
# Controls, joiners and marks of direction have no meaning, and hide a difference from the eye.
_INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\u00ad]")

# Signs whose name in HTML is their name in LaTeX.
_NAMED = (
    "forall angle emptyset setminus pm lfloor rfloor lceil rceil langle rangle equiv pi alpha beta gamma delta epsilon"
    " theta lambda mu nu xi eta zeta kappa chi psi rho sigma tau phi omega Gamma Lambda Xi Psi Phi Theta Delta Omega"
)
_SIGNS = {html5[f"{name};"]: rf"\{name} " for name in _NAMED.split()} | {
    sign: meaning
    for meaning, signs in {
        "-": "−–—‒➖",
        "+": "➕",
        r" \times ": "×✕✖⨯⨉",
        r" \cdot ": "·⋅∙•",
        "/": "÷⁄∕➗",
        "*": "∗⁎＊",
        r"\exists ": "∃",
        r"\triangle ": "△",
        r"\sqrt ": "√",
        r"\sqrt[3] ": "∛",
        r"\infty ": "∞",
        r" \le ": "≤⩽",
        r" \ge ": "≥⩾",
        r" \ne ": "≠",
        r" \approx ": "≈",
        r" \in ": "∈",
        r"\neg ": "¬",
        r" \land ": "∧",
        r" \lor ": "∨",
        r" \oplus ": "⊕",
        r" \to ": "→",
        r" \Rightarrow ": "⇒",
        r" \Leftrightarrow ": "⇔",
        r" \leftrightarrow ": "↔",
        r" \cup ": "∪",
        r" \cap ": "∩",
        r"^\circ ": "°º",
        "'": "′’",
        '"': "“”",
        r"\mathbb{R}": "ℝ",
        r"\mathbb{Z}": "ℤ",
        r"\mathbb{N}": "ℕ",
        r"\mathbb{Q}": "ℚ",
        r"\mathbb{C}": "ℂ",
        "|": "∣",
        ":": "∶：",
        r" \parallel ": "∥",
        r" \perp ": "⊥",
        r" \sim ": "∼",
        r" \cong ": "≅",
        r" \notin ": "∉",
        r" \subset ": "⊂",
        r" \subseteq ": "⊆",
        " ": "∴",
        r"\langle ": "〈",
        r"\rangle ": "〉",
        "(": "（",
        ")": "）",
        ",": "，",
        ";": "；",
        ".": "。",
        "¥": "￥",
    }.items()
    for sign in signs
}
# "84 संतरे", "39টি", "20 км/ч": a number and what is counted or measured, in a script that no formula has.
_FOREIGN_NAME = (
    r"[\u0400-\u052f\u0590-\u06ff\u0900-\u0e7f\u10a0-\u10ff]"
    r"(?:[^\W\d_²³]|(?![^\W\d_])[\u0900-\u0e7f\u0610-\u065f]){0,24}[²³]?"
)
_COUNTED = re.compile(
    rf"^(\W{{0,3}}\d[\d.,/]{{0,20}})\s?({_FOREIGN_NAME})(?:(?:/| в | प्रति )({_FOREIGN_NAME}))?[।.]?\Z"
)
_NO_THING = re.compile("тыс|млн|млрд|дюжин|दर्जन|нет|не(?:т|вер|прав)|ошиб|गलत|नहीं|خطأ|خاطئ|ليس")
_FOREIGN_DIGIT = re.compile(r"[^\D0-9]")
_SIGN = re.compile("[" + re.escape("".join(_SIGNS)) + "]")


def ascii_signs(text: str) -> str:
    """Mathematical signs of Unicode as LaTeX; the rest in its compatible plain form (NFKC)."""
    text = _FOREIGN_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), _INVISIBLE.sub("", text))
    text = _COUNTED.sub(_counted, text)
    # Before NFKC, which would turn 4² into 42 and 1½ into 11/2.
    text = _SUPERSCRIPT_RUN.sub(lambda m: "^{" + unicodedata.normalize("NFKC", m[0]) + "}", text)
    text = _SUBSCRIPT_RUN.sub(lambda m: "_{" + unicodedata.normalize("NFKC", m[0]) + "}", text)
    text = _VULGAR.sub(_vulgar_fraction, text)
    text = _SIGN.sub(lambda m: _SIGNS[m[0]], from_foreign(text))
    text = unicodedata.normalize("NFKC", text).replace("根号", r"\sqrt ")
    return _SIGN.sub(lambda m: _SIGNS[m[0]], text)


def _counted(match: re.Match[str]) -> str:
    """A number with its unit; a counted thing is dropped."""
    names = [name.lower() for name in match.groups()[1:] if name is not None]
    if all(is_unit(name.rstrip("²³")) for name in names):
        return rf"{match[1]} \text{{ {'/'.join(names).replace('²', '^2').replace('³', '^3')}}}"
    is_thing = len(names) == 1 and names[0] not in MULTIPLIERS and not _NO_THING.match(names[0])
    return match[1] if is_thing else match[0]


def _vulgar_fraction(match: re.Match[str]) -> str:
    numerator, denominator = unicodedata.normalize("NFKC", match[0]).split("⁄")
    return rf"\frac{{{numerator}}}{{{denominator}}}"
