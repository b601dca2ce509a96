"""The two sides of a comparison, each read once: what was written, in one spelling, and as a tree."""

from __future__ import annotations

import re

from math_reward.grader.errors import NotMathematics, TooComplex
from math_reward.grader.extraction.statement import final_answer, last_boxed
from math_reward.grader.mathematics.calculus import differentiated
from math_reward.grader.mathematics.propositions import Proposition, proposition
from math_reward.grader.memory import Memory
from math_reward.grader.notation import declarations
from math_reward.grader.notation.calendar_dates import Date, date
from math_reward.grader.notation.normalise import compact, normalise
from math_reward.grader.notation.parse import MAX_CHARACTERS
from math_reward.grader.notation.syntax import Applied, Call, Relation, Text
from math_reward.grader.notation.texts import Wording, wording
from math_reward.grader.rules.chains import contradiction
from math_reward.grader.said_twice import said_once
from math_reward.grader.words.letters import WITH_TEXT

CACHED_REFERENCES = 8_192
CACHED_REFERENCE_BYTES = 64 * 2**20
CACHED_ANSWERS = 16
"""An answer is asked for by each of its references and, if it is right, by the prompt."""
CACHED_ANSWER_BYTES = 32 * 2**20

_PROSE_REFERENCE = 80
"""A reference of more characters that says "answer is" is a solution, whose answer is looked for."""
_INTEGER = re.compile(r"-?\d{1,15}")
# No sentence has these: an operator at its end, no letter at all, a command without its argument.
_BROKEN = re.compile(r"[+*/^_=<>]\s*$|^[?!.\s]*$|\\(?:frac|sqrt|boxed|fbox)(?![a-zA-Z])")
_LAYOUT = (
    "\\\\",
    "\\noindent",
    "\\par",
    "\\newline",
    "\\linebreak",
    "\\smallskip",
    "\\medskip",
    "\\bigskip",
    "\\hfill",
)
"""How a document goes on behind an answer."""
_HEADING = re.compile(r"\A\s*#{1,3}\s+(?=\S)")
# "2 (满足 $1 < e$ 皆可)": words about it, but no second answer.
_REMARK = re.compile(r"(?<=\S)\s*[(（](?=[^()（）]*[\u4e00-\u9fff]{2})[^()（）或且]{2,80}[)）]\Z")
_BOLD = re.compile(r"(?<![\w*])\*\*([^*\n]{1,80})\*\*(?![\w*])")
_NO_REFERENCE = frozenset(["none", "null", "nan", "n/a", "na"])


class Answer:
    """An answer, of at most ``parse.MAX_CHARACTERS``. Each reading of its text is made when it is first asked for."""

    __slots__ = ("_normal", "_reading", "is_integer", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.is_integer = _INTEGER.fullmatch(text) is not None
        """Whether it is written as a whole number of at most 15 digits."""
        self._normal: str | None = None
        self._reading: declarations.Reading | None = None

    @staticmethod
    def read(text: str) -> Answer:
        """The answer that is written in ``text``."""
        return ANSWERS.get(text, lambda: Answer(text), text)

    @property
    def normal(self) -> str:
        """The text in one spelling."""
        if self._normal is None:
            self._normal = normalise(said_once(self.text))
        return self._normal

    @property
    def reading(self) -> declarations.Reading:
        """Its tree, and the ranges of its parameters. Raises NotMathematics or TooComplex."""
        if self._reading is None:
            self._reading = declarations.read(self.normal)
        return self._reading


class Reference(Answer):
    """A reference answer, which may also be a sentence, a formula of logic or a date."""

    __slots__ = ("compact", "day", "fault", "given", "proposition", "wording")

    def __init__(self, given: str) -> None:
        super().__init__(_answer_in(given))
        self.given = given
        """The reference as it was given."""
        self.wording: Wording | None = None
        """Its words, if it is a sentence."""
        self.proposition: Proposition | None = None
        """The reference as a formula of logic, if it has a connective."""
        self.day: Date | None = None
        """The reference as a date, if it is one."""
        if self.is_integer:
            self._normal = self.text  # Most references are integers, and need no more.
        self.fault = None if self.is_integer else self._read()
        """Half a sentence that says why it cannot be used; None if it can."""
        self.compact = compact(self.normal) if self.fault is None else ""
        """``normal`` without white space that cannot matter."""

    @staticmethod
    def read(text: str) -> Reference:
        """The reference that is written in ``text``, a solution or ``\\boxed{...}`` too."""
        return REFERENCES.get(text, lambda: Reference(text), text)

    def _read(self) -> str | None:
        if not self.text.strip():
            return "it is empty"
        if len(self.text) > MAX_CHARACTERS:
            return f"it has {len(self.text):,} characters, and {MAX_CHARACTERS:,} are allowed"
        normal = self.normal
        if normal.lower() in _NO_REFERENCE:
            return f"it says {normal!r}"
        logic = proposition(self.text)
        self.proposition = logic if logic is not None and logic.compound else None
        self.day = date(self.text)
        try:
            tree, domains = self.reading
            self._reading = declarations.Reading(differentiated(tree), domains)
        except TooComplex as error:
            return str(error)
        except NotMathematics as error:
            self.wording = wording(normal)
            broken = (self.wording is None or _BROKEN.search(normal)) and not WITH_TEXT.match(normal)
            if broken and self.proposition is None and self.day is None:
                return str(error)
            self._reading = declarations.Reading(Text(normal.lower()), {})
            return None
        is_sentence = " " in normal and normal[:1].isalpha() and "\\" not in normal
        if is_sentence and not isinstance(tree, (Call, Applied, Relation)):
            self.wording = wording(normal)  # A sentence, although it can be parsed.
        return None


ANSWERS: Memory[Answer] = Memory(CACHED_ANSWERS, CACHED_ANSWER_BYTES)
REFERENCES: Memory[Reference] = Memory(CACHED_REFERENCES, CACHED_REFERENCE_BYTES)


def _answer_in(given: str) -> str:
    """The answer in a reference; empty if it has none."""
    boxed = last_boxed(given)
    if boxed is not None:
        return boxed
    if "####" in given:
        return given.rpartition("####")[2]
    bold = _BOLD.findall(given) if "**" in given else []
    if len(bold) == 1 and " " in given.replace(f"**{bold[0]}**", "").strip():
        return str(bold[0])  # "The puppy weighs **4 pounds**."
    given = _REMARK.sub("", _HEADING.sub("", _without_layout(given)))
    if len(given) > _PROSE_REFERENCE and "answer" in given.lower():
        said = final_answer(given)
        return "" if said is None or contradiction(said.before, said.text, said.after) else said.text
    return given


def _without_layout(text: str) -> str:
    """``text`` without the commands at its end that begin a line or a paragraph."""
    end = len(text.rstrip())
    while (last := next((command for command in _LAYOUT if text.endswith(command, 0, end)), "")) != "":
        end -= len(last)
        while end and text[end - 1].isspace():
            end -= 1
    return text[:end]
