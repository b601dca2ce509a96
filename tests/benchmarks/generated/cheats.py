r"""Answers that are wrong, of the 27 kinds that an attack on the grader found paid: none equals its reference.

A kind draws a reference, an answer that differs from it by construction, and for some a prompt. The names are those of
the attack's list.
"""

# ruff: noqa: E501

from __future__ import annotations

import random
from collections.abc import Callable

from generated.kind import Pair

Drawn = tuple[str, str] | tuple[str, str, str]
"""A reference, an answer and, for some, the prompt."""


def _number(source: random.Random) -> int:
    return source.randint(2, 99)


def _pick(source: random.Random, *texts: str) -> str:
    return source.choice(texts)


def brackets(source: random.Random) -> Drawn:
    a = source.randint(-9, 9)
    b = a + source.randint(1, 9)
    reference = _pick(source, f"[{a},{b}]", f"({a},{b}]", f"[{a},{b})")
    wrong = [f"{a},{b}", rf"\begin{{pmatrix}}{a}\\{b}\end{{pmatrix}}", f"({a},{b})", rf"\{{{a},{b}\}}", f"{a}; {b}"]
    return reference, source.choice([*wrong, f"x={a}, x={b}", f"{a} \\text{{ and }} {b}", f"]{a},{b}["])


def chinese_label(source: random.Random) -> Drawn:
    n = str(_number(source))
    label = _pick(source, "答案加一", "一半", "错误答案", "平方", "答案的两倍", "不是", "答案的倒数", "答案减一")
    return n, f"{label}{_pick(source, '为', '是', '：')}{n}"


def choice_and_more(source: random.Random) -> Drawn:
    letter, other = source.sample("ABCD", 2)
    return letter, _pick(
        source, f"({letter}), {other}", f"{letter}. {other}", f"{letter}) wrong", f"({letter}) is not right",
        f"{letter} or {other}", f"({letter}) , B, C, D" if letter == "A" else f"{letter}, A", f"!{letter}",
        f"not {letter}", f"{letter}. A. B. C. D", rf"\neg {letter}", f"({other}) {letter}",
    )  # fmt: skip


def clock(source: random.Random) -> Drawn:
    hour = source.randint(2, 12)
    reference = _pick(source, f"{hour}:00", f"{hour}:30", f"{hour + 12}:00" if hour < 12 else "12:00")
    return reference, _pick(source, "1:0", f"{hour}:0", f"1:{hour}", f"{hour - 1}:59", f"{hour}:1")


def given_constant(source: random.Random) -> Drawn:
    name, n = source.choice("cK"), source.randint(1, 9)
    slope = source.randint(1, 9)
    reference = _pick(source, f"{slope}x+{name}", f"y={slope}x+{name}", f"v={slope}t+{name}")
    return reference, reference.replace(
        name, f"{_pick(source, name, name + name, '2' + name)}{_pick(source, '+', '-')}{n}"
    )


def double_zero(source: random.Random) -> Drawn:
    a, b = source.randint(1, 9), source.randint(1, 9)
    power = source.choice([2, 4])
    line, factor = source.choice([(f"y-{a}x-{b}", f"y={a}x+{b}"), (f"x+y-{a}", f"x+y={a}"), ("F-ma", "F=ma")])
    letter = "m" if "F" in line else "x"
    return factor, _pick(
        source, f"({line})({letter}-{b})^{power}=0", f"({line})({letter}-{b})=0", f"({line})|{letter}-{b}|=0",
        f"({line})(({letter}-{b})^2+0)^{power}=0", f"({line})(1-\\cos({letter}-{b}))=0",
    )  # fmt: skip


_KEYS = [
    r"1.000000000e-30 \times 10^{30}", r"1000000000.0e-30\cdot10^{20}", "5000000000.0e-10", "1000000000.0e-9",
    r"1.000000000\times10^{0}", r"-1.000000000e-30 \times 10^{30}", r"1000000000.00000000000000e-9", "1.000000000",
    r"0.1000000000e-29\times 10^{30}", r"9.999999999e-1", r"1.000000000e-28\times10^{30}\%",
]  # fmt: skip
_CONSTANTS = [
    r"\frac13", r"\sqrt2", r"2\pi", r"\log_2 3", "0.25", r"\frac37", r"\ln 2", r"-\frac53", r"\frac{1+\sqrt5}{2}", "x=3/7",
    r"\frac{3}{7} \text{ cm}", r"\sqrt[3]{7}", "e", r"\frac{\pi}{4}", "1/7", "0.75", r"\sin 1",
]  # fmt: skip


