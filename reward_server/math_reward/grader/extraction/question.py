"""Reads the end of a text without boxes by its prompt: what the question gives is not what it asks for.

"Rosie can run 50 miles in 7 hours." answers "How many miles can she run in 7 hours?" with 50 miles, and "So it is not
a prime number." answers "Is 221 a prime number?" with no.
"""

from __future__ import annotations

import re

from math_reward.grader.extraction.phrases import last_match
from math_reward.grader.extraction.values_at_end import NUMBER, SENTENCE_END, is_denied
from math_reward.grader.extraction.whole_value import whole_of

PROMPT_CHARACTERS = 4_000
"""How much of a prompt's end may give a number."""
SENTENCE_CHARACTERS = 400
"""A longer last sentence is not read."""
_DIGITS = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
_ASKED_NOUN = re.compile(r"\bhow (?:many|much) (?:more |fewer |total |of the |of )?(?P<noun>[a-z]+)", re.IGNORECASE)
# What begins a condition: "in 7 hours", "with his budget of $42", "than Amber in a 1 year time frame"
_CONDITION = re.compile(
    r"(?:(?<!total)(?<!sum)\sof|\b(?:in|within|with|for|at|on|from|per|after|before|every|by|over|than|using|during|if|when"
    r"|innerhalb|mit|von|für|nach|en|dans|avec|pour|de|con|por|para|em|com|за|из|с|в))"
    r"\s(?:[^\W\d_]+\s){0,3}\\?[$€£]?\Z",
    re.IGNORECASE,
)
_THING = re.compile(r"\s?(?P<noun>[^\W\d_]+)")
_QUESTION = re.compile(
    r"\b(?:is|are|was|were|does|do|can|has|have)\s(?P<subject>[^?.!\n]{1,160}?)"
    r"\b(?P<asked>[a-z]+(?:[ -][a-z]+){0,2})\?",
    re.IGNORECASE,
)
# "So it is not", "we conclude that 221 is": a conclusion, and not "we check whether it is"
_CLAUSE = (
    r"(?:^|[.!?;:,]\s|\n|\b(?:so|thus|hence|therefore|(?:conclude|means?|implies|follows|shows|proves|know) that)\s)"
    r"(?:(?:so|thus|hence|therefore|then),?\s)?(?P<subject>[^.;:,!?\n]{1,60}?)\s"
)
_VERB = (
    r"\b(?:is|are|was|were|does|do|can|has|have)(?:\s(?:therefore|thus|indeed|also|hence))?(?P<denied>\snot|n't)?"
    r"\s(?:an?\s|the\s)?"
)
_HYPOTHESIS = re.compile(r"\b(?:if|suppose|assume|unless|whether|were|would|neither|none|nobody)\b", re.IGNORECASE)
_PRONOUNS = frozenset(["it", "this", "they", "these", "the", "number"])


def asked_value(text: str, answer: str, prompt: str) -> str | None:
    """The only number of the last sentence that is no condition of the prompt, where the answer that was read is one.

    None if the prompt does not give ``answer``, or the sentence repeats no condition or has several other numbers.
    """
    prompt = prompt[-PROMPT_CHARACTERS:]
    sentence = SENTENCE_END.split(text.rstrip(" .。\n*"))[-1]
    read = _DIGITS.search(answer)
    if read is None or len(sentence) > SENTENCE_CHARACTERS or "=" in sentence or "\\" in sentence:
        return None
    given = {number.replace(",", "") for number in _DIGITS.findall(prompt)}
    asked = {noun["noun"].lower() for noun in _ASKED_NOUN.finditer(prompt)}
    conditions: list[re.Match[str]] = []
    others: list[re.Match[str]] = []
    for number in NUMBER.finditer(sentence):
        digits = _DIGITS.search(number["number"])
        thing = _THING.match(sentence, number.end())
        is_condition = (
            digits is not None
            and digits[0].replace(",", "") in given
            and _CONDITION.search(sentence[max(0, number.start() - 60) : number.start()]) is not None
            and (thing is not None or "$" in number["number"])
            and (thing is None or thing["noun"].lower() not in asked)
        )
        (conditions if is_condition else others).append(number)
    if len(others) != 1 or not any(read[0] in condition["number"] for condition in conditions):
        return None
    value = others[0]
    if is_denied(sentence, value) or _CONDITION.search(sentence[max(0, value.start() - 60) : value.start()]):
        return None
    return whole_of(sentence, value.start("number"), value.end("number"))


def asked_truth(text: str, prompt: str) -> tuple[bool | None, bool | None]:
    """What the end of a text says of the property that the prompt's last question asks for, twice: of anything at
    all, which may contradict a yes or no, and of the question's subject as a conclusion. None where it says nothing.
    """
    question = last_match(_QUESTION, prompt[-PROMPT_CHARACTERS:])
    sentence = SENTENCE_END.split(text.rstrip(" .。\n*"))[-1][-SENTENCE_CHARACTERS:]
    words = [] if question is None else question["asked"].split()
    for begin in range(len(words)):
        ending = rf"{_VERB}{re.escape(' '.join(words[begin:]))}\W*\Z"
        said = re.search(ending, sentence, re.IGNORECASE)
        if said is None or question is None:
            continue
        clause = None if _HYPOTHESIS.search(sentence) else re.search(_CLAUSE + ending, sentence, re.IGNORECASE)
        subjects = _PRONOUNS | {*question["subject"].lower().split()}
        concludes = clause is not None and subjects.issuperset(clause["subject"].lower().split())
        is_true = said["denied"] is None
        return is_true, is_true if concludes else None
    return None, None
