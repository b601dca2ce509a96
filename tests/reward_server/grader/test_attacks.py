r"""Answers that a policy would find and that are none: not one of them is paid. And right answers in unusual forms.

Each group is a kind: something infinite, NaN or zero over zero, something dropped (a modulus, a unit, a domain, a
label), something permuted, something that is only a part of what was said.
"""

import pytest

from math_reward.grader import Verdict, grade

BOXED: dict[str, list[tuple[str, str]]] = {
    "infinities in equations": [
        ("y=2x+1", r"10^{200}\cdot10^{200}x=1"), ("PV=nRT", r"1e308\cdot 10x=1"), ("x=5", r"1e308\cdot 10x=1"),
        ("a=1, b=2", r"10^{200}\cdot10^{200}x=1"), ("x=5", "0x=0"), ("x=5", "0=0"), ("x=5", "x=x"),
        ("x=5", r"\frac{x-5}{0}=0"), ("x=5", r"\frac{1}{x-5}=\infty"), ("x>5", "x>x"), ("x=0", "x+10^{-8}y=0"),
    ],
    "zero over zero": [
        ("1:2", "0:0"), ("1:2:3", "0:0:0"), ("1:30", "0:0"), ("1:30", "0:0:0"), ("0:1:2", "0:5:3"),
        ("5", r"\frac{0}{0}"), ("5", "5 + 0/0"), ("2x", "2x+0/0"), ("5", "NaN"), ("5", r"\infty"),
        ("1", r"e^0+0\cdot\infty"), (r"\infty", r"-\infty"),
    ],
    "corners and jumps": [
        ("x=5", r"x\max(0,\min(1,2-|x-1|))=0"), ("x=1", "|x|=1"), ("x=2y", "|x|=2|y|"), ("x=y", "|x|=|y|"),
        ("x", r"x+\max(0,x-100)"), ("x", r"x+\frac{\sqrt{(x-1000)^2}+x-1000}{2}"),
        ("x", r"x+\max(0,1-10^9|x-3.1234|)"), ("x", r"100\arctan(\tan(x/100))"), ("x", r"\lfloor x\rfloor"),
        (r"\sin\pi x", r"0\cdot x!"), ("x<3", r"x+\sin(\pi x)<3"), ("y=6", "xy=6x"),
    ],
    "differences too small to see": [
        (r"\sqrt2", r"\sqrt2+10^{-90}"), (r"\sqrt2", r"\sqrt2\tanh(300)"), ("1", r"\cos(10^{-60})"),
        (r"\frac{\pi}{2}", r"\arctan(10^{200})"), ("x", "x+10^{-400}"), ("x<0", "3x<10^{-12}"),
        ("(0,10^{17})", "(0,10^{17}+1)"),
    ],
    "another word": [
        (r"10\% \text{ decrease}", r"10\% \text{ increase}"), (r"5 \text{ profit}", r"5 \text{ loss}"),
        (r"5\text{ km east}", r"5\text{ km west}"), (r"3 \text{ years older}", r"3 \text{ years younger}"),
        (r"5 \text{ passed}", r"5 \text{ failed}"), (r"3 \text{ units right}", r"3\text{ units left}"),
        (r"5\text{ feet per minute}", r"5\text{ feet per second}"), (r"5\text{ apples}", r"5\text{ oranges}"),
        (r"5\text{ cm}", r"5\text{ km}"), (r"5\text{ m}", r"5\text{ m}^2"), (r"3\text{ m/s}", r"3\text{ s/m}"),
        (r"\$5", r"5\text{ cents}"), ("dog", "god"),
    ],
    "a word that says another number": [
        ("5", "5 million"), ("5", "5 hundred"), ("5", "5 dozen"), ("5", "5 squared"), ("5", r"5 \text{ or six}"),
        (r"5\text{ million}", r"5\text{ billion}"), ("5", r"5 \text{ plus } 1"), ("5", r"5\text{ times }2"),
        ("5", r"5 \text{ less than } 8"), ("12", r"\text{twelve and a half}"), ("5", r"\text{at most }5"),
    ],
    "digits with Chinese units": [
        ("3", "3千"), ("3", "3万5千"), ("5", "3万5千"), ("35000", "3万5"), ("150000", "3万5"), ("30005", "3万5"),
        ("53000", "5千3万"), ("35000", "3万5千多"), ("35", "3千5百"), ("3000", "3千分之一"), ("5", "5分之一"),
        ("500", "5百分点"),
    ],
    "permuted or dropped labels": [
        ("a=1,b=2", "a=2,b=1"), ("AB=5,AC=7", "AB=7,AC=5"), ("f(x)=x^2, g(x)=x", "f(x)=x, g(x)=x^2"),
        ("(5,6)", "y=5,x=6"), ("a:b=1:2", "b:a=1:2"), ("p=5,q=2", "q=5,p=2"), ("x>2", "y>2"), ("x=3", "y=3"),
        ("AB=5", "AC=5"), ("f(x)=3", "g(x)=3"), ("C", "c"),
        ("xy", "xY"), ("2C", "2A"), ("C+1", "A+1"), ("x+C", "x+2C"), ("x^2+C", "x^2+C+x"),
    ],
    "a modulus or a domain dropped": [
        (r"x\equiv3\pmod 7", r"3 \pmod 5"), (r"x\equiv3\pmod 7", "3"), (r"7\pmod{100}", r"7\pmod{10}"),
        (r"\{x\in\mathbb Z\mid x>3\}", r"(3,\infty)"), (r"\mathbb{R}", r"\mathbb{Q}"), ("k=n+1", "n+2"),
    ],
    "sets and lists": [
        ("{{0,1},{1,2}}", "{{0,1},{1,3}}"), ("{{0,1},{1,2}}", "{{0,1}}"), ("{{0,1},{1,2}}", r"\{\{0,1,1,2\}\}"),
        ("{{0,1},{1,2}}", r"\{0,1,2\}"), ("1,234", "234, 1"), ("1,2,3", "1,2,3,..."), ("1,2,3", r"1,2,\ldots,3"),
        (r"\{\{1\},\{2\}\}", r"\{1,2\}"), (r"\{\{1\},\{2\}\}", "1;3"),
        ("(1,2)", r"\{1,2\}"), (r"\{1,2\}", r"\emptyset"), (r"\emptyset", r"\{0\}"), (r"\emptyset", "(3,3)"),
        ("x>2", "x>2,x<100"), ("x>2", r"x>2 \text{ or } x<0"), ("|x-2|<3", "(N,N)"),
        ("|x-2|<3", r"(\infty-\infty,\infty-\infty)"),
        ("|x-2|<3", r"(1e308\cdot10-1e308\cdot10,1e308\cdot10-1e308\cdot10)"), ("5", "5,5"), ("5", "[5,6]"),
    ],
    "more or less than the answer": [
        ("42", "41 = 42"), ("5", "5=6"), ("5", r"5 \neq 6"), ("5", r"\pm5"), ("2", "x<2"), ("x^2", "x^2+C"),
        ("x^2+C", "x^2"), ("1/3", "0.333"), ("1", "0.9999999999999999"), ("1/2", "1/2/1/2"), ("i", "-i"),
        ("n!", r"\Gamma(n)"), ("x", r"\frac{d}{dx}x^2"), ("2x", r"\frac{d}{dx}2x^2"), ("0", r"x\equiv 0\pmod 1"),
    ],
}  # fmt: skip