def float_key(source: random.Random) -> Drawn:
    key, reference = source.choice(_KEYS), source.choice(_CONSTANTS)
    if source.random() < 0.2:
        return rf"({reference},{source.choice(_CONSTANTS)}]".replace("x=", ""), f"({key},{key}]"
    return reference, key


def float_reference(source: random.Random) -> Drawn:
    places = source.randint(3, 40)
    reference = f"{source.randint(1, 9)}.{source.randint(10, 99)}e-{places}"
    return reference, _pick(
        source, rf"\frac{{1}}{{{source.randint(2, 997)}}}", r"\frac{\pi}{1000}", "0.0001", "0", rf"10^{{-{places - 2}}}",
        r"-\frac{1}{997}", rf"\frac{{1}}{{10^{{{places}}}}}", "1e-400",
    )  # fmt: skip


def imaginary_part(source: random.Random) -> Drawn:
    a, b = _number(source), _number(source)
    return str(a), _pick(
        source, rf"\max({a}+{b}i)", rf"\min({a}+{b}i)", rf"({a}+{b}i) \bmod {a + b}", rf"\max({a}+{b}i, 1)",
        rf"\lfloor {a}+{b}i \rfloor", rf"\lceil {a}+{b}i \rceil", rf"{a}+0.{b}i", rf"{a}+{b}\mathrm{{i}}",
    )  # fmt: skip


def merged_ends(source: random.Random) -> Drawn:
    a = source.randint(-9, 9)
    b, tiny = a + source.randint(1, 9), rf"10^{{-{source.randint(13, 60)}}}"
    return _pick(source, f"[{a - 1},{b}]", f"({a - 1},{b}]"), _pick(
        source, rf"[{a - 1},{a}]\cup[{a}+{tiny},{b}]", rf"[{a - 1},{a}-{tiny}]\cup[{a},{b}]", rf"[{a - 1},{b}-{tiny}]",
        rf"[{a - 1},{a})\cup({a},{b}]", rf"[{a - 1}+{tiny},{b}]", rf"[{a - 1},{b}+{tiny})",
    )  # fmt: skip


def letter_as_unit(source: random.Random) -> Drawn:
    n, letter = _number(source), source.choice("iexyk")
    font = source.choice(["mathrm", "text", "textit", "mathbf", "operatorname"])
    return str(n), _pick(
        source, rf"{n}\{font}{{~{letter}}}", rf"{n} \{font}{{ {letter}}}", rf"{n}\{font}{{ {letter}}}^2",
        rf"{n} \text{{ pi}}", rf"{n} \pi", rf"{n}+2\mathrm{{i}}", rf"{n}-\{font}{{{letter}}}",
    )  # fmt: skip


def modulus_one(source: random.Random) -> Drawn:
    n = source.randint(1, 9)
    reference = _pick(source, f"n+{n}", f"k+{n}", f"a_n={n + 1}n-1", f"f(n)=n+{n}", f"x={n}")
    return reference, _pick(source, r"0 \pmod 1", r"x\equiv 0\pmod 1", rf"1\pmod {n + 1}", rf"x\equiv {n} \pmod 0")


def minus_plus(source: random.Random) -> Drawn:
    a, b = source.sample(range(2, 30), 2)
    return source.choice([
        (rf"\pm {a}\mp {b}i", rf"\pm {a}\pm {b}i"),
        (rf"(\pm {a},\mp {b})", rf"(\pm {a},\pm {b})"),
        (rf"\frac{{\tan A \pm \tan B}}{{{a} \mp \tan A\tan B}}", rf"\frac{{\tan A \pm \tan B}}{{{a} \pm \tan A\tan B}}"),
        (rf"{a}\pm {b}", rf"{a}+{b}"),
        (rf"\pm {a}", rf"\mp {a}i"),
    ])  # fmt: skip


