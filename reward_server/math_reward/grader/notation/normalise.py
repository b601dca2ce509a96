r"""Gives texts that mean the same one spelling: Unicode signs, LaTeX's layout commands, delimiters, ``\text`` and
units without a space. The meaning of a text never changes here; `parse.py` decides what it means.
"""

import re
import unicodedata
from html.entities import html5

from math_reward.grader.extraction.special_tokens import EMPHASIS
from math_reward.grader.words.foreign_words import from_foreign

_SUPERSCRIPT_RUN = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱ]+")
_SUBSCRIPT_RUN = re.compile("[₀₁₂₃₄₅₆₇₈₉]+")
_VULGAR = re.compile("[¼½¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞]")
# Controls, joiners and marks of direction have no meaning, and hide a difference from the eye.
_INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\u00ad]")

# Signs whose name in HTML is their name in LaTeX.
_NAMED = (
    "forall angle emptyset setminus pm lfloor rfloor lceil rceil langle rangle equiv pi alpha beta gamma delta epsilon"
    " theta lambda mu rho sigma tau phi omega Delta Omega"
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
_SIGN = re.compile("[" + re.escape("".join(_SIGNS)) + "]")

# LaTeX whose backslashes a JSON decoder took for escapes: a form feed and "rac" was \\frac.
_DECODED = re.compile(
    "\x0c(?=[a-z])|\x08(?=[a-z])|\x0b(?=[a-z])|\x07(?=[a-z])"
    "|\t(?=frac|ext|imes|heta|an|binom|au)|\r(?=ight|angle|ceil|floor|ho)"
)
_DECODED_TO = {"\x0c": r"\f", "\x08": r"\b", "\x0b": r"\v", "\x07": r"\a", "\t": r"\t", "\r": r"\r"}
# LaTeX whose backslashes were lost: frac{1}{2}, 3 cdot 4
_LOST_BACKSLASH = re.compile(
    r"(?<![a-zA-Z\\])(?:(?:[dt]?frac|sqrt|mathbf|mathrm|overline)(?= ?\{)|(?:cdot|leq|geq|neq)(?![a-zA-Z]))"
)
_REPEATED_BACKSLASH = re.compile(r"\\\\(?=[a-zA-Z{}])")
_HTML_POWER = re.compile(r"<su([pb])>(.{0,40}?)</su\1>")
# Commands that only move or resize: \left( is (, \! is nothing, \, is a space.
_LAYOUT = re.compile(
    r"\\(?:left|right|middle|[bB]igg?[lrm]?|displaystyle|textstyle|scriptstyle|limits|nolimits|hfill|nonumber"
    r"|tiny|small|normalsize|[lL]arge|LARGE|[hH]uge|notag|rm|bf|it|boldsymbol|hline|centering|therefore|checkmark|blacksquare|qed|mathord|mathrel|mathbin|mathopen|mathclose)(?![a-zA-Z])"
)
# \left\{ \begin{array}{ll} ... \end{array} \right. is how many editors write cases.
_CASES = re.compile(
    r"\\(?:left|[bB]igg?l?)? ?\\\{ ?\\begin ?\{(?:array|aligned|matrix)\}(?: ?\{[lcr| ]{0,9}\})?"
    r"((?:(?!\\begin|\\end).){1,1000})"
    r"\\end ?\{(?:array|aligned|matrix)\}(?: ?\\(?:right|[bB]igg?r?) ?\.| ?\\right ?$)?(?! ?\\right| ?\\\})",
    re.DOTALL,
)
# ]a, b[ leaves both ends out.
_OPEN_ENDS = re.compile(r"([\[\]])([^\[\](),;]{1,60})([,;])([^\[\](),;]{1,60})([\[\]])")
# (-inf, 2) U (3, inf)
_SET_IN_BRACES = re.compile(r"\\cup\s{0,9}\{([^{}\\]{1,80})\}")
_INDEX = re.compile(r"(?<![\w\\])([A-Za-z])(\d)(?!\w)")
_UNION = re.compile(r"([(\[][^()\[\]]{1,60},[^()\[\]]{1,60}[)\]]) ?U ?(?=[(\[][^()\[\]]{1,60},|\\?\{[^{}]{1,60}\})")
# {1 \over 2}
_OVER = re.compile(r"\{([^{}]{1,60})\\over(?![a-zA-Z])([^{}]{1,60})\}")
_CHOOSE = re.compile(r"(?<![\w.])(\w{1,3}) choose (\w{1,3})(?![\w.])")
# log10(x), as code has it
_LOG_OF_BASE = re.compile(r"(?<![a-zA-Z\\])log(2|10)\(")
# 5C2
_CHOSEN = re.compile(r"(?<![\w.{}])(\d{1,3})([CP])(\d{1,3})(?![\w.^}])")
_UNIT_VECTOR = re.compile(r"\\(?:math|text|bold)(?:bf|symbol) ?\{? ?([ijk])(?: ?\})?(?![a-zA-Z])")
# \\mathbf{i} alone may be the imaginary unit.
_NOT_I_ALONE = re.compile(r"\\(?:math|text|bold)(?:bf|symbol) ?\{? ?[jk](?![a-zA-Z])")
# "y = x^2 - 1 (x >= 0)"
_CONDITION = re.compile(r"(?<=[\w\d}) ])\(([a-z] ?(?:\\(?:ge|le|ne)(?![a-z])|[<>]=?) ?[^()]{1,40})\)$")
_SEVERAL_POINTS = re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{3}){2,}(?![\d.])")
_ENDLESS = re.compile(r"(?<![\d.])(\d{1,9}\.\d{0,6}?)(\d{1,6}?)\2{2,20}(?:\.{3}|\\ldots|…)")
# x1 = 1, x2 = 3
_PLAIN_INDEX = re.compile(r"(?<![a-zA-Z\\\d.)}^_])([a-zA-Z])(\d)(?= ?=)")
_OUT_OF = re.compile(r"(?<![\d.])(\d{1,9}) out of (\d{1,9})(?![\d.])")
_GROUPING = re.compile(r"(?<=\d),\s*\\!\s*(?=\d)")
_NOTHING = re.compile(r"(?<!\\)\\!|(?<=\\\\)\[[^\[\]]{0,12}(?:pt|ex|em|mm|cm)\]|\\(?:phantom|label|tag\*?)\{[^{}]*\}")
_SPACE = re.compile(
    r"(?<!\\)\\[,;:> ]|\\q?quad|\\(?:thin|med|thick|en|hair)?space(?![a-zA-Z])|\\hspace\*?\{[^{}]*\}|~"
)
# 25\,{}^\circ C
_NO_BASE = re.compile(r"(?:\\[,;:! ]|~)? ?\{\} ?(?=\^ ?\{? ?\\(?:circ|degree)(?![a-zA-Z]))")
_COMMANDS = {
    command: meaning
    for meaning, commands in {
        "frac": "dfrac tfrac cfrac nicefrac sfrac",
        "sqrt": "surd",
        "le": "leq leqslant leqq",
        "ge": "geq geqslant geqq",
        "ne": "neq",
        "<": "lt",
        ">": "gt",
        "cdot": "ast",
        "{": "lbrace",
        "}": "rbrace",
        "[": "lbrack",
        "]": "rbrack",
        ":": "colon",
        "cup": "cupdot bigcup",
        "cap": "bigcap",
        "emptyset": "varnothing",
        "circ": "degree textdegree",
        "ldots": "dots cdots dotsc dotsb vdots",
        "phi": "varphi",
        "epsilon": "varepsilon",
        "theta": "vartheta",
        "|": "lvert rvert vert mid",
        "setminus": "smallsetminus backslash",
        "asinh": "arcsinh",
        "acosh": "arccosh",
        "atanh": "arctanh",
        "binom": "dbinom tbinom",
        ",": "implies Rightarrow iff",
        "approx": "thickapprox simeq doteq",
        "land": "wedge",
        "lor": "vee",
        "i": "imath",
        "j": "jmath",
        "neg": "lnot",
        "to": "longrightarrow",
        "€": "euro",
        "£": "pounds",
    }.items()
    for command in commands.split()
}
_COMMAND = re.compile(r"\\([a-zA-Z]+)")
_SYMBOL_COMMANDS = {"<", ">", "{", "}", "[", "]", ":", "|", ",", "i", "j", "€", "£"}