IN_PROSE = [
    ("1", "(0, 1)"), ("2", "x<2"), ("7", "3*sqrt(5)/7"), ("3", "-1 + sqrt(3)"), ("42", "41 = 42"),
    ("2", r"\left(3,\frac{\pi}{2}\right)"), ("2", "The answer is x<2"), ("1", "so we get (0, 1)"),
    ("1", "It is the interval (0, 1)."), ("7", "Hence it is 3*sqrt(5)/7."), ("3", "so x = -1 + sqrt(3)"),
    ("5", "f(5)"), ("5", "It is a_5"), ("5", "It is $x$ + $5$"), ("5", "We get x^5"), ("5", "3/5"), ("3", "1, 2, 3"),
    ("2", "x = 1 or x = 2"), ("5", "{3, 5}"), ("5", "[3, 5]"), ("5", "5 is not the answer"),
    ("5", "I think 4, maybe 5"), ("42", "The answer is 42 or 43"), ("5", "answer: 5x"),
    ("5", "The answer is between 4 and 5"), ("5", "2*5"), ("5", "-5"), ("5", "|x| < 5"), ("5", "x ≠ 5"),
    ("5", "sin(5)"), ("5", "5!"), ("5", "10%5"), ("5", r"\boxed{5"), ("5", r"\boxed{}"), ("5", r"\boxed{\boxed{}}"),
    ("3", "一共有3万"), ("5", "一共有3万5千"), ("3", "一共有3千个。"),
]  # fmt: skip

