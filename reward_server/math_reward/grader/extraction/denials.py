r"""How a text denies or doubts an answer, in the languages of `DENIALS`: "\boxed{42}? No.", "it is not 42".

Such an answer is ambiguous. Only what governs it counts: "statement 2 is false, so \boxed{C}" is an answer. Beside a
number in a sentence more counts than beside a box: "maybe 42" is no answer, "maybe \boxed{42}" is one.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from math_reward.grader.extraction.boxes import Statement

BEFORE_CHARACTERS = 120
"""How much of the text before a box is looked at."""
LATER_CHARACTERS = 1_000
"""How much of the text after an answer may name it again."""


class Denial(NamedTuple):
    """How a language says that an answer is wrong."""

    language: str
    after: str
    """What says it behind the answer: "is wrong"."""
    before: str
    """What says it before the answer: "is not"; empty where the language says it behind."""
    example: str
    """A text whose answer is taken back."""


DENIALS = (
    Denial(
        "English",
        r"(?:is|was|are|were|would be|being)?\s?(?:an? |the |just |also |clearly |definitely |simply |probably )*"
        r"(?:wrong|incorrect|false|mistaken|erroneous|invalid|inaccurate|nonsense|impossible"
        r"|absurd|discarded|ruled out"
        r"|not (?:an? |the |quite |actually |really )*(?:correct|right|true|valid|answer|solution|final|it\b|what we)"
        r"|n't (?:the )?(?:correct|right|true|answer|solution))\b",
        r"(?:\b(?:is|are|was|be|equals?) (?:not|never)|n't(?: be)?|\bcannot be|(?<![\d)])!=|\banything but|\bneither"
        r"|\b(?:false|untrue|wrong|incorrect) (?:that|to (?:say|claim|write|conclude|answer|think))|\\not ?="
        r"|\b(?:refuse to (?:answer|say)|ruled? out"
        r"|no way (?:in which|that)|tempting to (?:write|say|answer)|rejected?|discard(?:ed)?|instead of"
        r"|rather than))",
        r"\boxed{42} is wrong.",
    ),
    Denial(
        "German", r"(?:ist|wäre)?\s?(?:leider )?(?:falsch|inkorrekt|nicht (?:richtig|korrekt|die))",
        r"\bist nicht", r"\boxed{42} ist falsch.",
    ),
    Denial(
        "French",
        r"(?:est|n['’]est)?\s?(?:fau(?:x|sse)|incorrecte?|erronée?|pas (?:correct|juste|la (?:bonne )?réponse))",
        r"n['’]est pas", r"\boxed{42} est faux.",
    ),
    Denial(
        "Spanish", r"(?:es|está)?\s?(?:incorrect[oa]|fals[oa]|equivocad[oa]|erróne[oa]|no es)",
        r"\b(?:no es(?: igual a)?|nunca [^.\n]{0,30})", r"\boxed{42} es incorrecto.",
    ),
    Denial(
        "Portuguese", r"(?:é|está)?\s?(?:incorret[oa]|errad[oa]|fals[oa]|não é)",
        r"\bnão é", r"\boxed{42} está errado.",
    ),
    Denial(
        "Russian", r"(?:это )?(?:неверн|неправильн|ошибоч|не верно|не является|не подходит)",
        r"\bне(?: равно| равен)?", r"\boxed{42} — неверно.",
    ),
    Denial(
        "Chinese", r"[是为]?(?:不正确|不对|错误|错|不是|有误)",
        r"(?:不是|不等于|并非)", r"\boxed{42}不正确。",
    ),
    Denial(
        "Japanese", r"[はが]?(?:間違|誤り|不正解|正しくな|では(?:ない|あり?ません)|じゃない)",
        "", r"\boxed{42}は間違いです。",
    ),
    Denial(
        "Korean", r"[은는이가]?\s?(?:틀렸|틀린|아니|아닙|오답|잘못)",
        "", r"\boxed{42}이 아니다.",
    ),
    Denial(
        "Arabic", r"(?:خطأ|خاطئ|غير صحيح|ليس)",
        r"ليس(?:ت)?", r"\boxed{42} خطأ",
    ),
    Denial(
        "Hindi", r"(?:गलत|ग़लत|सही नहीं|नहीं)",
        "", r"\boxed{42} गलत है।",
    ),
    Denial(
        "Vietnamese", r"(?:là )?(?:sai\b|không (?:đúng|phải))",
        r"không phải(?: là)?", r"\boxed{42} là sai.",
    ),
    Denial(
        "Italian", r"(?:è )?(?:sbagliat[oa]|errat[oa]|fals[oa]|non è)",
        r"\bnon (?:è|sia)(?: vero che)?[^.\n]{0,40}", r"Non è \boxed{42}.",
    ),
    Denial(
        "Dutch", r"(?:is )?(?:fout|onjuist|niet (?:juist|correct|goed))",
        r"\bniet", r"Het antwoord is zeker niet \boxed{42}.",
    ),
    Denial(
        "Polish", r"(?:jest )?(?:błędn|źle|nieprawidłow|niepoprawn)",
        r"\bnie (?:jest|wynosi)", r"To nie jest \boxed{42}.",
    ),
    Denial(
        "Turkish", r"(?:yanlış|değil|hatalı)",
        "", r"\boxed{42} yanlış.",
    ),
)  # fmt: skip
# What stands between a box and the words about it.
_DRESS = r"(?:[\s$*_`'\"”」】)\]}.,;:!。，（(—–-]|\\[)\]])"
_SUBJECT = r"(?:(?:but|and|which|this|that|it|however|the answer|dies|das|ce|esto|isso|это|这|これ|이것)\s?){0,3}"
_AFTER = re.compile(rf"{_DRESS}{{0,8}}{_SUBJECT}(?:{'|'.join(denial.after for denial in DENIALS)})", re.IGNORECASE)
_TAKEN_BACK = re.compile(
    rf"{_DRESS}{{0,4}}[?？]"  # \boxed{{42}}? No.
    rf"|{_DRESS}{{0,8}}(?:(?:no|nope|nein|non|нет|不|いいえ|아니요)[.,!。，]\s|scratch that|oops|correction\b"
    rf"|contradiction"
    r"|i (?:was|am) wrong|not quite|was (?:my|a) (?:first )?guess"
    r"|(?:wait|hmm|hold on|actually)[,.!—-]*\s(?:that|this|it|i)(?:'s|’s|'m| is| was| am)? "
    r"(?:wrong|incorrect|mistaken|not (?:right|correct))|is (?:only |just )?(?:what|the (?:answer"
    r"|result) (?:that )?(?:an?|many|some"
    r"|most|careless))"
    r"|is (?:a |the )?(?:common |typical |tempting |naive |usual )+(?:\w+ )?(?:mistake|error|answer|trap|guess))",
    re.IGNORECASE,
)
# "Edit: it is 43", "I forgot the minus", in the text behind a box
_CORRECTION = re.compile(
    r"(?:^|[.!?。…\n])\s{0,4}(?:edit|p\.?\s?s|correction|korrektur|corrección|correção|correzione|erratum|更正|修正|訂正"
    r"|정정)\s?[:：.。しを]"
    r"|\bi (?:forgot|made an? (?:\w+ )?(?:error|mistake)|do not stand by|take (?:it|that|this) back|withdraw"
    r"|disagree)\b"
    r"|\bscrap that\b|\bmisprint\b|\bmarked (?:as )?wrong\b|\bfails (?:the|this|my) (?:check|test)\b"
    r"|\bcorrected (?:result|answer|value)\b|\bignore the box|\bwould be my answer\b"
    r"|\b(?:je me suis trompé|me equivoqué|me enganei|esqueça|ho sbagliato)\b"
    r"|habe mich (?:geirrt|verrechnet)|ziehe [^.\n]{0,40}zurück|pomyłka|я ошиб|算错|間違え(?:た|まし)",
    re.IGNORECASE,
)
# "Wait, ... so 42 is not right", and not "fewer than 42 is impossible" or "-42 is wrong"
_AGAIN = (
    r"\b(?:so|wait|hmm|thus|therefore|but|actually|hence|no|reflection)[,.]?\s(?:the (?:answer|number|value)\s)?"
    r"\$?VALUE\$?"
    r"\s(?:(?:is|was) (?:wrong|incorrect|not (?:right|correct|the (?:right |correct )?answer))|(?:cannot|can't) be"
    r" (?:right|correct))\b"
)
# What each text that `_AGAIN` matches has: it has the answer in it, so it is compiled for each, which takes long.
_IS_WRONG = re.compile(r"\b(?:is|was) (?:wrong|incorrect|not )|\b(?:cannot|can't) be ", re.IGNORECASE)
_THAT_IS_WRONG = re.compile(
    r"[.,]?\s(?:that|this|which)(?:'s| is) (?:wrong|incorrect|not (?:right|correct))[.!\s]{0,3}\Z", re.IGNORECASE
)
_GAP = r"(?:(?!\b(?:but|however|actually)\b)[^.!?。！？\n]){0,40}$"
# In lower case: a pattern that ignores case takes twice as long.
_BEFORE = re.compile(
    rf"(?:{'|'.join(denial.before for denial in DENIALS if denial.before)})"
    r"(?: (?:equal(?: to)?|the (?:correct |right |final )?(?:answer|solution|value)[:,]?))?[\s$\\(]{0,4}$"
    r"|(?:(?:it is |it's )?(?:false|untrue|not true) that"
    r"|(?:nobody|no one|never|not) (?:should )?(?:conclude|say|claim) that)\b[^.!?\n]{0,60}$"
    r"|(?:everything|all|any|anything|none) (?:but|except)[\s$\\(]{0,4}$"
    r"|\b(?:(?:if|suppose|assume|imagine|say) (?:that )?the (?:answer|result|solution) (?:is|was|were|had been"
    r"|equals)[\s$\\(]{0,4}$"
    rf"|(?:if|when|by) (?:(?:we|you|one|someone) )?(?:forgets?|forgetting|overlooks?|overlooking|miss(?:es)?"
    rf"|carelessly|mistakenly)\b(?! about){_GAP}"
    rf"|(?:common|typical|frequent|easy|tempting|usual|naive) (?:\w+ )?(?:mistake|error|trap|wrong answer"
    rf"|guess)s?\b{_GAP}"
    r"|(?:an?|the|any|some|this|my|that|many|most) (?:careless|naive|sloppy|wrong|incorrect|mistaken"
    r"|erroneous|flawed) (?:\w+ ){1,3}"
    rf"(?:gets?|gives?|obtains?|finds?|yields?|leads? to|would)\b{_GAP}"
    r"|(?:some|many|others|people|students|most) (?:(?:people|students|others|of them) )?(?:(?:might|may"
    r"|could|would|will) )?"
    rf"(?:claims?|thinks?|believes?|says?|argues?|guess|answer(?:ed)?)\b{_GAP}"
    rf"|one (?:might|may|could) (?:be tempted|think|guess|believe)\b{_GAP}"
    r"|(?:subtract|add|take|multiply|divide|increase|decrease)\b[^.!?\n]{0,20}\b(?:from|to|by)[\s$\\(]{1,4}$"
    r"|(?:doppelte|hälfte|dreifache|double|moitié|triple|doble|mitad|dobro|metade|doppio|metà)"
    r" (?:von|der|de|del|do|di|da)[\s$\\(]{1,4}$"
    r"|tag (?:vor|nach)[\s$\\(]{1,4}$"
    r"|(?:twice|double|triple|half|negative|minus|opposite|reciprocal|inverse|negation|root|square|cube|factorial|logarithm"
    r"|multiple|third|quarter|divisors?|factors?|complement)(?: of)?[\s$\\(]{1,4}$)",
)
# "If it had been 6, it would be 42" is about another case; in a text without boxes it may be the question's own.
_HYPOTHETICAL = re.compile(
    r"\b(?:if|had|were|wenn|würde|si|se|jeśli)\b[^.!?\n]{0,80}\b(?:would|wäre|käme|würde|sería|serait|sarebbe|seria|byłoby)"
    r"\b[^.!?\n]{0,40}$"
)
_INSIDE = re.compile("|".join(denial.after for denial in DENIALS[1:]), re.IGNORECASE)
# "It is not 42", "42 is wrong": the text denies the number.
DENIED_BEFORE = re.compile(
    r"(?:\bnot|\bunsure|\bguess(?:ing)?|n't|\bnever|\bcannot|\bmaybe|\bperhaps|\bpossibly"
    r"|\b(?:might|could|may|can) be|\bor|\bno (?:\w+\s){0,2}(?:answer|solution|value)"
    r"|\bone of|\b(?:tried|tried all|checked|tested|considered)"
    r"|\beither|\bbetween|\b(?:less|more|fewer|greater|smaller|larger|other|higher|lower) than"
    r"|(?:\bis|\bare|\bbe|^) ?at (?:least|most))\s{1,9}(?:[\w.]{1,20},?\s{1,9}){0,2}[$\\( ]{0,4}$",
    re.IGNORECASE,
)
# "It fails for x = 3, y = 4", "parallel to y = 2x"
_ONLY_TRIED = re.compile(
    r"\b(?:suppose|assume|we try|fails? for|the (?:initial )?guess(?: was)?|substitut(?:e|ing)|excludes?"
    r"|contradict(?:s|ed by)"
    r"|rules? out|unless|what if|parallel to|perpendicular to|compare with|inverse of|start with|gilt nicht für"
    r"|no se cumple con|не подходит|ne marche pas pour)\s(?:that\s)?[$\\(]{0,4}\Z",
    re.IGNORECASE,
)
# "The square root of 42", "42 squared": the text says another value.
_CHANGED_BEFORE = re.compile(
    r"(?:\b(?:but|except|twice|double|triple|half|negative)(?: of)?|!="
    r"|\b(?:opposite|reciprocal|inverse|negation|root|square|cube|factorial|logarithm|multiple|factor|power|third|quarter"
    r"|complement|(?:divisor|factor|multiple|digit|root|power|prime|bit)s) of)\s{1,3}[$\\( ]{0,4}$",
    re.IGNORECASE,
)
_CHANGED_AFTER = re.compile(
    r"[$\\) ]{0,4}(?:squared|cubed|factorial|doubled|tripled|halved|inverted|to the (?:power|\d{1,3}(?:st|nd|rd|th))"
    r"|modulo|mod|plus|minus|divided by|multiplied by)\b",
    re.IGNORECASE,
)
DENIED_IN_CHINESE = re.compile(
    r"(?:不(?:是|等于|为|到|超过|足|可能是)|[大小多少]于|超过|可能是|至[少多]|最[少多]|或者?是?)\s?$"
)
DENIED_AFTER = re.compile(
    r"[$\\) ]{0,6}(?:it )?(?:is|was|are|were|does|do|be)?"
    r" ?(?:an? |the )?(?:(?:a |just a |my )guess\b|not\b|n't\b|wrong\b|incorrect\b|fails?\b|impossible\b|too )",
    re.IGNORECASE,
)


def taken_back(said: Statement) -> bool:
    """Whether the words next to a box deny or doubt the answer in it, in any of the languages of DENIALS."""
    after = said.after[:BEFORE_CHARACTERS]
    return (
        denied_before(said.before)
        or _HYPOTHETICAL.search(_sentence_before(said.before)) is not None
        or denied_after(after)
        or _TAKEN_BACK.match(after) is not None
        or denied_later(said)
    )


def denied_later(said: Statement) -> bool:
    """Whether the text behind an answer takes it back: "Wait, so 42 is not right.", "It is 42. That is wrong." """
    text = said.after[:LATER_CHARACTERS]
    if not said.boxed:
        text = said.before[-LATER_CHARACTERS:] + said.text + text
        if not said.text.isalpha() and _THAT_IS_WRONG.match(said.after):
            return True
    if not _IS_WRONG.search(text):
        return False
    value = re.escape(said.text.strip(" $"))
    return re.search(_AGAIN.replace("VALUE", value), text, re.IGNORECASE) is not None


def denied_before(text: str) -> bool:
    """Whether the sentence that ends here denies or doubts what follows it."""
    return _BEFORE.search(_sentence_before(text)) is not None


def _sentence_before(text: str) -> str:
    """The sentence at the end of a text, in lower case."""
    before = text[-BEFORE_CHARACTERS:]
    return before[max(before.rfind(end) for end in (". ", "\n", "! ", "? ", "。")) + 1 :].lower()


def denied_after(text: str) -> bool:
    """Whether a text denies what stands before it, or corrects it."""
    after = text[:BEFORE_CHARACTERS]
    return _AFTER.match(after) is not None or _CORRECTION.search(after) is not None


def denied_inside(text: str) -> str | None:
    """The words in an answer that deny it, in a language other than English: ``42\\text{は間違い}``."""
    match = _INSIDE.search(text) if text.count(" ") or not text.isascii() else None
    return None if match is None else match[0]


def is_denied(text: str, value: re.Match[str], last: re.Match[str] | None = None) -> bool:
    """Whether the text around a value denies or doubts it: "not 42", "more than 42", "42?", "42 is wrong". ``last`` is
    the last of several values.
    """
    before = text[max(0, value.start() - 40) : value.start()].rstrip()
    end = (last or value).end()
    return (
        text[end : end + 1] in ("?", "吗")
        or DENIED_IN_CHINESE.search(before[-8:]) is not None
        or DENIED_BEFORE.search(before + " ") is not None
        or DENIED_AFTER.match(text, end) is not None
        or is_tried(text[: value.start()])
        or denied_before(text[: value.start()])
        or denied_after(text[end:])
        or _CHANGED_BEFORE.search(before + " ") is not None
        or _CHANGED_AFTER.match(text, end) is not None
    )


def is_tried(before: str) -> bool:
    """Whether a text says that what follows it is only tried, excluded or compared with: "It fails for"."""
    return _ONLY_TRIED.search(before[-60:]) is not None
