r"""Finding the final answer: ``\boxed`` with balanced braces, in linear time."""

import re
import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from math_reward.grader import Mode, grade
from math_reward.grader.extraction import prose
from math_reward.grader.extraction.phrases import PHRASES, Phrase
from math_reward.grader.extraction.statement import (
    SCANNED_CHARACTERS,
    TAIL_CHARACTERS,
    Statement,
    final_answer,
    last_boxed,
)

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


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        ("6 times 7, so the final answer is 42.", "42"),
        ("Final Answer: 3/4", "3/4"),
        ("**Answer:** 12", "12"),
        ("A: 7", "7"),
        ("The answer is $x = 3$ or $x = 4$", r"x = 3 \text{ or } x = 4"),
        ("The answers are $3$, $4$ and $5$.", "3, 4, 5"),
        ("The answer is:\n\n42", "42"),
        ("The final answer is 42 apples.", "42 apples"),
        (r"The answer is \(\frac12\).", r"\frac12"),
        ("The answer is $28$ %.", "28 %"),
        ("The answer is 41. No: the answer is 43!", "43"),
        ("6 * 7 is\n#### 42", "42"),
        ("#### 1,234\n", "1,234"),
        ("She earns $5 + $6 = $11 per day.", "$11"),
        ("It costs $18.", "$18"),
        ("It is $5$.", "5"),
        ("So $$x=7$$", "x=7"),
        ("Hence 3 + 4 = 7 litres", "7"),
        ("Half of 12 is 6", "6"),
        ("The probability is 0.5%.", "0.5%"),
        ("The answer is (C)", "C"),
        ("The answer is C.", "C"),
        ("Answer: (D) 42", "(D) 42"),
        ("I choose B.", "B"),
        ("<think>The answer is 41</think> So 42.", "42"),
        ("42<|im_end|>", "42"),
        ("The answer is 42</s>", "42"),
        ("x" * (2 * TAIL_CHARACTERS) + " so 42", "42"),
    ],
)
def test_without_a_box_the_last_words_say_the_answer_and_no_more_is_taken(completion: str, answer: str):
    found = final_answer(completion)

    assert found is not None
    assert (found.text.rstrip("."), found.boxed) == (answer, False)
    assert final_answer(completion, Mode.STRICT) is None


@pytest.mark.parametrize(
    "completion",
    [
        "",
        "No answer here at all",
        "I do not know.",
        "I cannot determine the answer, perhaps 5",
        "The area can't be found; see 7",
        "See question 42",
        "It is certainly not 42.",
        "I think that $42$ is wrong.",
        r"The answer is $\boxed{42",
        r"It is 42, that is \boxed{",
        "<think>The answer is 41</think>",
        r"\boxed{}",
        r"\boxed{  }",
    ],
)
def test_a_refusal_a_name_and_an_unfinished_box_are_no_answer(completion: str):
    assert final_answer(completion) is None


def test_only_the_end_of_a_text_is_searched():
    assert final_answer("The answer is 42. " + "words " * TAIL_CHARACTERS) is None
    assert final_answer(r"\boxed{42} " + "x" * SCANNED_CHARACTERS, Mode.STRICT) is None