def freed_names(source: random.Random) -> Drawn:
    s, t, u, v = source.sample("abstuvmn", 4)
    reference, other = source.choice([
        (rf"\frac{{{s}}}{{{t}}}", rf"\frac{{{u}}}{{{v}}}"), (f"{s}-{t}", f"{u}-{v}"), (f"{s}^2/{t}", f"{u}^2/{v}"),
        (f"2^{s}+1", f"2^{u}+1"), (f"{s}-{t}", f"{t}-{s}"), (rf"\frac{{{s}}}{{{t}}}", rf"\frac{{{t}}}{{{s}}}"),
    ])  # fmt: skip
    new = next(letter for letter in other if letter in (u, t, s) and letter.isalpha())
    return reference, other + _pick(
        source, rf", {new}\in\mathbb{{R}}", rf" \text{{ for some }} {new}", rf", {new}\in\mathbb{{Z}}", rf", {new}>0",
        rf" \text{{ where }} {new} \text{{ is any real number}}", "",
    )  # fmt: skip


def nested_set(source: random.Random) -> Drawn:
    a, b = source.sample(range(1, 30), 2)
    return source.choice([
        (rf"\{{\{{{a}\}},{b}\}}", f"x={a},y={b}"), (rf"\{{{a},{b}\}}", f"x={a},y={b}"),
        (rf"\{{\{{{a}\}},{b}\}}", rf"\{{{a},{b}\}}"), (rf"\{{\{{{a},{b}\}}\}}", rf"\{{{a},{b}\}}"),
        (f"({a},{b})", f"x={a}, x={b}"), (rf"x\in\{{{a},{b}\}}", f"y={b}, x={a}"),
    ])  # fmt: skip


def formula_of_pi(source: random.Random) -> Drawn:
    n, r = source.randint(2, 9), source.choice("rst")
    reference = _pick(source, rf"{n}\pi {r}", rf"C={n}\pi {r}", rf"\pi {r}+{n}\pi", rf"{n}-\pi {r}")
    return reference, _pick(
        source, rf"{n}\pi({r}+1)", rf"-{n}\pi {r}", rf"{n}\pi {r}+2\pi", rf"{n + 1}\pi {r}", rf"\pi {r} k", rf"{n}+\pi {r}",
        rf"C={n}\pi({r}-1)", rf"{n}\pi {r}-\pi, {r}\in\mathbb{{Z}}",
    )  # fmt: skip


def restricting_remark(source: random.Random) -> Drawn:
    n = _number(source)
    return source.choice([
        (str(n), rf"{n} \text{{ over }} {n + 1}"), (str(n), rf"{n} \text{{ for odd }} n \text{{ or }} {n + 1} \text{{ for even }} n"),
        (f"x>{n}", rf"x>{n} \text{{ for }} x<{n + 9}"), (f"x>{n}", rf"x>{n} \text{{ if }} x \ne {n + 1}"),
        (f"x>{n}", rf"x>{n} \text{{ when }} x \text{{ is an integer}}"), (r"\mathbb{R}", rf"\mathbb{{R}} \text{{ with }} x\ne {n}"),
        (f"(0,{n})", rf"(0,{n}) \text{{ with }} 1 \text{{ removed}}"), (str(n), rf"{n} \text{{ on top of }} {n}"),
        ("x", rf"x\text{{ when }}x\ge {n}\text{{ else }}-x"), (str(n), rf"{n} \text{{ if }} k={n}"),
        (f"x^{n}", rf"x^{n} \text{{ for }} x>0 \text{{ or }} 0"), (f"[0,{n}]", rf"[0,{n}] \text{{ except }} 1"),
    ])  # fmt: skip


def restated(source: random.Random) -> Drawn:
    a, b = source.sample(range(2, 60), 2)
    product, total = source.choice([
        (rf"{a} \times {b}", a * b), (rf"{b}\cdot {a}", a * b), (f"({a} \\cdot {b})", a * b), (f"x={a}\\cdot {b}", a * b),
        (rf"1\cdot {a}\cdot {b}", a * b), (rf"{a}\cdot {b}+0", a * b),
    ])  # fmt: skip
    return str(total), product, rf"Compute ${a} \cdot {b}$."


def shifted(source: random.Random) -> Drawn:
    step, start = source.randint(2, 9), source.randint(1, 9)
    shift = source.choice([step, -step, 2 * step])
    moved = f"{start + shift:+d}"
    reference, letter = source.choice([
        (f"a_n={step}n+{start}", "n"), (rf"{step}k+{start}, k \in \mathbb{{N}}", "k"), (f"{step}k+{start}, k\\ge 0", "k"),
        (f"{step}n+{start}", "n"), (f"x={step}t+{start}", "t"),
    ])  # fmt: skip
    label = reference.partition("=")[0] + "=" if reference[0] in "ax" else ""
    return reference, f"{label}{step}{letter}{moved}" + _pick(
        source, rf", {letter}\in\mathbb{{N}}^*", rf", {letter}\in\mathbb{{N}}", rf"\text{{ for all integers }}{letter}\ge 1",
        rf" \text{{ for some integer }}{letter}", rf"({letter}\in N^*)",
    )  # fmt: skip


