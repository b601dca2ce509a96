r"""Finding the final answer: ``\boxed`` with balanced braces, in linear time."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from math_reward.grader import Mode, Options, Verdict, grade
from math_reward.grader.extraction import phrases, prose, thoughts
from math_reward.grader.extraction.phrases import PHRASES, Phrase
from math_reward.grader.extraction.places import Place
from math_reward.grader.extraction.statement import (
    END_CHARACTERS,
    SCANNED_CHARACTERS,
    Statement,
    final_answer,
    last_boxed,
)
from math_reward.grader.grading import forget
from math_reward.grader.words import doubts
from math_reward.grader.words.doubts import DOUBTS

SAID_IN_EXAMPLES = ["42", "B", "yes", "3, 4", "x = 3, y = 4", "square", "y = 2x"]

pieces = st.sampled_from([r"\boxed{", r"\fbox{", "{", "}", r"\{", r"\}", "1", "x ", "words "])


def closed_boxes(text: str) -> list[tuple[int, str]]:
    """Every closed box by brute force: for each opening one, count braces forward until it is closed."""
    found = []
    for opening in re.finditer(r"\\(?:boxed|fbox)\{", text):
        depth, position = 1, opening.end()
        while depth and position < len(text):
            if text[position] == "\\" and text[position + 1] in "{}":
                position += 1
            else:
                depth += {"{": 1, "}": -1}.get(text[position], 0)
            position += 1
        if depth == 0:
            found.append((position, text[opening.end() : position - 1]))
    return found


@given(st.lists(pieces, max_size=30).map("".join))
def test_the_box_that_closes_last_is_found(text: str):
    assume(not re.search(r"\}\s*\\(?:boxed|fbox)\{", text))  # Boxes side by side are one list, see below.
    found = closed_boxes(text)
    expected = max(found)[1] if found else None
    if expected is not None:
        expected = re.sub(r"\\(?:boxed|fbox)(?=\{)", "", expected).strip()

    assert last_boxed(text) == expected


@given(st.text())
def test_any_text_at_all_has_an_answer_or_none(text: str):
    answer = final_answer(text)

    assert answer is None or answer.text


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"\boxed {42}", "42"),
        (r"\\boxed{42}", "42"),
        (r"a \\ \boxed{42}", "42"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{1}, \boxed{2}", "1, 2"),
        (r"$\boxed{1}$ and $\boxed{2}$", "1, 2"),
        (r"\boxed{1},\quad\boxed{2} \text{ and } \boxed{3}", "1, 2, 3"),
        (r"\boxed{1} \boxed{2}", "1, 2"),
        ("\\boxed{1}\n\\boxed{2}", "2"),
        (r"\boxed{1}, then \boxed{2}", "2"),
        (r"\boxed{7}, \boxed{7}", "7"),
        (r"\boxed{1} or \boxed{2}", "1, 2"),
        (r"\boxed{a \boxed{b} c} \boxed{", "a {b} c"),
        (r"\fbox{1} and \boxed{2}", "1, 2"),
        (r"\boxedness{1}", None),
        (r"\boxed 7", None),
        (r"\boxed{1} \quad \text{and} \quad \boxed{2}", "1, 2"),
        (r"\boxed{1} \text{ for part (a) and } \boxed{2}", "1, 2"),
        (r"\boxed{1} \) and \( \boxed{2}", "1, 2"),
        (r"\boxed{1} and in part (b) \boxed{2}", "1, 2"),
        (r"\boxed{\sqrt2}, numerically \boxed{\approx 1.414}", r"\sqrt2 \approx  1.414"),
        (r"it is \boxed{\frac13} \approx \boxed{0.333}", r"\frac13 \approx 0.333"),
    ],
)
def test_boxes_are_read_as_latex_writes_them(text: str, content: str | None):
    assert last_boxed(text) == content


@pytest.mark.parametrize(
    "piece", [r"\boxed{", "{", "}", "\\boxed ", r"\boxed{1}", r"\boxed{1},", "\\boxed{1}" + " " * 50]
)
def test_a_megabyte_of_anything_is_read_in_one_pass(piece: str):
    final_answer(piece * (10**6 // len(piece)))  # Quadratic time would run into the time limit of the test.


@pytest.mark.parametrize("joint", [" or ", r" \text{ or } ", ", or "])
def test_boxes_joined_by_or_are_offered_for_choice(joint: str):
    assert final_answer(rf"\boxed{{1}}{joint}\boxed{{2}}") == Statement("1, 2", boxed=True, alternatives=True)
    assert final_answer(r"\boxed{1} and \boxed{2}") == Statement("1, 2", boxed=True)


def test_only_the_end_of_a_text_is_searched():
    assert final_answer("The answer is 42. " + "words " * END_CHARACTERS) is None
    assert final_answer(r"\boxed{42} " + "x" * SCANNED_CHARACTERS, Mode.STRICT) is None
    assert final_answer("x" * (2 * END_CHARACTERS) + " so 42") == Statement("42", boxed=False)


@pytest.mark.parametrize("place", prose.PLACES, ids=lambda place: place.about)
def test_each_place_of_an_answer_is_read_and_no_other_finds_it(
    place: Place[prose.Told], monkeypatch: pytest.MonkeyPatch
):
    answer = final_answer(place.example)

    assert grade(place.example, ["42", "B", "true", "6, 7", "square", "y = 6x", "2"]).correct == (answer is not None)
    monkeypatch.setattr(prose, "PLACES", tuple(other for other in prose.PLACES if other is not place))
    assert final_answer(place.example) != answer


@pytest.mark.parametrize("place", prose.STATED, ids=lambda place: place.about)
def test_without_its_row_the_example_of_a_place_behind_a_phrase_has_another_answer(
    place: Place[prose.Behind], monkeypatch: pytest.MonkeyPatch
):
    answer = final_answer(place.example)

    monkeypatch.setattr(prose, "STATED", tuple(other for other in prose.STATED if other is not place))
    assert final_answer(place.example) != answer


@pytest.mark.parametrize("phrase", PHRASES, ids=lambda phrase: phrase.example)
def test_a_phrase_is_in_its_example_with_one_of_its_keywords_and_its_answer_is_found(phrase: Phrase):
    announced = re.search(phrase.pattern, phrase.example, re.IGNORECASE | re.MULTILINE)
    found = final_answer(phrase.example)

    assert found is not None
    assert found.text.strip("$. ") in ("42", "A")
    assert announced is not None
    assert any(word in announced[0].lower() for word in phrase.keywords.split())


@pytest.mark.parametrize("phrase", PHRASES, ids=lambda phrase: phrase.example)
def test_without_its_row_a_phrase_announces_nothing(phrase: Phrase, monkeypatch: pytest.MonkeyPatch):
    text = f"{phrase.example}\nBefore that, in the first of the two weeks of this month, there were 13."
    announced = final_answer(text)

    assert announced is not None
    assert announced.text.strip("$. ") in ("42", "A")
    monkeypatch.setattr(phrases, "PHRASE", phrases.any_of(row for row in PHRASES if row is not phrase))
    assert final_answer(text) != announced


def test_glm_s_box_counts_in_strict_mode_and_tags_do_not():
    assert final_answer("<|begin_of_box|>42<|end_of_box|>", Mode.STRICT) == Statement("42", boxed=True)
    assert final_answer("<answer>42</answer>", Mode.STRICT) is None


@pytest.mark.parametrize("doubt", DOUBTS, ids=lambda doubt: f"{doubt.language} {doubt.kind} {doubt.places}")
def test_without_its_row_the_example_of_a_doubt_is_graded_in_another_way(
    doubt: doubts.Doubt, monkeypatch: pytest.MonkeyPatch
):
    prompt, _, completion = doubt.example.rpartition("=>")

    def graded() -> tuple[Verdict, str | None]:
        forget()
        found = grade(f"{prompt}\n{completion}", SAID_IN_EXAMPLES, prompt or None)
        return found.verdict, found.answer

    with_its_row = graded()
    monkeypatch.setattr(doubts, "SAYS", doubts.compiled(row for row in DOUBTS if row is not doubt))
    assert graded() != with_its_row
    forget()


@pytest.mark.parametrize("thought", thoughts.THOUGHTS, ids=lambda thought: thought.models.split(",")[0])
def test_a_thought_that_does_not_end_has_no_answer_in_any_template(
    thought: thoughts.Thought, monkeypatch: pytest.MonkeyPatch
):
    opening = re.search(thought.opening, thought.example)
    assert opening is not None
    prompt = f"What is 40+2?\n{opening[0]}"

    for mode in Mode:
        options = Options(mode=mode)
        assert grade(thought.example, "42", options=options).verdict is Verdict.NO_ANSWER
        assert grade(rf"{prompt} It is \boxed{{42}}", "42", prompt, options).verdict is Verdict.NO_ANSWER
        assert grade(r"It is \boxed{42}", "42", options=options).correct
    monkeypatch.setattr(thoughts, "MARKS", thoughts.any_of([row for row in thoughts.THOUGHTS if row is not thought]))
    assert grade(thought.example, "42").correct, "the row is what refuses it"
