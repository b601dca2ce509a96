"""What people, code and other languages write without LaTeX, as rewrites."""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import NamedTuple


class Rewrite(NamedTuple):
    """One spelling that becomes another."""

    when: Callable[[str], object]
    """Whether the text can have it: a test that is quicker than the pattern."""
    pattern: re.Pattern[str]
    to: str | Callable[[re.Match[str]], str]
    example: tuple[str, str]


def has(*pieces: str, without: str = "") -> Callable[[str], bool]:
    """Whether a text has one of the pieces, and not ``without``. It is asked of every text, so it has to be quick."""
    first, second = pieces[0], pieces[-1]
    if len(pieces) == 1 and not without:
        return lambda text: first in text
    if len(pieces) == 2 and not without:
        return lambda text: first in text or second in text

    def found(text: str) -> bool:
        for piece in pieces:
            if piece in text:
                return not without or without not in text
        return False

    return found


ENDINGS = (
    Rewrite(
        has(" and "), re.compile(r"^\s*(-?\d{1,6}) and (\d{1,4}/\d{1,4})[\s~]*\Z"), r"\1 \2", ("4 and 5/8", "4 5/8")
    ),
    Rewrite(
        has("onst", "cte"),
        re.compile(r"(?<=\+) ?(?:\\(?:text|mathrm) ?\{ ?)?[Cc](?:onst(?:ant)?|te)\.?(?: ?\})?[\s~]*\Z"),
        " C", (r"x^2 + \text{const}", "x^2 + C"),
    ),
    Rewrite(
        has(" rad"), re.compile(r"(?<=[\w)}π]) rad(?:ian)?s?[\s~]*\Z"), r"\\text{ rad}",
        (r"\pi/4 rad", r"\pi/4\text{ rad}"),
    ),
)  # fmt: skip
WORDS = (
    Rewrite(
        has("‰"), re.compile(r"(?<![\d.,])(\d{1,12}(?:\.\d{1,12})?) ?(?:\\text ?\{ ?)?‰(?: ?\})?"),
        lambda number: rf"{Decimal(number[1]) / 10:f}\%", ("50‰", r"5\%"),
    ),
    Rewrite(
        has("\\textcircled"), re.compile(r"\\textcircled ?\{? ?(1\d|20|[1-9])(?!\d) ?\}?"),
        lambda number: chr(ord("①") + int(number[1]) - 1), (r"\textcircled{2}", "2"),
    ),
    # What people, code and other countries write without LaTeX.
    Rewrite(
        has("."), re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{3}){2,}(?![\d.])"), lambda number: number[0].replace(".", ""),
        ("1.234.567", "1234567"),
    ),
    Rewrite(
        has("."), re.compile(r"(?<![\d.])(\d{1,9}\.\d{0,6}?)(\d{1,6}?)\2{2,20}(?:\.{3}|\\ldots|…)"),
        r"\1\\overline{\2}", ("0.1666...", r"0.1\overline{6}"),
    ),
    Rewrite(
        has("out of"), re.compile(r"(?<![\d.])(\d{1,9}) out of (\d{1,9})(?![\d.])"), r"\\frac{\1}{\2}",
        ("3 out of 5", r"\frac{3}{5}"),
    ),
    Rewrite(has(" in "), re.compile(r"^(\d{1,9}) in (\d{1,9})\Z"), r"\\frac{\1}{\2}", ("1 in 2", r"\frac{1}{2}")),
    Rewrite(has(" to "), re.compile(r"^(\d{1,9}) to (\d{1,9})\Z"), r"\1:\2", ("2 to 3", "2:3")),
    Rewrite(has("="), re.compile("^="), "", ("=5", "5")),
    Rewrite(
        has("egative", "inus"),
        re.compile(r"^\s{0,4}(?:\\text\s?\{ ?)?(?:[Nn]egative|[Mm]inus) ?\}?\s{0,4}(?=\\?\$?\d)"),
        "-", ("negative 5", "-5"),
    ),
    Rewrite(
        has(","), re.compile(r"(?<![\d.,])(\d{1,6}),(\d{2})(?= ?(?:€|[Ee]uros?\b|EUR\b|zł|kr\b))"), r"\1.\2",
        ("6,50 Euro", "6.50 Euro"),
    ),
    Rewrite(
        # Groups without decimals match too, and stay: else each of them would be the start of another search.
        has(","), re.compile(r"(?<![\d.,])(\d{1,3}(?:[ \u202f\xa0]\d{3})+)(?:,(\d{1,2})(?!\d))?"),
        lambda number: re.sub(r"\s", "", number[1]) + "." + number[2] if number[2] else number[0],
        ("1 234,5 euros", "1234.5 euros"),
    ),
    Rewrite(
        has("nfinitely many "), re.compile(r"([Ii]nfinitely many) (?:real |integer )?solutions?"), r"\1",
        ("infinitely many solutions", "infinitely many"),
    ),
    Rewrite(has("0b"), re.compile(r"(?<![\w.])0b([01]{1,64})(?!\w)"), r"\1_2", ("0b1011", "1011_2")),
    Rewrite(
        has("h"), re.compile(r"(?<![\w.])(\d{1,4}) ?h (?=\d{1,2} ?m)"), r"\1 hr ", ("3 h 35 min", "3 hr 35 min")
    ),
    Rewrite(
        has("ption", "hoice"), re.compile(r"^(?:[Oo]ption|[Cc]hoice)[ _]\(?([A-J])\)?\Z"), r"\1", ("Choice_C", "C")
    ),
    *ENDINGS,
    Rewrite(
        has("\\text"), re.compile(r"\\text ?\{ (?:ou|oder|o|или|或|または) \}"), r"\\text{ or }",
        (r"1 \text{ ou } 2", r"1 \text{ or } 2"),
    ),
    Rewrite(
        has("="), re.compile(r"(?<![a-zA-Z\\\d.)}^_])([a-zA-Z])(\d)(?= ?=)"), r"\1_\2",
        ("x1 = 1, x2 = 3", "x_1 = 1, x_2 = 3"),
    ),
    Rewrite(has("*"), re.compile(r"(?<![\w\\])([A-Za-z])(\d)(?!\w)"), r"\1_\2", ("a1*b1", "a_1*b_1")),
    Rewrite(has("log"), re.compile(r"(?<![a-zA-Z\\])log(2|10)\("), r"\\log_{\1}(", ("log10(x)", r"\log_{10}(x)")),
    Rewrite(
        has(" choose "), re.compile(r"(?<![\w.])(\w{1,3}) choose (\w{1,3})(?![\w.])"), r"\\binom{\1}{\2}",
        ("5 choose 2", r"\binom{5}{2}"),
    ),
    Rewrite(
        has("C", "P"), re.compile(r"(?<![\w.{}])(\d{1,3})([CP])(\d{1,3})(?![\w.^}])"), r"\2(\1,\3)",
        ("5C2", "C(5,2)"),
    ),
    Rewrite(  # 1'234'567, as in Switzerland
        has("'"), re.compile(r"(?<![\w'.])\d{1,3}(?:'\d{3})+(?![\d'])"), lambda number: number[0].replace("'", ""),
        ("1'234'567", "1234567"),
    ),
    Rewrite(
        has("_"), re.compile(r"(?<![\w.])\d{1,3}(?:_\d{3})+(?!\w)"), lambda number: number[0].replace("_", ""),
        ("1_234_000", "1234000"),
    ),
    Rewrite(has("%"), re.compile(r"%(e|i|pi)(?![a-zA-Z])"), r"\1", ("5*%i", "5*i")),  # as Maxima writes them
    Rewrite(
        has("repeating"),
        re.compile(r"(?<![\d.])(\d{0,9}\.)(\d{0,9}?)(?:(?<=\.)|(?=(\d)\3))(\d)\4{0,20},? \(?repeating\)?"),
        r"\1\2\\overline{\4}", ("0.166 repeating", r"0.1\overline{6}"),
    ),
    Rewrite(has("+/-"), re.compile(r"\+ ?/ ?-"), r"\\pm ", ("+/-3", r"\pm 3")),
    Rewrite(has("{,}"), re.compile(r"(?<=\d)\{,\}(?=\d{1,2}(?!\d))"), ".", ("3{,}14", "3.14")),
    Rewrite(has("$", "£", "€"), re.compile(r"^[-−] ?(\\?[$£€]) ?(?=[\d.])"), r"\1-", (r"-\$0.50", r"\$-0.50")),
    Rewrite(
        has("R$", "R\\$"), re.compile(r"R\\?\$ ?(\d{1,3}(?:\.\d{3})+|\d{1,12})(?:,(\d{2}))?(?![\d.,]*\d)"),
        lambda money: money[1].replace(".", "") + (f".{money[2]}" if money[2] else ""), ("R$ 2.400,50", "2400.50"),
    ),
    Rewrite(  # 1.250,50, as in most of Europe
        has("."), re.compile(r"^((?:\\?[$€£] ?)?)([1-9]\d{0,2}(?:\.\d{3})+),(\d{2})(?![\d,]|\.\d|[^(]*\))"),
        lambda number: f"{number[1]}{number[2].replace('.', '')}.{number[3]}", ("1.250,50", "1250.50"),
    ),
    Rewrite(has(". "), re.compile(r"^(\d{1,9})\. (\d{1,9})\.?\Z"), r"\1.\2", ("0. 98", "0.98")),
    Rewrite(  # two spellings of one answer
        has("#"), re.compile(r"(?<=\S) ?\\?# ?\\?# ?(?=\S)"), r" \\text{ or } ",
        ("3/10 ## 0.3", r"3/10 \text{ or } 0.3"),
    ),
    Rewrite(
        has(" deg"), re.compile(r"(?<=\d) deg(?=\s*(?:$|[=+*/)-]))"), r"^\\circ",
        ("sin 45 deg", r"sin 45^\circ"),
    ),
    Rewrite(has("per cent"), re.compile(r"\bper cent\b"), "percent", ("25 per cent", "25 percent")),
    Rewrite(
        has("!="), re.compile(r"(?<=[\d)])!=(?=\d)|(?<![\w^_{.}]\d)(?<=\d)!=(?=[{\\])"), "! = ",
        ("5!=120", "5! = 120"),
    ),
    Rewrite(
        has("**"), re.compile(r"(?<![a-zA-Z\\])(sin|cos|tan|cot|sec|csc|log|ln)\*\*(\d)"), r"\\\1^\2",
        ("sin**2 (m)", r"\sin^2 (m)"),
    ),
    Rewrite(
        has("sqrt"), re.compile(r"(?<![a-zA-Z\\])sqrt ?(?:(\d+)|(?=\[\d{1,2}\] ?\{))"),
        lambda root: rf"\sqrt{{{root[1]}}}" if root[1] else r"\sqrt", ("2sqrt2", r"2\sqrt{2}"),
    ),
    Rewrite(has("{"), re.compile(r"^\\?\{ ?\\?\}\Z"), r"\\emptyset", ("{}", r"\emptyset")),
    Rewrite(
        has(";"), re.compile(r"^\[([^\[\];,]{1,40}(?:,[^\[\];,]{1,40})+(?:;[^\[\];]{1,200})+)\]\Z"),
        lambda rows: rf"\begin{{bmatrix}}{rows[1].replace(',', '&').replace(';', chr(92) * 2)}\end{{bmatrix}}",
        ("[3, 1; 1, 3]", r"\begin{bmatrix}3& 1\\ 1& 3\end{bmatrix}"),
    ),
    Rewrite(  # The backslashes were lost.
        has("{", "cdot", without="\\"),
        re.compile(
            r"(?<![a-zA-Z\\])(?:(?:[dt]?frac|sqrt|mathbf|mathrm|overline)(?= ?\{)|(?:cdot|leq|geq|neq)(?![a-zA-Z]))"
        ),
        r"\\\g<0>", ("frac{1}{2}", r"\frac{1}{2}"),
    ),
)  # fmt: skip