_COLOURED = re.compile(r"\\(?:text)?color ?\{[a-zA-Z]{1,20}\} ?\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}")
_COLOUR = re.compile(r"\\color ?\{[a-zA-Z]{1,20}\}")
# All of an answer in one font: \text{42 apples}. Words alone are left to `parse.py`.
_ALL_IN_TEXT = re.compile(
    r"\\(?:text(?:bf|it|rm|sf|tt|normal)?|math(?:rm|bf|it|sf)|mbox) ?"
    r"\{((?=[^0-9]*[0-9])(?:[^{}]|(?<=[\^_])\{[^{}]*\})*)\}"
)
_APPROXIMATELY = re.compile(r"^\s*\\approx(?![a-zA-Z])")
_DOLLARS = re.compile(r"\$(.*)\$", re.DOTALL)
_DELIMITED = (
    re.compile(r"\$\$(.*)\$\$", re.DOTALL),
    _DOLLARS,
    re.compile(r"\\\((.*)\\\)", re.DOTALL),
    re.compile(r"\\\[(.*)\\\]", re.DOTALL),
    re.compile(r"\*\*(.*)\*\*", re.DOTALL),
)
_INNER_MATHS = re.compile(r"(?<!\\)\$|\\[()]")
_WHITE = re.compile(r"\s+")