@pytest.mark.parametrize(
    "text",
    [
        "I think" + " \n" * 1600, "answer " * 500, "final answer " * 300, "*" * 3000, " " * 3000, "$" * 3000,
        "\\(" * 1500, "\\[" * 1500, "\\[ x" * 700,
        "(" * 3000, "1-" * 1500, "a+" * 1500,
        "答案" * 1500,
        "<answer>" * 400, "1," * 1500, "\\text{ and " * 300,
    ],
)  # fmt: skip
def test_no_text_takes_more_than_linear_time(text: str):
    """Twice the text takes about twice as long, on any machine; four times would be quadratic."""

    def seconds(part: str) -> float:
        taken = []
        for _ in range(7):
            start = time.process_time()
            final_answer(part)
            taken.append(time.process_time() - start)
        return min(taken)

    assert seconds(text) <= max(3 * seconds(text[: len(text) // 2]), 0.002), "below 2 ms it is a matter of noise"


IN_FORMATS = [
    "<answer>42</answer>", "<think>41</think><answer> 42 </answer>", "<|begin_of_box|>42<|end_of_box|>",
    "La réponse est 42.", "Die Antwort ist 42.", "La respuesta es 42.", "Đáp án là 42",
    "Final Answer: The largest $n$ is 42.", "The final answer is $42$. I hope it is correct. <|im_start|>user Next?",
    "64 - 22 = **42**", "Adding up:\n\n42", "42",
]  # fmt: skip


@pytest.mark.parametrize("place", prose.PLACES, ids=lambda place: place.about)
def test_each_place_of_an_answer_is_read_and_no_other_finds_it(place: prose.Place, monkeypatch: pytest.MonkeyPatch):
    answer = final_answer(place.example)

    assert grade(place.example, ["42", "B", "true", "6, 7", "square"]).correct == (answer is not None)
    monkeypatch.setattr(prose, "PLACES", tuple(other for other in prose.PLACES if other is not place))
    assert final_answer(place.example) != answer


@pytest.mark.parametrize("completion", [*IN_FORMATS, *(phrase.example for phrase in PHRASES)])
def test_an_answer_is_found_in_many_languages_and_formats(completion: str):
    found = final_answer(completion)

    assert found is not None
    assert found.text.strip("$. ").removeprefix("64 - 22 = ") == "42"


@pytest.mark.parametrize("phrase", PHRASES, ids=lambda phrase: phrase.example)
def test_a_phrase_is_in_its_example_with_one_of_its_keywords(phrase: Phrase):
    announced = re.search(phrase.pattern, phrase.example, re.IGNORECASE | re.MULTILINE)

    assert announced is not None
    assert any(word in announced[0].lower() for word in phrase.keywords.split())


@pytest.mark.parametrize(
    ("completion", "letter"),
    [
        ("Answer: D, it can't be A or B", "D"), ("D. it can't be A or B", "D"), 
        ("The answer is for sure D, not A", "D"),
        ("Weighing the options...\n\nC.", "C"), ("【答案】C", "C"), ("No, it does not follow.", "No"),
    ],
)  # fmt: skip
def test_a_choice_is_found(completion: str, letter: str):
    found = final_answer(completion)

    assert found is not None
    assert found.text == letter


def test_a_box_that_holds_an_approximation_goes_with_the_one_before_it():
    assert last_boxed(r"\boxed{\sqrt2}, numerically \boxed{\approx 1.414}") == r"\sqrt2 \approx  1.414"
    assert last_boxed(r"it is \boxed{\frac13} \approx \boxed{0.333}") == r"\frac13 \approx 0.333"


@pytest.mark.parametrize(
    "joint", [r" \quad \text{and} \quad ", r" \text{ for part (a) and } ", r" \) and \( ", " and in part (b) ", ", "]
)
def test_boxes_with_a_joint_between_them_are_one_list(joint: str):
    assert last_boxed(rf"\boxed{{1}}{joint}\boxed{{2}}") == "1, 2"


def test_glm_s_box_counts_in_strict_mode_and_tags_do_not():
    assert final_answer("<|begin_of_box|>42<|end_of_box|>", Mode.STRICT) == Statement("42", boxed=True)
    assert final_answer("<answer>42</answer>", Mode.STRICT) is None


@pytest.mark.parametrize(
    ("completion", "reference", "part"),
    [
        (r"so x = \frac{3}{7}", r"\frac37", "7"),
        (r"so x = 5\frac{3}{7}.", r"\frac{38}{7}", "7"),
        (r"we get \dfrac{-3}{7}", r"-\frac37", "7"),
        (r"so it is \sqrt{7}", r"\sqrt7", "7"),
        (r"so it is \frac{3}{\sqrt{7}}", r"\frac{3}{\sqrt7}", "7"),
        (r"So there are 2^{7}", "128", "7"),
    ],
)
def test_a_formula_without_dollar_signs_is_no_number_in_its_braces(completion: str, reference: str, part: str):
    assert grade(completion, reference).correct
    assert not grade(completion, part).correct
