r"""The spellings that become others, in the order in which they are tried: tables for `normalise.py`."""

import re
from collections.abc import Callable
from typing import NamedTuple

from math_reward.grader.extraction.special_tokens import EMPHASIS

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


class Rewrite(NamedTuple):
    """One spelling that becomes another."""

    when: Callable[[str], object]
    """Whether the text can have it: a test that is quicker than the pattern."""
    pattern: re.Pattern[str]
    to: str | Callable[[re.Match[str]], str]
    example: tuple[str, str]


def _has(*pieces: str, without: str = "") -> Callable[[str], bool]:
    """Whether a text has one of the pieces, and not ``without``."""
    if len(pieces) == 1 and not without:
        return lambda text: pieces[0] in text
    return lambda text: any(piece in text for piece in pieces) and not (without and without in text)


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


_ENDINGS = (
    Rewrite(
        _has(" and "), re.compile(r"^\s*(-?\d{1,6}) and (\d{1,4}/\d{1,4})[\s~]*\Z"), r"\1 \2", ("4 and 5/8", "4 5/8")
    ),
    Rewrite(
        _has("onst", "cte"),
        re.compile(r"(?<=\+) ?(?:\\(?:text|mathrm) ?\{ ?)?[Cc](?:onst(?:ant)?|te)\.?(?: ?\})?[\s~]*\Z"),
        " C", (r"x^2 + \text{const}", "x^2 + C"),
    ),
    Rewrite(
        _has(" rad"), re.compile(r"(?<=[\w)}π]) rad(?:ian)?s?[\s~]*\Z"), r"\\text{ rad}",
        (r"\pi/4 rad", r"\pi/4\text{ rad}"),
    ),
)  # fmt: skip
WORDS = (
    # What people, code and other countries write without LaTeX.
    Rewrite(
        _has("."), re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{3}){2,}(?![\d.])"), lambda number: number[0].replace(".", ""),
        ("1.234.567", "1234567"),
    ),
    Rewrite(
        _has("."), re.compile(r"(?<![\d.])(\d{1,9}\.\d{0,6}?)(\d{1,6}?)\2{2,20}(?:\.{3}|\\ldots|…)"),
        r"\1\\overline{\2}", ("0.1666...", r"0.1\overline{6}"),
    ),
    Rewrite(
        _has("out of"), re.compile(r"(?<![\d.])(\d{1,9}) out of (\d{1,9})(?![\d.])"), r"\\frac{\1}{\2}",
        ("3 out of 5", r"\frac{3}{5}"),
    ),
    Rewrite(_has(" in "), re.compile(r"^(\d{1,9}) in (\d{1,9})\Z"), r"\\frac{\1}{\2}", ("1 in 2", r"\frac{1}{2}")),
    Rewrite(_has(" to "), re.compile(r"^(\d{1,9}) to (\d{1,9})\Z"), r"\1:\2", ("2 to 3", "2:3")),
    Rewrite(_has("="), re.compile("^="), "", ("=5", "5")),
    Rewrite(
        _has(","), re.compile(r"(?<![\d.,])(\d{1,6}),(\d{2})(?= ?(?:€|[Ee]uros?\b|EUR\b|zł|kr\b))"), r"\1.\2",
        ("6,50 Euro", "6.50 Euro"),
    ),
    Rewrite(
        # Groups without decimals match too, and stay: else each of them would be the start of another search.
        _has(","), re.compile(r"(?<![\d.,])(\d{1,3}(?:[ \u202f\xa0]\d{3})+)(?:,(\d{1,2})(?!\d))?"),
        lambda number: re.sub(r"\s", "", number[1]) + "." + number[2] if number[2] else number[0],
        ("1 234,5 euros", "1234.5 euros"),
    ),
    Rewrite(
        _has("nfinitely many "), re.compile(r"([Ii]nfinitely many) (?:real |integer )?solutions?"), r"\1",
        ("infinitely many solutions", "infinitely many"),
    ),
    Rewrite(_has("0b"), re.compile(r"(?<![\w.])0b([01]{1,64})(?!\w)"), r"\1_2", ("0b1011", "1011_2")),
    Rewrite(
        _has("h"), re.compile(r"(?<![\w.])(\d{1,4}) ?h (?=\d{1,2} ?m)"), r"\1 hr ", ("3 h 35 min", "3 hr 35 min")
    ),
    Rewrite(
        _has("ption", "hoice"), re.compile(r"^(?:[Oo]ption|[Cc]hoice)[ _]\(?([A-J])\)?\Z"), r"\1", ("Choice_C", "C")
    ),
    *_ENDINGS,
    Rewrite(
        _has("\\text"), re.compile(r"\\text ?\{ (?:ou|oder|o|или|或|または) \}"), r"\\text{ or }",
        (r"1 \text{ ou } 2", r"1 \text{ or } 2"),
    ),
    Rewrite(
        _has("="), re.compile(r"(?<![a-zA-Z\\\d.)}^_])([a-zA-Z])(\d)(?= ?=)"), r"\1_\2",
        ("x1 = 1, x2 = 3", "x_1 = 1, x_2 = 3"),
    ),
    Rewrite(_has("*"), re.compile(r"(?<![\w\\])([A-Za-z])(\d)(?!\w)"), r"\1_\2", ("a1*b1", "a_1*b_1")),
    Rewrite(_has("log"), re.compile(r"(?<![a-zA-Z\\])log(2|10)\("), r"\\log_{\1}(", ("log10(x)", r"\log_{10}(x)")),
    Rewrite(
        _has(" choose "), re.compile(r"(?<![\w.])(\w{1,3}) choose (\w{1,3})(?![\w.])"), r"\\binom{\1}{\2}",
        ("5 choose 2", r"\binom{5}{2}"),
    ),
    Rewrite(
        _has("C", "P"), re.compile(r"(?<![\w.{}])(\d{1,3})([CP])(\d{1,3})(?![\w.^}])"), r"\2(\1,\3)",
        ("5C2", "C(5,2)"),
    ),
    Rewrite(  # 1'234'567, as in Switzerland
        _has("'"), re.compile(r"(?<![\w'.])\d{1,3}(?:'\d{3})+(?![\d'])"), lambda number: number[0].replace("'", ""),
        ("1'234'567", "1234567"),
    ),
    Rewrite(
        _has("_"), re.compile(r"(?<![\w.])\d{1,3}(?:_\d{3})+(?!\w)"), lambda number: number[0].replace("_", ""),
        ("1_234_000", "1234000"),
    ),
    Rewrite(_has("%"), re.compile(r"%(e|i|pi)(?![a-zA-Z])"), r"\1", ("5*%i", "5*i")),  # as Maxima writes them
    Rewrite(
        _has("repeating"),
        re.compile(r"(?<![\d.])(\d{0,9}\.)(\d{0,9}?)(?:(?<=\.)|(?=(\d)\3))(\d)\4{0,20},? \(?repeating\)?"),
        r"\1\2\\overline{\4}", ("0.166 repeating", r"0.1\overline{6}"),
    ),
    Rewrite(_has("+/-"), re.compile(r"\+ ?/ ?-"), r"\\pm ", ("+/-3", r"\pm 3")),
    Rewrite(_has("{,}"), re.compile(r"(?<=\d)\{,\}(?=\d{1,2}(?!\d))"), ".", ("3{,}14", "3.14")),
    Rewrite(_has("$", "£", "€"), re.compile(r"^[-−] ?(\\?[$£€]) ?(?=[\d.])"), r"\1-", (r"-\$0.50", r"\$-0.50")),
    Rewrite(
        _has("R$", "R\\$"), re.compile(r"R\\?\$ ?(\d{1,3}(?:\.\d{3})+|\d{1,12})(?:,(\d{2}))?(?![\d.,]*\d)"),
        lambda money: money[1].replace(".", "") + (f".{money[2]}" if money[2] else ""), ("R$ 2.400,50", "2400.50"),
    ),
    Rewrite(  # 1.250,50, as in most of Europe
        _has("."), re.compile(r"^((?:\\?[$€£] ?)?)([1-9]\d{0,2}(?:\.\d{3})+),(\d{2})(?![\d,]|\.\d|[^(]*\))"),
        lambda number: f"{number[1]}{number[2].replace('.', '')}.{number[3]}", ("1.250,50", "1250.50"),
    ),
    Rewrite(_has(". "), re.compile(r"^(\d{1,9})\. (\d{1,9})\.?\Z"), r"\1.\2", ("0. 98", "0.98")),
    Rewrite(  # two spellings of one answer
        _has("#"), re.compile(r"(?<=\S) ?\\?# ?\\?# ?(?=\S)"), r" \\text{ or } ",
        ("3/10 ## 0.3", r"3/10 \text{ or } 0.3"),
    ),
    Rewrite(
        _has(" deg"), re.compile(r"(?<=\d) deg(?=\s*(?:$|[=+*/)-]))"), r"^\\circ",
        ("sin 45 deg", r"sin 45^\circ"),
    ),
    Rewrite(_has("per cent"), re.compile(r"\bper cent\b"), "percent", ("25 per cent", "25 percent")),
    Rewrite(
        _has("!="), re.compile(r"(?<=[\d)])!=(?=\d)|(?<![\w^_{.}]\d)(?<=\d)!=(?=[{\\])"), "! = ",
        ("5!=120", "5! = 120"),
    ),
    Rewrite(
        _has("**"), re.compile(r"(?<![a-zA-Z\\])(sin|cos|tan|cot|sec|csc|log|ln)\*\*(\d)"), r"\\\1^\2",
        ("sin**2 (m)", r"\sin^2 (m)"),
    ),
    Rewrite(
        _has("sqrt"), re.compile(r"(?<![a-zA-Z\\])sqrt ?(?:(\d+)|(?=\[\d{1,2}\] ?\{))"),
        lambda root: rf"\sqrt{{{root[1]}}}" if root[1] else r"\sqrt", ("2sqrt2", r"2\sqrt{2}"),
    ),
    Rewrite(_has("{"), re.compile(r"^\\?\{ ?\\?\}\Z"), r"\\emptyset", ("{}", r"\emptyset")),
    Rewrite(
        _has(";"), re.compile(r"^\[([^\[\];,]{1,40}(?:,[^\[\];,]{1,40})+(?:;[^\[\];]{1,200})+)\]\Z"),
        lambda rows: rf"\begin{{bmatrix}}{rows[1].replace(',', '&').replace(';', chr(92) * 2)}\end{{bmatrix}}",
        ("[3, 1; 1, 3]", r"\begin{bmatrix}3& 1\\ 1& 3\end{bmatrix}"),
    ),
    Rewrite(  # The backslashes were lost.
        _has("{", "cdot", without="\\"),
        re.compile(
            r"(?<![a-zA-Z\\])(?:(?:[dt]?frac|sqrt|mathbf|mathrm|overline)(?= ?\{)|(?:cdot|leq|geq|neq)(?![a-zA-Z]))"
        ),
        r"\\\g<0>", ("frac{1}{2}", r"\frac{1}{2}"),
    ),
)  # fmt: skip
_OPEN_ENDS = Rewrite(  # Both ends are left out.
    _has("[", "]"), re.compile(r"([\[\]])([^\[\](),;]{1,60})([,;])([^\[\](),;]{1,60})(?<!\\sqrt)([\[\]])"),
    _with_round_brackets, ("]a, b[", "(a, b)"),
)  # fmt: skip
MARKUP = (
    Rewrite(
        _has("^"), re.compile(r"\^\{?(\d{1,3})\}? ?/ ?_\{?(\d{1,3})\}?"), r"\\frac{\1}{\2}",
        ("^3/_4", r"\frac{3}{4}"),
    ),
    Rewrite(
        lambda text: "\\\\" in text and "\\begin" not in text and "array" not in text,
        re.compile(r"\\\\(?=[a-zA-Z{}])"), r"\\", (r"\\sqrt{5}", r"\sqrt{5}"),
    ),
    Rewrite(  # as Markdown escapes it
        _has("\\_"), re.compile(r"(?<=[a-zA-Z])\\_(?=[\w{])"), "_", (r"a\_n = 2", "a_n = 2"),
    ),
    Rewrite(
        lambda text: "\\\\" in text and "\\begin" not in text, re.compile(r"[,;] ?\\\\(?= )"), ",",
        (r"a = 3,\\ b = 4", "a = 3, b = 4"),
    ),
    Rewrite(
        _has("\\ "), re.compile(r"(\\mathbb ?\{? ?[RZNQ] ?\}?) ?\\ +(?=[\[({]|\\\{)"), r"\1 \\setminus ",
        (r"\mathbb{R} \ [-2, 2]", r"\mathbb{R} \setminus [-2, 2]"),
    ),
    Rewrite(
        _has("<su"), re.compile(r"<su([pb])>(.{0,40}?)</su\1>"),
        lambda match: f"{'^' if match[1] == 'p' else '_'}{{{match[2]}}}", ("x<sup>2</sup>", "x^{2}"),
    ),
    Rewrite(
        _has("U"), re.compile(r"(?<=[)\]])( ?U ?)\{([^{}\\]{1,80})\}"), r"\1\\{\2\\}",
        ("(-inf, 2) U {3}", r"(-inf, 2) \cup \{3\}"),
    ),
    Rewrite(
        _has("U"),
        re.compile(r"([(\[][^()\[\]]{1,60},[^()\[\]]{1,60}[)\]]) ?U ?(?=[(\[][^()\[\]]{1,60},|\\?\{[^{}]{1,60}\})"),
        r"\1 \\cup ", ("(-inf, 2) U (3, inf)", r"(-inf, 2) \cup (3, inf)"),
    ),
    Rewrite(
        _has("<"), re.compile(r"^<(?=[^,]*,)(.*)>\Z", re.DOTALL), r"\\langle \1 \\rangle",
        ("<1, 2>", r"\langle 1, 2 \rangle"),
    ),
    _OPEN_ENDS,
)  # fmt: skip
LATEX = (
    Rewrite(_has("\\text"), re.compile(r"\\text ?\{ ?([:,;.=+/-]) ?\}"), r"\1", (r"3\text{:}5", "3:5")),
    Rewrite(
        _has("\\text"), re.compile(r"\\text ?\{ ?[xX] ?\}(?= ?10)"), r"\\times ",
        (r"6.02\text{ x }10^{23}", r"6.02\times 10^{23}"),
    ),
    Rewrite(
        _has("\\text", "\\mathrm"), re.compile(r"(?<=\d) ?\^ ?\{? ?\\(?:text|mathrm) ?\{ ?o ?\} ?\}?"), r"^\\circ ",
        (r"30^{\text{o}}", r"30^\circ"),
    ),
    Rewrite(
        _has("\\frac"),
        re.compile(rf"\\frac ?\{{ ?{_UPRIGHT} ?\}} ?\{{ ?{_UPRIGHT} ?\}}"),
        r"\\text{ \1/\2}", (r"60\frac{\text{km}}{\text{h}}", r"60\text{ km/h}"),
    ),
    Rewrite(
        _has("\\root"), re.compile(r"\\root ?\{?(\w{1,3})\}? ?\\of ?(?:\{([^{}]{1,60})\}|(\w))"),
        lambda root: rf"\sqrt[{root[1]}]{{{root[2] or root[3]}}}", (r"\root 3 \of 8", r"\sqrt[3]{8}"),
    ),
    Rewrite(
        _has("matrix{", "matrix {"), re.compile(r"\\([pbv]?matrix) ?\{([^{}]{1,400})\}"),
        lambda rows: rf"\begin{{{rows[1]}}}{_ROW.sub(lambda _: chr(92) * 2, rows[2])}\end{{{rows[1]}}}",
        (r"\pmatrix{1&2\cr 3&4}", r"\begin{pmatrix}1&2\\ 3&4\end{pmatrix}"),
    ),
    Rewrite(
        _has("\\qty", "\\SI", "\\num", "\\ang"),
        re.compile(r"\\(qty|SI|num|ang)(?:\[[^\[\]]{0,40}\])? ?\{([^{}]{1,40})\}(?: ?\{([^{}]{1,80})\})?"),
        _siunitx, (r"\qty{5}{\meter\per\second}", r"5\text{ meter/second}"),
    ),
    Rewrite(
        _has("\\mu"), re.compile(r"\\mu ?\\(?:text|mathrm) ?\{ ?([A-Za-z]+) ?\}"), r"\\text{ u\1}",
        (r"6\,\mu\text{C}", r"6 \text{ uC}"),
    ),
    Rewrite(_has("Vert"), re.compile(r"\\[lr]?Vert(?![a-z])"), r"\\|", (r"\lVert A\rVert", r"\| A\|")),
    Rewrite(
        _has("\\quad", "\\qquad"), re.compile(r"(?<=[\w)}]) ?\\q?quad ?(?=-?\d)"), ", ", (r"-1 \quad 3", "-1, 3")
    ),
    Rewrite(
        _has("\\text"), re.compile(r", ?\\text ?\{ ?(or|and) ?\}"), r" \\text{ \1 }",
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
        _has("\\left", "\\right"), re.compile(r"\\(?:left|right) ?\.(?!\d)"), " ",
        (r"\left. 5 \right.", "5"),
    ),
    Rewrite(  # Commands that only move, resize or mark.
        _has("\\"),
        re.compile(
            r"\\(?:left|right|middle|[bB]igg?[lrm]?|displaystyle|textstyle|scriptstyle|limits|nolimits|hfill|nonumber"
            r"|tiny|small|normalsize|[lL]arge|LARGE|[hH]uge|notag|rm|bf|it|boldsymbol|hline|centering|therefore"
            r"|checkmark|blacksquare|qed|mathord|mathrel|mathbin|mathopen|mathclose)(?![a-zA-Z])"
        ),
        " ", (r"\left( 1 \right)", "( 1 )"),
    ),
    Rewrite(
        _has("{}"), re.compile(r"(?:\\[,;:! ]|~)? ?\{\} ?(?=\^ ?\{? ?\\(?:circ|degree)(?![a-zA-Z]))"), "",
        (r"25\,{}^\circ C", r"25^\circ C"),
    ),
    Rewrite(
        _has("matrix"), re.compile(r"\\(begin|end)([pbvV]?matrix)(?![a-z])"), r"\\\1{\2}",
        (r"\beginpmatrix 1 \endpmatrix", r"\begin{pmatrix} 1 \end{pmatrix}"),
    ),
    Rewrite(_has("\\not"), re.compile(r"\\not ?="), r"\\ne ", (r"x \not= 2", r"x \ne 2")),
    Rewrite(_has("\\not"), re.compile(r"\\not ?\\in(?![a-z])"), r"\\notin", (r"2 \not\in A", r"2 \notin A")),
    Rewrite(
        _has("(mod"), re.compile(r"\\text ?\{ ?\(mod (\d+)\) ?\}"), r"\\pmod{\1}",
        (r"3\text{ (mod 7)}", r"3\pmod{7}"),
    ),
    Rewrite(_has("\\!"), re.compile(r"(?<=\d),\s*\\!\s*(?=\d)"), ",", (r"10,\!080", "10,080")),
    Rewrite(
        _has("\\"),
        re.compile(
            r"(?<!\\)\\!|(?<=\\\\)\[[^\[\]]{0,12}(?:pt|ex|em|mm|cm)\]|\\(?:[vh]?phantom|label|tag\*?)\{[^{}]*\}"
        ),
        "", (r"7 \label{eq:1}", "7"),
    ),
    Rewrite(
        _has("\\"),
        re.compile(
            r"(?<!\\)\\[,;:> ]|\\q?quad|\\(?:thin|med|thick|en|hair)?space(?![a-zA-Z])|\\hspace\*?\{[^{}]*\}|~"
        ),
        " ", (r"1\,000", "1 000"),
    ),
    Rewrite(_has("\\"), re.compile(r"\\([a-zA-Z]+)"), _command, (r"\dfrac{1}{2}", r"\frac{1}{2}")),
    Rewrite(  # an expectation, a probability
        _has("\\mathbb"), re.compile(r"\\mathbb ?\{? ?([EP]) ?\}?(?= ?[\[(])"), r"\1",
        (r"\mathbb{E}[X]", "E[X]"),
    ),
    Rewrite(
        _has("\\over"), re.compile(r"\{([^{}]{1,60})\\over(?![a-zA-Z])([^{}]{1,60})\}"), r"\\frac{\1}{\2}",
        (r"{1\over 2}", r"\frac{1}{ 2}"),
    ),
    Rewrite(
        _has("color"),
        re.compile(r"\\(?:text)?color ?\{[a-zA-Z]{1,20}\} ?\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}"), r"{\1}",
        (r"\textcolor{red}{5}", "{5}"),
    ),
    Rewrite(_has("color"), re.compile(r"\\color ?\{[a-zA-Z]{1,20}\}"), "", (r"\color{red}5", "5")),
    Rewrite(  # All of an answer in one font. Words alone are left to `parse.py`.
        _has("\\text", "\\math", "\\mbox"),
        re.compile(
            r"^[\s,;:]*\\(?:text(?:bf|it|rm|sf|tt|normal)?|math(?:rm|bf|it|sf)|mbox) ?"
            r"\{((?=[^0-9]*[0-9])(?:[^{}]|(?<=[\^_])\{[^{}]*\})*)\}[\s,;.\\]*(?<!\.\.\.)\Z"
        ),
        r"\1", (r"\text{42 apples}", "42 apples"),
    ),
    Rewrite(
        _has("except"),
        re.compile(
            r"^\s*(?:\\text ?\{ ?)?(?:all )?(?:the )?real(?: numbers)? except(?: for)? ?\}? ?([^{}]{1,40})\}?\s*\Z"
        ),
        r"\\mathbb{R} \\setminus \\{\1\\}", (r"\text{all real numbers except }0", r"\mathbb{R} \setminus \{0\}"),
    ),
    Rewrite(_has("\\approx"), re.compile(r"^\s*\\approx(?![a-zA-Z])"), "", (r"\approx 3.14", "3.14")),
)  # fmt: skip
WITHOUT_LATEX = (Rewrite(_has("~"), re.compile("~"), " ", ("1~2", "1 2")),)
AT_LAST = (
    Rewrite(_has("**"), EMPHASIS, r"\1", ("**x = 5** m", "x = 5 m")),
    Rewrite(  # One dollar sign is no delimiter.
        _has("$"), re.compile(r"^([^$]*)(?<!\\)\$(?= ?-?[\d.])([^$]*)\Z"), r"\1\\$\2", ("$12", r"\$12")
    ),
    Rewrite(_has("$", "\\"), re.compile(r"(?<!\\)\$|\\[()]"), " ", ("x = $5$", "x = 5")),
    Rewrite(
        _has("10"), re.compile(r"(?<=\d)(?: ?[xX] ?| +)(?=10 ?\^)"), r" \\times ", ("2.24 x 10^7", r"2.24 \times 10^7")
    ),
    Rewrite(
        _has("circ", "degree"),
        re.compile(
            r"(?<![\w.])(\d{1,4}) ?(?:\^ ?\{? ?\\circ ?\}?|\\?degrees?) ?(?:and )?(\d{1,2}(?:\.\d{1,6})?) ?"
            r"(?:'(?!')|\^ ?\{? ?\\prime ?\}?|(?:arc)?min(?:ute)?s?)(?![\w'])"
        ),
        r"(\1+\\frac{\2}{60})^\\circ ", ("30^\\circ 30'", r"(30+\frac{30}{60})^\circ"),
    ),
    _OPEN_ENDS,  # without the spaces and commands that stood in it
    *_ENDINGS,
    Rewrite(  # A rounded value in brackets is one more member of the chain.
        _has("\\approx"), re.compile(r"(?<=\S) ?\( ?\\approx ([^()]{1,40})\)[ .]*\Z"), r" \\approx \1",
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
        _has("real"),
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