RIGHT = [
    ("5", "5=x"), ("5", r"\color{red}{5}"), ("3.14", r"\approx 3.14"), ("x^2+c", "x^2+C"), (r"2\pi n", r"2k\pi"),
    ("(1,2)", r"\begin{cases}x=1\\y=2\end{cases}"), (r"(-\infty,1)\cup(2,\infty)", "x<1, x>2"),
    ("AB", r"\overline{AB}"), ("1/2", "one half"), ("1200000", "1.2 million"), ("m/s", r"m\,s^{-1}"),
    (r"-10.5\text{ kg m/s}^2", r"-10500\text{ g m/s}^2"), ("5 GN", r"5000000000 \text{ kg m s}^{-2}"),
    ("9.8 ms^-2", r"9.8 \text{ m/s}^2"), (r"x\equiv3\pmod 7", "7k+3"), ("10", "C_5^2"), ("20", "A_5^2"),
    ("10", r"{}^5C_2"), (r"\sum_{k=1}^{10}k", "55"), (r"\int_0^1 x dx", "1/2"), (r"\prod_{k=1}^{4}k", "24"),
    (r"\lim_{x\to0}\frac{\sin x}{x}", "1"), (r"\sum_{k=1}^{n}k", "n(n+1)/2"), ("24", r"\Gamma(5)"),
    (r"\sum_{k=1}^{\infty}\frac{1}{k^2}", r"\pi^2/6"), ("1+2i", r"\overline{1-2i}"), ("25", "twenty-five"),
    (r"\frac{\pi}{2}+k\pi", r"-\frac{\pi}{2}+n\pi"), ("(2,3,-1)", r"2\hat{i}+3\hat{j}-\hat{k}"),
    (r"\operatorname{diag}(1,2)", r"\begin{pmatrix}1&0\\0&2\end{pmatrix}"), ("1/12", "0.0833333333333333"),
    ("1,22", "1.22"), ("2^6 * 3^5", "2^6 3^5"), ("分层抽样", r"\text{分层抽样}"),
    ("all integers k ≥ 2", r"All integers $k \ge 2$"), ("y+1=-(2x-1)^2", "-4x^2+4x-2"),
    ("p=5,q=2;p=7,q=2", "(5,2),(7,2)"), ("7,4", r"7 \text{ goats and } 4 \text{ hens}"),
    (r"\frac{54}{25}", r"The\ area\ is\ \frac{54}{25}"), (r"\frac13", r"\frac13\;\text{(about }0.333\text{ cards)}"),
    (">=", r"\geq"), ("ACD", "DCA"), (r"x \in [-2,7]", r"-2 \le x \le 7"),
    ("35000", "3万5千"), ("35000", "3万5000"), ("33000000", "3千3百万"), ("3000,5000", "3千,5千"),
]  # fmt: skip


@pytest.mark.parametrize(("reference", "answer"), [pair for pairs in BOXED.values() for pair in pairs])
def test_a_boxed_answer_that_is_none_is_not_paid(reference: str, answer: str):
    assert grade(rf"\boxed{{{answer}}}", reference).verdict not in (Verdict.CORRECT, Verdict.ERROR)


@pytest.mark.parametrize(("reference", "completion"), IN_PROSE)
def test_a_part_of_what_is_said_is_not_paid(reference: str, completion: str):
    assert grade(completion, reference).verdict not in (Verdict.CORRECT, Verdict.ERROR)


@pytest.mark.parametrize(("reference", "answer"), RIGHT)
def test_a_right_answer_in_an_unusual_form_is_paid(reference: str, answer: str):
    assert grade(rf"\boxed{{{answer}}}", reference).verdict is Verdict.CORRECT


@pytest.mark.parametrize("reference", ["y=2x+1", "PV=nRT", "x>2", "(1,2)", r"\{1,2,9\}", "1:7", "dog", "7 million"])
def test_no_attack_on_one_reference_is_paid_for_another(reference: str):
    answers = {answer for pairs in BOXED.values() for _, answer in pairs}
    paid = [answer for answer in sorted(answers) if grade(rf"\boxed{{{answer}}}", reference).correct]

    assert paid == []
