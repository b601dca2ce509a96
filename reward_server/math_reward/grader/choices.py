"""Questions with choices: the prompt's "(A) 56 (B) 63 (C) 72" says which letter an answer means, and which text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from math_reward.grader.extraction.boxes import Statement
from math_reward.grader.notation.parse import MAX_CHARACTERS
from math_reward.grader.reading import Reference
from math_reward.grader.second_readings import CHOICE, is_value
from math_reward.grader.verdict import Grade, Stage, Verdict
from math_reward.grader.words.letters import (
    MARK,
    behind_text,
    letter_of,
    letters,
    named,
    others,
    with_text_in_brackets,
)

PROMPT_CHARACTERS = 4_000
"""How much of a prompt's end is searched for choices."""
MAX_TEXT = 300

# "\text{A)}\ & 90 &": a choice in a table of LaTeX.
_CELL_BEGIN = re.compile(r"\A(?:[\s&}]|\\ ){1,12}")
_CELL_END = re.compile(
    r"(?:[\s&,;]|\\\\|\\(?:text|math)\w*\s?\{|\\q?quad(?![a-z])|\\hspace\*?\{\w*\}|\\item|\\end\{\w+\*?\}){1,40}\Z"
)
# What follows the last choice: a line, "$ If you cannot ...", ". Which option is correct?"
_QUESTION = re.compile(r"\n|(?<=[\w)}$])[.$]\s(?=[A-Z])")
_NOISE = re.compile(r"\\(?:text\w*|mathrm|displaystyle)(?![a-z])|[\s$*{}\\.,;:。；，'\"“”()]+")


def choices_of(prompt: str) -> dict[str, str]:
    """The choices of a prompt's last question, letter by letter; empty if it has none.

    Args:
        prompt: the question.

    Returns:
        Each letter in upper case, and its text. A question has A, B and one more at least; two are enough in brackets.
    """
    text = prompt[-PROMPT_CHARACTERS:]
    runs: dict[str, list[re.Match[str]]] = {}
    """By each letter: its mark, the next mark of the next letter, and so on. They are read from the end."""
    for mark in reversed(list(MARK.finditer(text))):
        run = runs[letter_of(mark)] = [mark, *runs.get(chr(ord(letter_of(mark)) + 1), ())]
        if letter_of(mark) in ("A", "a") and (len(run) > 2 or (len(run) == 2 and all(one["inner"] for one in run))):
            break
    else:
        return {}
    ends = [*(following.start() for following in run[1:]), len(text)]
    texts = [_CELL_END.sub("", text[one.end() : end]) for one, end in zip(run, ends, strict=True)]
    texts = [_CELL_BEGIN.sub("", said) for said in texts]
    texts[-1] = _CELL_END.sub("", _QUESTION.split(texts[-1], maxsplit=1)[0])
    found = {letter_of(one).upper(): said[:MAX_TEXT].rstrip(" ;,\n") for one, said in zip(run, texts, strict=True)}
    return found if all(found.values()) else {}


def choice_in(reference: str) -> dict[str, str]:
    """The choice that a reference names with its text, "B. 72"; empty if it is none."""
    said = MARK.match(reference)
    if said is None or not letter_of(said).isupper() or MARK.search(reference, said.end()):
        return {}
    text = reference[said.end() :].strip()
    return {letter_of(said): text} if text and reference[said.end() - 1].isspace() else {}