_PLAIN = re.compile(r"(?!\s*\*\*)(?!.*\)\s*U)[0-9a-zA-Z+*/=()\-., ]*")


def normalise(text: str) -> str:
    r"""``text`` in one spelling: no delimiters of mathematics, no layout, ASCII signs or LaTeX commands.

    ``$\dfrac{1}{2}$.`` gives ``\frac{1}{2}``, ``4²`` gives ``4^{2}``, ``1½`` gives ``1\frac{1}{2}``.
    """
    if "." in text:
        text = _SEVERAL_POINTS.sub(lambda number: number[0].replace(".", ""), text)
        text = _ENDLESS.sub(r"\1\\overline{\2}", text)
    if "out of" in text:
        text = _OUT_OF.sub(r"\\frac{\1}{\2}", text)
    if "=" in text:
        text = _PLAIN_INDEX.sub(r"\1_\2", text.removeprefix("="))
    if "*" in text:
        text = _INDEX.sub(r"\1_\2", text)  # a1*b1
    if "log" in text:
        text = _LOG_OF_BASE.sub(r"\\log_{\1}(", text)
    if " choose " in text:
        text = _CHOOSE.sub(r"\\binom{\1}{\2}", text)
    if "C" in text or "P" in text:
        text = _CHOSEN.sub(r"\2(\1,\3)", text)
    if ("{" in text or "cdot" in text) and "\\" not in text:
        text = _LOST_BACKSLASH.sub(r"\\\g<0>", text)
    if _PLAIN.fullmatch(text):
        return _trimmed(text)
    text = _trimmed(_DECODED.sub(lambda match: _DECODED_TO[match[0]], text))
    if not text.isascii():
        text = ascii_signs(text)
    text = without_delimiters(text)
    if "\\\\" in text and "\\begin" not in text and "array" not in text:
        text = _REPEATED_BACKSLASH.sub(r"\\", text)
    if "<su" in text:
        text = _HTML_POWER.sub(lambda m: ("^" if m[1] == "p" else "_") + "{" + m[2] + "}", text)
    if "U" in text:
        text = _SET_IN_BRACES.sub(r"\\cup \\{\1\\}", _UNION.sub(r"\1 \\cup ", text))
    if text[:1] == "<" and text[-1:] == ">" and "," in text:
        text = rf"\langle {text[1:-1]} \rangle"
    if "[" in text or "]" in text:
        text = _OPEN_ENDS.sub(_with_round_brackets, text)
    if "\\" in text:
        if "\\{" in text and "\\begin" in text:
            text = _CASES.sub(r"\\begin{cases}\1\\end{cases}", text)
        if len(_UNIT_VECTOR.findall(text)) > 0 and _NOT_I_ALONE.search(text):
            text = _UNIT_VECTOR.sub(r"\\hat{\1}", text)
        text = _LAYOUT.sub(" ", text)
        if "{}" in text:
            text = _NO_BASE.sub("", text)
        text = _GROUPING.sub(",", text)
        text = _NOTHING.sub("", text)
        text = _SPACE.sub(" ", text)
        text = _COMMAND.sub(_command, text)
        if "\\over" in text:
            text = _OVER.sub(r"\\frac{\1}{\2}", text)
        text = _COLOURED.sub(r"{\1}", text)
        text = _COLOUR.sub("", text)
        if (all_of_it := _ALL_IN_TEXT.fullmatch(_trimmed(text.rstrip("\\ ")))) is not None:
            text = all_of_it[1]
        text = _APPROXIMATELY.sub("", text)
    elif "~" in text:
        text = text.replace("~", " ")
    text = EMPHASIS.sub(r"\1", text) if "**" in text else text
    text = _INNER_MATHS.sub(" ", text)
    text = _CONDITION.sub(r", \1", text) if text.endswith(")") else text
    text = _WHITE.sub(" ", text)
    return _trimmed(text.rstrip("^\\ "))  # A power whose exponent is missing.


