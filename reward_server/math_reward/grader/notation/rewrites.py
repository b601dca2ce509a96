r"""The spellings that become others, in the order in which they are tried: tables for `normalise.py`."""

import re

from math_reward.grader.extraction.special_tokens import EMPHASIS
from math_reward.grader.notation.spellings import ENDINGS, WORDS, Rewrite, has

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
_SYMBOL_COMMANDS = {"<", ">", "[", "]", ":", "|", ",", "i", "j", "€", "£"}


def _with_round_brackets(match: re.Match[str]) -> str:
    left, low, separator, high, right = match.groups()
    if (left, right) == ("[", "]"):
        return match[0]
    return f"{'(' if left == ']' else '['}{low}{separator}{high}{')' if right == '[' else ']'}"


def _command(match: re.Match[str]) -> str:
    new = _COMMANDS.get(match[1])
    if new is None:
        return match[0]
    return " " + new + " " if new in _SYMBOL_COMMANDS else "\\" + new


_UPRIGHT = r"\\(?:text|mathrm) ?\{ ?([a-zA-Z]+) ?\}"
_ROW = re.compile(r"\\cr(?![a-z])")
_UNIT_MACRO = re.compile(r"\\([a-zA-Z]+)")
_METRIC_PREFIXES = frozenset(["kilo", "mega", "giga", "centi", "milli", "micro", "nano", "deci", "hecto"])


def _siunitx(match: re.Match[str]) -> str:
    r"""What the commands of siunitx show: ``\SI{5}{\kilo\meter}``, ``\qty{5}{m}``, ``\num{1e3}``, ``\ang{30}``."""
    command, number, unit = match.groups()
    if command == "ang":
        return rf"{number}^\circ "
    words = _UNIT_MACRO.sub(
        lambda word: "/" if word[1] == "per" else word[1] + ("" if word[1] in _METRIC_PREFIXES else " "), unit or ""
    )
    return number + (rf"\text{{ {words.strip().replace(' /', '/')}}}" if words else "")