def sign_in_text(source: random.Random) -> Drawn:
    n = _number(source) + 2  # 2! is 2.
    return str(n), _pick(
        source, rf"\text{{-}}{n}", rf"\text{{−}}{n}", rf"\text{{<}}{n}", rf"\text{{>}}{n}", rf"{n}\text{{²}}", rf"{n}\text{{!}}",
        rf"\text{{1/}}{n}", rf"\text{{2x}}{n}", rf"{n}\text{{/2}}", rf"\mathrm{{-}}{n}", rf"\text{{√}}{n}", rf"{n}\text{{...}}",
        rf"\text{{≠}}{n}", rf"\text{{~-}}{n}",
    )  # fmt: skip


def thousands(source: random.Random) -> Drawn:
    a, b = source.randint(1, 999), source.randint(100, 999)
    return f"{a},{b}", _pick(
        source, f"x={a}, y={b}", f"{b}; {a}", rf"\{{{a},{b}\}} \cup \{{0\}}", f"{a}.{b}0{a}", f"({b},{a})", f"{a}; {b}; 0",
        f"y={a}, x={b}",
    )  # fmt: skip


def too_small(source: random.Random) -> Drawn:
    n = source.randint(150, 900)
    tower = "2"
    for _ in range(source.randint(30, 45)):
        tower = rf"\sqrt[1000]{{{tower}}}"
    tiny = rf"\zeta({n})"
    constant = source.choice([r"\sqrt2", r"\pi", r"\frac13", "1", "e", r"\ln 3", "x", "x^2+1", r"\sin x"])
    times = rf"({constant})"
    return constant, _pick(
        source, rf"{times}{tiny}", rf"{times}{tower}", rf"{times}({tower})", rf"{times}\tanh({n})", rf"{times}+{tiny}-1",
        rf"{times}+2^{{-{n}}}", rf"{times}(1-e^{{-{n}}})", rf"{times}\cos(10^{{-{n}}})", rf"2^{{{tiny}}}",
        rf"\frac{{{constant}}}{{{tiny}}}", rf"{times}\coth({n})", rf"{times}2^{{10^{{-{n}}}}}",
    )  # fmt: skip


def matrix_left(source: random.Random) -> Drawn:
    a, b, c, d = (source.randint(1, 9) for _ in range(4))
    rows = rf"{a}&{b}\\{c}&{d}"
    return source.choice([
        (str(a * d - b * c), rf"\begin{{vmatrix}}{rows}\end{{vmatrix}}"), (str(a + d), rf"\operatorname{{tr}}\begin{{pmatrix}}{rows}\end{{pmatrix}}"),
        (rf"\begin{{pmatrix}}{a * c}&0\\0&{b * d}\end{{pmatrix}}", rf"\operatorname{{diag}}({a},{b})\operatorname{{diag}}({c},{d})"),
        (str(a * d - b * c), rf"\det\begin{{pmatrix}}{rows}\end{{pmatrix}}"),
        (str(a * d - b * c), rf"\left|\begin{{array}}{{cc}}{rows}\end{{array}}\right|"),
    ])  # fmt: skip


