"""An answer in words at the end of a text: a verdict on a statement, a number of things, what something is."""

import re

from math_reward.grader.extraction.phrases import first_group
from math_reward.grader.words.doubts import says
from math_reward.grader.words.number_words import number_in_words

_TRUTH = re.compile(
    r"(?:^|[.;,\n]\s?|\b(?:so|thus|hence|therefore)\s)(?:the|this)\s(?:statement|claim|proposition|assertion|conjecture)"
    r"\sis\s(true|false)[.!\s]{0,3}$",
    re.IGNORECASE,
)
_NO_SOLUTION = re.compile(
    r"(?:\b(?:there (?:is|are)|has|have)\s|\A\W{0,4})"
    r"(no (?:real |integer |such )?solutions?|infinitely many solutions)"
    r"(?: exists?| to (?:the|this) [a-z]{2,12})?(?:\s?\([^()\n]{0,20}\))?[.!\s*]{0,5}$",
    re.IGNORECASE,
)
_NO_SUCH = re.compile(
    r"\bthere (?:is|are) no such (?:\w+ ){0,2}\w+(?:\s?[$(][^$\n]{1,20}[$)])?[.!\s]{0,3}$", re.IGNORECASE
)
# "It is an equilateral triangle", "so they are parallel"
_PREDICATE = re.compile(
    r"\b(?:is|are|was|were|be|called|ist|sind|est|sont|es|son|é|são)\s+(?:(?:an?|the|ein|eine|une?|una?|el|la|le|um|uma)\s+)?"
    r"((?:[^\W\d_]|['’-]){2,30}(?:\s(?:[^\W\d_]|['’-]){2,30}){0,2})[.!\s]{0,3}$",
    re.IGNORECASE,
)
_THERE_ARE = re.compile(r"\bthere (?:is|are|were|will be) (?:only |exactly )?([a-z]+(?:-[a-z]+)?)\b", re.IGNORECASE)
_HOW_MANY = re.compile(
    r"\b(?:there (?:is|are|were|will be)|has|have|had|pays?|costs?|needs?|gets?|earns?|takes?)"
    r"\s(?:only |exactly )?([a-z]+(?:-[a-z]+)?)"
    r"(?: [a-zA-Z-]{2,20}){1,4}[.!\s]{0,3}\Z",
    re.IGNORECASE,
)
FEW_WORDS = re.compile(
    r"(?:(?:an?|the)\s)?((?:[^\W\d_]|['’-]){3,30}(?:\s(?:[^\W\d_]|['’-]){2,30}){0,2})[.!]?", re.IGNORECASE
)
_ARTICLES = frozenset(["one", "ein", "eine", "eins", "un", "une", "una", "uno", "um", "uma", "один"])
_HYPHENATED = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")


def words_alone(text: str) -> str | None:
    """The one to three words that are the whole text, if they are no sentence and in no doubt."""
    if says("word", text) or _PREDICATE.search(text) or (said := FEW_WORDS.fullmatch(text)) is None:
        return None
    return with_digits(said[1])


def with_digits(text: str) -> str:
    """``2 dollars`` for "two dollars"; another text as it is."""
    first, _, things = text.partition(" ")
    number = number_in_words(first.lower()) if things and things[0] not in "(（" else None
    return text if number is None or number == 1 else f"{number} {things}"


def counted_in_words(text: str) -> str | None:
    """The number of things in a last sentence without digits behind it: "The graph of $y=2$ has two asymptotes"."""
    counted = _HOW_MANY.search(text[-160:])
    return counted[1] if counted is not None and _is_number(counted[1].lower()) else None


def last_word(text: str) -> str | None:
    """The words after the last verb of a clause without numbers, or its only number word."""
    clause = re.split(r"[.!?。\n]\s|[,;:] ", text.rstrip(" .!。"))[-1]
    counted = first_group(_THERE_ARE.search(clause))
    if counted is not None and _is_number(counted.lower()):
        return counted
    if any(map(str.isdigit, clause)) or says("word", clause):
        return None
    said = first_group(_PREDICATE.search(clause[-120:]))
    said = None if said is not None and (said.endswith("ly") or clause.startswith("which")) else said
    numbers = [word for word in _HYPHENATED.findall(clause[-200:].lower()) if _is_number(word)]
    return numbers[0] if len(numbers) == 1 and (said is None or numbers[0] in said.lower()) else said


def _is_number(word: str) -> bool:
    return word not in _ARTICLES and number_in_words(word) is not None


def verdict_at_end(text: str) -> str | None:
    """What a text says at its end of a statement or of an equation: true, false, or that nothing solves it."""
    said = _TRUTH.search(text[-60:]) or _NO_SOLUTION.search(text[-60:])
    return first_group(said) or ("no solution" if _NO_SUCH.search(text[-80:]) else None)