_OPEN_ENDS = Rewrite(  # Both ends are left out.
    has("[", "]"), re.compile(r"([\[\]])([^\[\](),;]{1,60})([,;])([^\[\](),;]{1,60})(?<!\\sqrt)([\[\]])"),
    _with_round_brackets, ("]a, b[", "(a, b)"),
)  # fmt: skip
MARKUP = (
    Rewrite(
        has("^"), re.compile(r"\^\{?(\d{1,3})\}? ?/ ?_\{?(\d{1,3})\}?"), r"\\frac{\1}{\2}",
        ("^3/_4", r"\frac{3}{4}"),
    ),
    Rewrite(
        lambda text: "\\\\" in text and "\\begin" not in text and "array" not in text,
        re.compile(r"\\\\(?=[a-zA-Z{}])"), r"\\", (r"\\sqrt{5}", r"\sqrt{5}"),
    ),
    Rewrite(  # as Markdown escapes it
        has("\\_"), re.compile(r"(?<=[a-zA-Z])\\_(?=[\w{])"), "_", (r"a\_n = 2", "a_n = 2"),
    ),
    Rewrite(
        lambda text: "\\\\" in text and "\\begin" not in text, re.compile(r"[,;] ?\\\\(?= )"), ",",
        (r"a = 3,\\ b = 4", "a = 3, b = 4"),
    ),
    Rewrite(
        has("\\ "), re.compile(r"(\\mathbb ?\{? ?[RZNQ] ?\}?) ?\\ +(?=[\[({]|\\\{)"), r"\1 \\setminus ",
        (r"\mathbb{R} \ [-2, 2]", r"\mathbb{R} \setminus [-2, 2]"),
    ),
    Rewrite(
        has("<su"), re.compile(r"<su([pb])>(.{0,40}?)</su\1>"),
        lambda match: f"{'^' if match[1] == 'p' else '_'}{{{match[2]}}}", ("x<sup>2</sup>", "x^{2}"),
    ),
    Rewrite(
        has("U"), re.compile(r"(?<=[)\]])( ?U ?)\{([^{}\\]{1,80})\}"), r"\1\\{\2\\}",
        ("(-inf, 2) U {3}", r"(-inf, 2) \cup \{3\}"),
    ),
    Rewrite(
        has("U"),
        re.compile(r"([(\[][^()\[\]]{1,60},[^()\[\]]{1,60}[)\]]) ?U ?(?=[(\[][^()\[\]]{1,60},|\\?\{[^{}]{1,60}\})"),
        r"\1 \\cup ", ("(-inf, 2) U (3, inf)", r"(-inf, 2) \cup (3, inf)"),
    ),
    Rewrite(
        has("<"), re.compile(r"^<(?=[^,]*,)(.*)>\Z", re.DOTALL), r"\\langle \1 \\rangle",
        ("<1, 2>", r"\langle 1, 2 \rangle"),
    ),
    _OPEN_ENDS,
)  # fmt: skip
LATEX = (
    Rewrite(has("\\text"), re.compile(r"\\text ?\{ ?([:,;.=+/-]) ?\}"), r"\1", (r"3\text{:}5", "3:5")),
    Rewrite(
        has("\\text"), re.compile(r"\\text ?\{ ?[xX] ?\}(?= ?10)"), r"\\times ",
        (r"6.02\text{ x }10^{23}", r"6.02\times 10^{23}"),
    ),
    Rewrite(
        has("\\text", "\\mathrm"), re.compile(r"(?<=\d) ?\^ ?\{? ?\\(?:text|mathrm) ?\{ ?o ?\} ?\}?"), r"^\\circ ",
        (r"30^{\text{o}}", r"30^\circ"),
    ),
    Rewrite(
        has("\\frac"),
        re.compile(rf"\\frac ?\{{ ?{_UPRIGHT} ?\}} ?\{{ ?{_UPRIGHT} ?\}}"),
        r"\\text{ \1/\2}", (r"60\frac{\text{km}}{\text{h}}", r"60\text{ km/h}"),
    ),
    Rewrite(
        has("\\root"), re.compile(r"\\root ?\{?(\w{1,3})\}? ?\\of ?(?:\{([^{}]{1,60})\}|(\w))"),
        lambda root: rf"\sqrt[{root[1]}]{{{root[2] or root[3]}}}", (r"\root 3 \of 8", r"\sqrt[3]{8}"),
    ),
    Rewrite(
        has("matrix{", "matrix {"), re.compile(r"\\([pbv]?matrix) ?\{([^{}]{1,400})\}"),
        lambda rows: rf"\begin{{{rows[1]}}}{_ROW.sub(lambda _: chr(92) * 2, rows[2])}\end{{{rows[1]}}}",
        (r"\pmatrix{1&2\cr 3&4}", r"\begin{pmatrix}1&2\\ 3&4\end{pmatrix}"),
    ),
    Rewrite(
        has("\\qty", "\\SI", "\\num", "\\ang"),
        re.compile(r"\\(qty|SI|num|ang)(?:\[[^\[\]]{0,40}\])? ?\{([^{}]{1,40})\}(?: ?\{([^{}]{1,80})\})?"),
        _siunitx, (r"\qty{5}{\meter\per\second}", r"5\text{ meter/second}"),
    ),
    Rewrite(
        has("\\mu"), re.compile(r"\\mu ?\\(?:text|mathrm) ?\{ ?([A-Za-z]+) ?\}"), r"\\text{ u\1}",
        (r"6\,\mu\text{C}", r"6 \text{ uC}"),
    ),
    Rewrite(has("Vert"), re.compile(r"\\[lr]?Vert(?![a-z])"), r"\\|", (r"\lVert A\rVert", r"\| A\|")),
    Rewrite(
        has("\\quad", "\\qquad"), re.compile(r"(?<=[\w)}]) ?\\q?quad ?(?=-?\d)"), ", ", (r"-1 \quad 3", "-1, 3")
    ),
    Rewrite(
        has("\\text"), re.compile(r", ?\\text ?\{ ?(or|and) ?\}"), r" \\text{ \1 }",
        (r"1, \text{ or } 2", r"1 \text{ or } 2"),
    ),
    Rewrite(  # How many editors write cases.
        lambda text: "\\{" in text and "\\begin" in text,
        re.compile(
            r"\\(?:left|[bB]igg?l?)? ?\\\{ ?\\begin ?\{(?:array|aligned|matrix)\}(?: ?\{[lcr| ]{0,9}\})?"
            r"((?:(?!\\begin|\\end).){1,1000})"
            r"\\end ?\{(?:array|aligned|matrix)\}(?: ?\\(?:right|[bB]igg?r?) ?\.| ?\\right ?$)?(?! ?\\right| ?\\\})",
            re.DOTALL,
        ),
        r"\\begin{cases}\1\\end{cases}",
        (r"\left\{\begin{array}{ll}1\end{array}\right.", r"\begin{cases}1\end{cases}"),
    ),
    Rewrite(  # A bold i alone may be the imaginary unit.
        re.compile(r"\\(?:math|text|bold)(?:bf|symbol) ?\{? ?[jk](?![a-zA-Z])").search,
        re.compile(r"\\(?:math|text|bold)(?:bf|symbol) ?\{? ?([ijk])(?: ?\})?(?![a-zA-Z])"), r"\\hat{\1}",
        (r"\mathbf{i} + \mathbf{j}", r"\hat{i} + \hat{j}"),
    ),
    Rewrite(
        has("\\left", "\\right"), re.compile(r"\\(?:left|right) ?\.(?!\d)"), " ",
        (r"\left. 5 \right.", "5"),
    ),
    Rewrite(  # P(X = 4) is one value, and P(1 + r) a product.
        has("P\\left"), re.compile(r"(?<![a-zA-Z])P\\left ?\((?=[^()=<>|]{1,40}(?:[=<>|]|\\[lg]eq?|\\mid))"),
        "P(", (r"P\left(X=4\right)=1", "P(X=4 )=1"),
    ),
    Rewrite(
        has("\\b", "\\m", "\\p"), re.compile(r"\\(?:boldsymbol|mathbf|bm|pmb) ?\{ ?(\\[a-zA-Z]{2,8}) ?\}"), r"\1 ",
        (r"\boldsymbol{\alpha}_{1}", r"\alpha _{1}"),
    ),
    Rewrite(  # Commands that only move, resize or mark.
        has("\\"),
        re.compile(
            r"\\(?:left|right|middle|[bB]igg?[lrm]?|displaystyle|textstyle|scriptstyle|limits|nolimits|hfill|nonumber"
            r"|tiny|small|normalsize|[lL]arge|LARGE|[hH]uge|notag|rm|bf|it|boldsymbol|hline|centering|therefore"
            r"|checkmark|blacksquare|qed|mathord|mathrel|mathbin|mathopen|mathclose)(?![a-zA-Z])"
        ),
        " ", (r"\left( 1 \right)", "( 1 )"),
    ),
    Rewrite(
        has("{}"), re.compile(r"(?:\\[,;:! ]|~)? ?\{\} ?(?=\^ ?\{? ?\\(?:circ|degree)(?![a-zA-Z]))"), "",
        (r"25\,{}^\circ C", r"25^\circ C"),
    ),
    Rewrite(
        has("matrix"), re.compile(r"\\(begin|end)([pbvV]?matrix)(?![a-z])"), r"\\\1{\2}",
        (r"\beginpmatrix 1 \endpmatrix", r"\begin{pmatrix} 1 \end{pmatrix}"),
    ),
    Rewrite(has("\\not"), re.compile(r"\\not ?="), r"\\ne ", (r"x \not= 2", r"x \ne 2")),
    Rewrite(has("\\not"), re.compile(r"\\not ?\\in(?![a-z])"), r"\\notin", (r"2 \not\in A", r"2 \notin A")),
    Rewrite(
        has("(mod"), re.compile(r"\\text ?\{ ?\(mod (\d+)\) ?\}"), r"\\pmod{\1}",
        (r"3\text{ (mod 7)}", r"3\pmod{7}"),
    ),
    Rewrite(has("\\!"), re.compile(r"(?<=\d),\s*\\!\s*(?=\d)"), ",", (r"10, \! 080", "10,080")),
    Rewrite(
        has("\\"),
        re.compile(
            r"(?<!\\)\\!|(?<=\\\\)\[[^\[\]]{0,12}(?:pt|ex|em|mm|cm)\]|\\(?:[vh]?phantom|label|tag\*?)\{[^{}]*\}"
        ),
        "", (r"7 \label{eq:1}", "7"),
    ),
    Rewrite(
        has("\\"),
        re.compile(
            r"(?<!\\)\\[,;:> ]|\\q?quad|\\(?:thin|med|thick|en|hair)?space(?![a-zA-Z])|\\hspace\*?\{[^{}]*\}|~"
        ),
        " ", (r"1\,000", "1 000"),
    ),
    Rewrite(has("\\"), re.compile(r"\\([a-zA-Z]+)"), _command, (r"\dfrac{1}{2}", r"\frac{1}{2}")),
    Rewrite(  # an expectation, a probability
        has("\\mathbb"), re.compile(r"\\mathbb ?\{? ?([EP]) ?\}?(?= ?[\[(])"), r"\1",
        (r"\mathbb{E}[X]", "E[X]"),
    ),
    Rewrite(
        has("\\over"), re.compile(r"\{([^{}]{1,60})\\over(?![a-zA-Z])([^{}]{1,60})\}"), r"\\frac{\1}{\2}",
        (r"{1\over 2}", r"\frac{1}{ 2}"),
    ),
    Rewrite(
        has("color"),
        re.compile(r"\\(?:text)?color ?\{[a-zA-Z]{1,20}\} ?\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}"), r"{\1}",
        (r"\textcolor{red}{5}", "{5}"),
    ),
    Rewrite(has("color"), re.compile(r"\\color ?\{[a-zA-Z]{1,20}\}"), "", (r"\color{red}5", "5")),
    Rewrite(  # All of an answer in one font. Words alone are left to `parse.py`.
        has("\\text", "\\math", "\\mbox"),
        re.compile(
            r"^[\s,;:]*\\(?:text(?:bf|it|rm|sf|tt|normal)?|math(?:rm|bf|it|sf)|mbox) ?"
            r"\{((?=[^0-9]*[0-9])(?:[^{}]|(?<=[\^_])\{[^{}]*\})*)\}[\s,;.\\]*(?<!\.\.\.)\Z"
        ),
        r"\1", (r"\text{42 apples}", "42 apples"),
    ),
    Rewrite(
        has("except"),
        re.compile(
            r"^\s*(?:\\text ?\{ ?)?(?:all )?(?:the )?real(?: numbers)? except(?: for)? ?\}? ?([^{}]{1,40})\}?\s*\Z"
        ),
        r"\\mathbb{R} \\setminus \\{\1\\}", (r"\text{all real numbers except }0", r"\mathbb{R} \setminus \{0\}"),
    ),
    Rewrite(has("\\approx"), re.compile(r"^\s*\\approx(?![a-zA-Z])"), "", (r"\approx 3.14", "3.14")),
)  # fmt: skip
WITHOUT_LATEX = (Rewrite(has("~"), re.compile("~"), " ", ("1~2", "1 2")),)
AT_LAST = (
    Rewrite(has("**"), EMPHASIS, r"\1", ("**x = 5** m", "x = 5 m")),
    Rewrite(  # One dollar sign is no delimiter.
        has("$"), re.compile(r"^([^$]*)(?<!\\)\$(?= ?-?[\d.])([^$]*)\Z"), r"\1\\$\2", ("$12", r"\$12")
    ),
    Rewrite(has("$", "\\"), re.compile(r"(?<!\\)\$|\\[()]"), " ", ("x = $5$", "x = 5")),
    Rewrite(
        has("10"), re.compile(r"(?<=\d)(?: ?[xX] ?| +)(?=10 ?\^)"), r" \\times ", ("2.24 x 10^7", r"2.24 \times 10^7")
    ),
    Rewrite(
        has("circ", "degree"),
        re.compile(
            r"(?<![\w.])(\d{1,4}) ?(?:\^ ?\{? ?\\circ ?\}?|\\?degrees?) ?(?:and )?(\d{1,2}(?:\.\d{1,6})?) ?"
            r"(?:'(?!')|\^ ?\{? ?\\prime ?\}?|(?:arc)?min(?:ute)?s?)(?![\w'])"
        ),
        r"(\1+\\frac{\2}{60})^\\circ ", ("30^\\circ 30'", r"(30+\frac{30}{60})^\circ"),
    ),
    _OPEN_ENDS,  # without the spaces and commands that stood in it
    *ENDINGS,
    Rewrite(  # A rounded value in brackets is one more member of the chain.
        has("\\approx"), re.compile(r"(?<=\S) ?\( ?\\approx ([^()]{1,40})\)[ .]*\Z"), r" \\approx \1",
        (r"\sqrt{2} (\approx 1.41)", r"\sqrt{2} \approx 1.41"),
    ),
    Rewrite(  # A domain in brackets is one more item of a list.
        lambda text: text.endswith(")"),
        re.compile(
            r"(?<=[\w\d}) ])\(((?:-?[\d.]+ ?(?:\\le(?![a-z])|<=?) ?)?[a-z] ?(?:\\(?:ge|le|ne)(?![a-z])|[<>]=?) ?"
            r"[^()]{1,40}|[a-z] ?\\in ?[(\[][^()\[\]]{1,40}[)\]])\)$"
        ),
        r", \1",
        ("y = x^2 - 1 (x >= 0)", "y = x^2 - 1 , x >= 0"),
    ),
    Rewrite(str.split, re.compile(r"\s+"), " ", ("1,\t2", "1, 2")),
    Rewrite(
        has("real"),
        re.compile(
            r"^(?:all )?reals?(?: numbers?| values?)?(?: of)?(?: [a-z])?,?"
            r" (?:with|such that|where|except(?: for| that| when)?) [a-z]"
            r" ?(?:\\ne|=|is not|cannot be) ?([^ ,]{1,30}) ?$",
            re.IGNORECASE,
        ),
        r"\\mathbb{R} \\setminus \\{\1\\}", (r"all real x with x \ne 4", r"\mathbb{R} \setminus \{4\}"),
    ),
)  # fmt: skip
REWRITES = (*WORDS, *MARKUP, *LATEX, *WITHOUT_LATEX, *AT_LAST)
"""All of them in the order in which they are tried."""
