"""Reads the end of a text without boxes by its prompt: what the question gives is not what it asks for.

"Rosie can run 50 miles in 7 hours." answers "How many miles can she run in 7 hours?" with 50, and "So it is not a
prime number." answers "Is 221 a prime number?" with no. Only plain English questions and sentences are read so.
"""

from __future__ import annotations

import re

from math_reward.grader.extraction.phrases import last_match, last_phrase
from math_reward.grader.extraction.values_at_end import NUMBER
from math_reward.grader.words.doubts import says

PROMPT_CHARACTERS = 4_000
"""How much of a prompt's end may give a number."""
SENTENCE_CHARACTERS = 400
"""A longer last sentence is not read."""
_DIGITS = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
# "How many miles can she run?", "How much money will she have?", "How long does it take?"
_ASKS = re.compile(
    r"\bhow (?:many (?:more |fewer |total )?(?P<noun>[a-z]{3,20})|(?P<much>much(?: more| less)?(?: money)?)"
    r"|(?P<long>long))\s(?P<rest>(?P<mass>[a-z]{3,20})?[^?.!\n]{0,120})\?",
    re.IGNORECASE,
)
_MONEY = r"\s(?:dollars|bucks|cents|euros|pounds)\b"
_TIME = r"\s(?:seconds|minutes|hours|days|weeks|months|years)\b"
# What begins a condition: "in 7 hours", "with his budget of $42", "than Amber in a 1 year time frame"
_CONDITION = re.compile(
    r"\b(?:of|in|within|with|for|at|on|from|per|after|before|every|by|over|than|during)\s(?:[a-z]+\s){0,3}\$?\Z",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[.!?]\s+(?=[A-Z])|\n")
_LABEL = re.compile(r"^\W{0,4}(?:final )?answer\s?[:：]\W{0,4}", re.IGNORECASE)
_LONG_WORD = re.compile(r"[a-z]{3,}")
_COMMON_WORDS = (
    "the and does did can will has have had are was were with for his her their its him she they them all this that"
    " from compared than total altogether"
)
_COMMON = frozenset(_COMMON_WORDS.split())
_FILLER_WORDS = "so therefore thus hence exactly only just finally there it of to in is answer final"
_FILLERS = frozenset(_FILLER_WORDS.split())
"""Words that a last sentence may have besides those of its question; each other one may change its number."""
_IS_IT = re.compile(r"(?:^|[.?!\n]\s{0,4})(?:is|are)\s(?P<rest>[^?.!\n,;:]{3,80})\?", re.IGNORECASE)
_CONCLUSION = (
    r"(?:^|\b(?:so|thus|hence|therefore|(?:conclude|means|follows|know) that)\s)"
    r"(?:(?:so|thus|hence|therefore|then|finally),?\s)?"
)
_CONCLUDES = r"(?:so|thus|hence|therefore)\b"
_DENIAL = r"\s(?:is|are)(?:\s(?:therefore|thus|indeed|also|hence))?(?P<denied>\snot|n't)?\s"


def asked_value(text: str, answer: str | None, prompt: str) -> str | None:
    """The number before the noun that the prompt asks for, in a last sentence that repeats the whole question with its
    conditions; None where the answer that was read is none of these, but of the sentence or announced by a phrase, or
    something else is said of the number.
    """
    prompt = prompt[-PROMPT_CHARACTERS:]
    question = last_match(_ASKS, prompt)
    sentence = _LABEL.sub("", _SENTENCE.split(text.rstrip(" .。\n*"))[-1])
    if question is None or len(sentence) > SENTENCE_CHARACTERS or says("sentence", sentence):
        return None
    if not _stems(question["rest"]) <= _stems(sentence):
        return None
    conditions: list[re.Match[str]] = []
    others: list[re.Match[str]] = []
    known = [*question[0].split(), *_COMMON, *_FILLERS]
    for number in NUMBER.finditer(sentence):
        after = sentence[number.end() :]
        is_given = _is_asked(question, number["number"], after) is None and _gives(prompt, number["number"], after)
        before = sentence[max(0, number.start() - 60) : number.start()]
        leading = _CONDITION.search(before)
        is_condition = is_given and (leading or _gives(question[0], number["number"], after))
        (conditions if is_condition else others).append(number)
        if is_condition and leading and "$" in number["number"]:
            known.append(leading[0])  # "with his budget of $42"
    read = _DIGITS.search(answer or "")
    reads_condition = read is not None and any(read[0] in condition["number"] for condition in conditions)
    is_elsewhere = read is not None and read[0] not in sentence and last_phrase(text) is None
    if len(others) != 1 or not (answer is None or reads_condition or is_elsewhere):
        return None
    value, end = others[0]["number"], others[0].end()
    asked = _is_asked(question, value, sentence[end:])
    if asked is None:
        return None
    rest = sentence[: others[0].start()].removesuffix("a total of ") + sentence[end + asked :]
    return value.strip() if _adds_nothing(rest, " ".join(known), prompt) else None


def _adds_nothing(sentence: str, known: str, prompt: str) -> bool:
    """Whether a sentence without its number has only known words, names of the prompt, and a name at its start."""
    words, stems = re.findall(r"[a-z]+", known.lower()), _stems(known)
    return all(
        word[0].lower() in words
        or word[0].lower().rstrip("s")[:4] in stems
        or (word[0][0].isupper() and (word.start() == 0 or word[0] in prompt))
        for word in re.finditer(r"[A-Za-z]+", sentence)
    )


def _stems(text: str) -> set[str]:
    """The words of a text, by their first letters, so that "pays" is "pay"."""
    return {word.rstrip("s")[:4] for word in _LONG_WORD.findall(text.lower()) if word not in _COMMON}


def _is_asked(question: re.Match[str], number: str, after: str) -> int | None:
    """How much of what stands behind a number says that it is what the question asks for; None if it is not."""
    if question["much"]:
        kind = rf"{_MONEY}|\s[a-z]{{3,12}} of {question['mass']}\b"
    else:
        kind = _TIME if question["long"] else rf"\s(?:more\s|fewer\s|different\s)?{re.escape(question['noun'])}\b"
    said = re.match(kind, after, re.IGNORECASE)
    is_money = "$" in number
    if said is None:
        return 0 if is_money and question["much"] else None
    return None if is_money and not question["much"] else said.end()


def _gives(prompt: str, number: str, after: str) -> bool:
    """Whether a prompt has a number with the same thing behind it, or as money."""
    digits, thing = _DIGITS.search(number), re.match(r"\s?([a-z]{3,})", after, re.IGNORECASE)
    if digits is None:
        return False
    if "$" in number:
        return re.search(rf"\$\s?{digits[0]}(?![\d.])|(?<![\d.]){digits[0]}\s(?:dollars|bucks)\b", prompt) is not None
    return thing is not None and re.search(rf"(?<![\d.]){digits[0]}[\s-]{thing[1]}\b", prompt) is not None


def asked_truth(text: str, prompt: str) -> tuple[bool | None, bool | None]:
    """What the last sentence says of the property that the prompt's last question asks for, twice: in a sentence about
    its subject, which may contradict a yes or no, and as a plain conclusion. None where it says nothing.
    """
    question = last_match(_IS_IT, prompt[-PROMPT_CHARACTERS:])
    sentence = _SENTENCE.split(text.rstrip(" .。\n*"))[-1][-SENTENCE_CHARACTERS:].strip()
    if question is None or says("question", question["rest"]):
        return None, None
    words = question["rest"].split()
    for count in range(1, min(5, len(words))):
        subject, asked = " ".join(words[:count]), " ".join(words[count:])
        if " a " in f" {subject} " or " an " in f" {subject} ":
            break
        ending = rf"{_DENIAL}{re.escape(asked)}\W*\Z"
        said = re.search(ending, sentence, re.IGNORECASE)
        if said is None:
            continue
        name = rf"(?:it|this|they|these|the number|{re.escape(subject)})"
        is_true = said["denied"] is None
        concludes = re.search(rf"{_CONCLUSION}{name}{ending}", sentence, re.IGNORECASE) is not None
        of_it = concludes or re.match(rf"(?:{_CONCLUDES}.*\b)?{name}\b", sentence, re.IGNORECASE) is not None
        without = sentence[: said.start()].lower().replace(" not divisible", "")
        return is_true if of_it else None, is_true if concludes and says("sentence", without) is None else None
    return None, None
