r"""One spelling for what is written in many: `normalise` and `compact`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from math_reward.grader.notation import normalise as spelling
from math_reward.grader.notation.normalise import compact, normalise, without_delimiters
from math_reward.grader.notation.rewrites import REWRITES

SPELLINGS = [
    ("42", "42"),
    ("  42. ", "42"),
    (": 42;", "42"),
    ("$42$", "42"),
    ("$$42$$", "42"),
    (r"\(42\)", "42"),
    (r"\[ 42 \].", "42"),
    ("**42**", "42"),
    (r"\tfrac12", r"\frac12"),
    (r"\bigl[1\bigr]", "[1 ]"),
    (r"a \leqslant b", r"a \le b"),
    (r"a \lt b", "a  <  b".replace("  ", " ")),
    (r"\lbrace 1 \rbrace", r"\{ 1 \}"),
    (r"\varnothing", r"\emptyset"),
    ("4²", "4^{2}"),
    ("x₁₂", "x_{12}"),
    ("2⁻¹", "2^{-1}"),
    ("1½", r"1\frac{1}{2}"),
    ("−5", "-5"),
    ("2 × 3", r"2 \times 3"),
    ("90°", r"90^\circ"),
    ("π", r"\pi"),
    ("x ≥ 2", r"x \ge 2"),
    ("４２", "42"),
    ("4\u20602", "42"),
    ("\x0crac{1}{2}", r"\frac{1}{2}"),
    ("x^", "x"),
    ("x\\", "x"),
    (r"\$5", r"\$5"),
    (r"50\%.", r"50\%"),
    (r"x\,.", "x"),
    *(rewrite.example for rewrite in REWRITES),
]


@pytest.mark.parametrize(("text", "normal"), SPELLINGS)
def test_every_spelling_becomes_the_plain_one(text: str, normal: str):
    assert normalise(text) == normal


def test_every_rewrite_changes_its_example():
    assert all(
        rewrite.when(text) and rewrite.pattern.search(text) for rewrite in REWRITES for text, _ in [rewrite.example]
    )


def test_without_its_row_the_example_of_a_rewrite_has_another_spelling(monkeypatch: pytest.MonkeyPatch):
    tables = {name: getattr(spelling, name) for name in ("WORDS", "MARKUP", "LATEX", "WITHOUT_LATEX", "AT_LAST")}
    needless = []
    for rewrite in set(REWRITES):
        for name, rows in tables.items():
            monkeypatch.setattr(spelling, name, [row for row in rows if row is not rewrite])
        text, normal = rewrite.example
        needless += [text] * (normalise(text) == normal)

    assert needless == []


@pytest.mark.parametrize("normal", sorted({normal for _, normal in SPELLINGS}))
def test_the_plain_spelling_stays(normal: str):
    assert normalise(normal) == normal


def test_only_delimiters_around_the_whole_are_taken_off():
    assert without_delimiters("$1$ and $2$") == "$1$ and $2$"
    assert without_delimiters(r"\[ $5$ \]") == "5"


def test_spaces_that_cannot_matter_are_left_out_and_others_kept():
    assert compact("( 1 , x + 2 )") == "(1,x+2)"
    assert compact("42 43") == "42 43"
    assert compact(r"\pi r") == r"\pi r"


@pytest.mark.parametrize("piece", [" ", " ,", ".", " ^", "é ", r"\left("])
def test_a_megabyte_of_anything_is_normalised_in_one_pass(piece: str):
    normalise("x" + piece * (10**6 // len(piece)) + "y")  # Quadratic time would run into the time limit of the test.


@given(st.text(max_size=80))
def test_any_text_at_all_has_a_spelling_without_spaces_at_its_ends(text: str):
    normal = normalise(text)

    assert normal == normal.strip()