def operation_left_of_label(source: random.Random) -> Drawn:
    n = source.randint(3, 30)
    product, name = 1, source.choice("SPDI")
    for factor in range(1, min(n, 9) + 1):
        product *= factor
    equals = source.choice(["=", r"\approx"])
    return source.choice([
        (str(n * (n + 1) // 2), rf"\sum_{{k=1}}^{{{n}}}k {equals} {name}"), (str(product), rf"\prod_{{k=1}}^{{{min(n, 9)}}} k {equals} {name}"),
        (str(-2 * n), rf"\det\begin{{pmatrix}}{n}&{2 * n}\\3&4\end{{pmatrix}}={name}"), (rf"\frac{{{n}}}{{2}}", rf"\int_0^1 {n}x\,dx = {name}"),
        (str(-2 * n), rf"\begin{{vmatrix}}{n}&{2 * n}\\3&4\end{{vmatrix}}={name}"),
    ])  # fmt: skip


def other_unit(source: random.Random) -> Drawn:
    n = _number(source)
    units = ["yen", "yuan", "feet", "meters", "dollars", "cents", "hours", "minutes", "kg", "ways"]
    one, other = source.sample(units, 2)
    return rf"{n} \text{{ {one}}}", _pick(
        source, rf"{n} \text{{ {other}}}", rf"{n} \text{{ {one} square}}" if one in ("feet", "meters") else rf"{n} \text{{ {other}}}",
        f"{n} m" if one != "meters" else f"{n} s", rf"{n} \text{{ {one}}}^2" if one in ("feet", "meters") else f"{n}:1",
    )  # fmt: skip


def whole_numbers(source: random.Random) -> Drawn:
    last = source.randint(9, 60)
    return source.choice([
        ("n!", rf"\min(n,{last})!"), (r"\binom{2n}{n}", rf"\binom{{2\min(n,{last})}}{{n}}"), ("2^n+(-1)^n", rf"2^{{\min(n,{last})}}+(-1)^n"),
        ("(-1)^n n", rf"(-1)^n \min(n,{last})"), ("n!", rf"n!+\lfloor n/{last + 1}\rfloor"), ("(-1)^x", r"\cos(\pi x)"),
        ("n!", rf"n! + \max(0, n-{last})"), ("(n+1)!", rf"(\min(n,{last})+1)!"),
    ])  # fmt: skip


def word_that_changes(source: random.Random) -> Drawn:
    n = _number(source)
    word = _pick(
        source, "millions", "permille", "thousands", "hundreds", "negative", "gross", "dozens", "doubled", "bogus", "score",
        "pairs", "lakh", "squared", "cubed", "factorial", "halved", "tens", "less than", "or more", "times two", "wrong",
    )  # fmt: skip
    return str(n), rf"{n} \text{{ {word}}}"


CHEATS: dict[str, Callable[[random.Random], Drawn]] = {
    "brackets dropped: one list for open and closed intervals and for points": brackets,
    "chinese label: the value of something else": chinese_label,
    "choice: text after the letter is not read": choice_and_more,
    "clock: a time of day is compared as a ratio": clock,
    "constant: a given c, C or K is arbitrary": given_constant,
    "equation: a double zero adds solutions (corners.zeros sees changes of sign only)": double_zero,
    "float-key: one literal pays every non-integer reference (rules/rounding.py: places of 1.0e-30 ignore the exponent)": float_key,
    "float-reference: a reference in e-notation has a step of 10^-places (rules/rounding.py)": float_reference,
    "imaginary part dropped by max, min, mod": imaginary_part,
    "intervals: ends that are the same float are merged": merged_ends,
    "letter as a unit: i, e or a variable after a space in \\mathrm or \\text is dropped": letter_as_unit,
    "modulus 1: every n + c is 0 mod 1, and a sequence is a congruence": modulus_one,
    "mp: minus-plus is read as plus-minus (parse.py)": minus_plus,
    "names freed: one declared letter in the answer frees all letters, in any order": freed_names,
    "nested set from names": nested_set,
    "pi-family: a formula with pi and a letter of k..t counts as a family (rules/families.py)": formula_of_pi,
    'remark: everything after for/when/with/over/as is skipped, "or 43" too': restricting_remark,
    "restated: a trivial change hides the question from the textual check": restated,
    "shift: a word or a range in the answer turns a formula into a family of all integers (rules/families.py)": shifted,
    "sign in \\text is dropped": sign_in_text,
    "thousands: a list is the number": thousands,
    "too small to see: no large number on the way": too_small,
    "undone: determinant in plain bars, products of diag": matrix_left,
    "undone: the operation stands left of the label (undone.py looks at the last operand)": operation_left_of_label,
    "units: yuan is yen, a power is dropped": other_unit,
    "whole numbers: only 1 to 9 are tried": whole_numbers,
    "word that changes the number is a unit": word_that_changes,
}  # fmt: skip


def drawn(name: str, source: random.Random) -> Pair:
    """A pair of a kind of cheat."""
    reference, answer, *prompts = CHEATS[name](source)
    prompt = prompts[0] if prompts else None
    boxed = rf"\boxed{{{answer}}}"
    return Pair(name, reference, boxed if prompt is None else f"{prompt} {boxed}", False, prompt)