def _with_round_brackets(match: re.Match[str]) -> str:
    left, low, separator, high, right = match.groups()
    if (left, right) == ("[", "]"):
        return match[0]
    return f"{'(' if left == ']' else '['}{low}{separator}{high}{')' if right == '[' else ']'}"


def _trimmed(text: str) -> str:
    """``text`` without the white space and the punctuation at its ends.

    It goes character by character: a pattern anchored at the end takes quadratic time on long runs of spaces.
    """
    start, end = 0, len(text)
    if text.endswith("..."):
        return text.strip()  # "1, 2, 3, ..." goes on.
    while end and (text[end - 1].isspace() or (text[end - 1] in ",;." and text[end - 2 : end - 1] != "\\")):
        end -= 1
    while start < end and (text[start].isspace() or text[start] in ",;:"):
        start += 1
    return text[start:end]


def ascii_signs(text: str) -> str:
    """Mathematical signs of Unicode as LaTeX; the rest in its compatible plain form (NFKC)."""
    text = _INVISIBLE.sub("", text)
    # Before NFKC, which would turn 4² into 42 and 1½ into 11/2.
    text = _SUPERSCRIPT_RUN.sub(lambda m: "^{" + unicodedata.normalize("NFKC", m[0]) + "}", text)
    text = _SUBSCRIPT_RUN.sub(lambda m: "_{" + unicodedata.normalize("NFKC", m[0]) + "}", text)
    text = _VULGAR.sub(_vulgar_fraction, text)
    text = _SIGN.sub(lambda m: _SIGNS[m[0]], from_foreign(text))
    text = unicodedata.normalize("NFKC", text).replace("根号", r"\sqrt ")
    return _SIGN.sub(lambda m: _SIGNS[m[0]], text)


def _vulgar_fraction(match: re.Match[str]) -> str:
    numerator, denominator = unicodedata.normalize("NFKC", match[0]).split("⁄")
    return rf"\frac{{{numerator}}}{{{denominator}}}"


def without_delimiters(text: str) -> str:
    r"""``text`` without ``$...$``, ``\(...\)``, ``\[...\]`` or ``**...**`` around all of it."""
    while True:
        for pattern in _DELIMITED:
            match = pattern.fullmatch(text)
            if match and match[1].strip() and not (pattern is _DOLLARS and "$" in match[1].replace(r"\$", "")):
                text = _trimmed(match[1])
                break
        else:
            return text


def _command(match: re.Match[str]) -> str:
    name = match[1]
    new = _COMMANDS.get(name)
    if new is None:
        return match[0]
    if new in ("{", "}"):
        return "\\" + new
    if new in _SYMBOL_COMMANDS:
        return " " + new + " "
    return "\\" + new


def compact(text: str) -> str:
    """A normalised text without white space that cannot matter; two texts are compared in this form."""
    return _NEEDLESS_SPACE.sub("", text)


_NEEDLESS_SPACE = re.compile(r"(?<![0-9a-zA-Z]) | (?![0-9a-zA-Z])")