def same_choice(
    choices: Mapping[str, str], reference: str, answer: str, after: str, same: Callable[[str, str], bool]
) -> bool | None:
    """Whether an answer means the choice that the reference is.

    Args:
        choices: of `choices_of`.
        reference: a letter, the text of a choice, or both.
        answer: likewise; ``after`` is what follows it in the completion.
        same: whether two texts, reference and answer, are the same.

    Returns:
        None where the choices do not decide: the reference is none of them, or neither side names a letter.

    Raises:
        ValueError: the answer's letter has the text of another choice, or another letter beside it.
    """

    def meant(text: str) -> str | None:
        """The only choice with this text."""
        plain = _plain(text)
        found = [letter for letter, said in choices.items() if _plain(said) == plain]
        found = found or [letter for letter, said in choices.items() if len(text) < MAX_TEXT and same(said, text)]
        return found[0] if len(found) == 1 else None

    if len(letters(reference) or ()) > 1:
        return None
    expected, its_text = _split(reference, choices)
    letter, text = _split(answer, choices)
    is_text = expected is None
    expected = meant(its_text) if expected is None and its_text else expected
    both = behind_text(answer) if letter is None and expected is not None else None
    if both is not None and both[0] in choices and (meant(both[1]) is not None or is_value(both[1])):
        letter, text = both
        if meant(text) != letter:
            raise ValueError("its letter has another text")
    if is_text and letter is None:
        return None  # Both are texts.
    if not is_text and its_text and meant(its_text) != expected:
        return None  # Parts of a question, "(a) Find the mean. (b) ...", are no choices.
    if expected is None:
        return None
    if letter is None:
        both = named(answer)
        if both is not None and both[1] and both[0].isupper() and len(choices) == 1:
            return False  # "A. 72" for "B. 72"
        letter = meant(answer)
        return None if letter is None else letter == expected
    if text and others(text, choices.get(letter, "")) - {letter} and meant(text) != letter:
        raise ValueError("it names another letter too")
    value = text.rpartition("=")[2]
    is_exact = is_value(value) and not set(".%") & set(value)  # 0.33 may be 1/3, and 50 % a half
    if is_exact and is_value(choices.get(letter, "")) and meant(value) != letter:
        raise ValueError("its letter has another text")
    text = text or after.lstrip(" *)").removeprefix(".").partition("\n")[0].strip(" .*:。：")
    if text and (other := meant(text)) is not None and other != letter:
        raise ValueError("its letter has the text of another choice")
    return letter == expected


def _split(text: str, choices: Mapping[str, str]) -> tuple[str | None, str]:
    """The letter of a choice and what stands behind it; None and the whole text if it does not begin with one."""
    said = named(text) or with_text_in_brackets(text)
    return (None, text) if said is None or said[0].upper() not in choices else (said[0].upper(), said[1])


def _plain(text: str) -> str:
    return _NOISE.sub("", text).casefold()


def by_choice(
    said: Statement, references: Sequence[Reference], prompt: str | None, compare: Callable[[Reference, str], Grade]
) -> Grade | None:
    """The grade, if the letters of choices or the choices of the prompt decide; else None."""

    def graded(reference: Reference, verdict: Verdict, detail: str | None = None) -> Grade:
        return Grade(verdict, said.text, reference.given, detail, Stage.STRUCTURE, CHOICE.sentence)

    def same(reference: str, answer: str) -> bool:
        expected = Reference.read(reference)
        return expected.fault is None and len(answer) <= MAX_CHARACTERS and compare(expected, answer).correct

    for reference in references:
        expected = letters(reference.text, joined=True)
        answer = letters(said.text, joined=expected is not None and len(expected) > 1)
        if expected is not None and answer is not None and len(expected) + len(answer) > 2:
            several = "The answer has several choices, of which the reference is one." if expected < answer else None
            verdict = Verdict.AMBIGUOUS if several else Verdict.CORRECT if answer == expected else Verdict.WRONG
            return graded(reference, verdict, several)
    choices = {} if prompt is None else choices_of(prompt)
    found = None
    for reference in references:
        try:
            is_same = same_choice(
                choices or choice_in(reference.text), reference.text, said.text, "" if said.boxed else said.after, same
            )
        except ValueError as error:
            return graded(reference, Verdict.AMBIGUOUS, f"The answer contradicts itself: {error}.")
        if is_same is not None:
            found = graded(reference, Verdict.CORRECT if is_same else Verdict.WRONG)
        if is_same:
            break
    return found
