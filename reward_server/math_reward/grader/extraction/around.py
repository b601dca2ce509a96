r"""What the text around a box does to the answer in it: an operation outside the box changes it, and a statement about
it takes it back: ``\boxed{42}^2``, ``half of \boxed{42}``, "\boxed{42}? No.", "a common mistake is \boxed{42}".

Such an answer is ambiguous. Only what governs the box counts: "statement 2 is false, so \boxed{C}" is an
answer.
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
_OPERATOR = (
    r"(?:(?<=[\w)}$])\s?(?:\*(?!\*)|[+/×÷])|(?<![-=])[<>]|[\^≤≥≠±√¬]|(?<![\d)])!="
    r"|\\(?:cdot|times|div|pm|mp|neg|lnot|not|neq?|leq?|geq?|lt|gt|sqrt|ln|log|sin|cos|tan|exp|[dt]?frac)(?![a-z]))"
)
_OPERATION_BEFORE = re.compile(
    rf"(?:{_OPERATOR}\s*=?(?:\s|\\left\s?\(|[({{])*"  # 2 \cdot \boxed, \sqrt{\boxed
    r"|\\[dt]?frac\s?\{[^{}]{0,80}\}\s?\{\s*"  # \frac{1}{\boxed
    r"|(?:[\d)}]|\$(?=\s)|(?<![a-zA-Z])[a-zA-Z])\s?[-−]\s?"  # 1 - \boxed
    r"|(?<![\d.])(?P<factor>\d[\d.]{0,9}))\Z"  # 2\boxed
)
_SIGN = re.compile(r"(?:^|[\s$=({[]|:\s|\\\(|\\\[)[-−]$")
# A list, a quote, a dash after a word, an arrow, the end of a tag or of emphasis.
_DASH = re.compile(r"(?:^|\n)\s*[-−–*+>·•]\s+$|[^\W\d_]{2,}\S?\**\s?[-−–]\s$|:[-−]\s?$|[-=]>\s?$|<[^<>\n]{1,40}>\s*$")
_OPERATION_AFTER = re.compile(
    r"\d|(?:\\right|[ \t)}])*(?:\^(?!\{?\s?(?:\\(?:circ|degree|prime|text)))"
    r"|(?:\*(?!\*)|[/×÷·]|\\(?:cdot|times|div|pm)(?![a-z]))\s*(?:\\(?!text)|[({\d]|[a-zA-Z](?![a-zA-Z]))"
    r"|\s?[-+−]\s?(?:\d|\\[a-zA-Z(]|(?![aAI]\s)[a-zA-Z](?![a-zA-Z])))"
)


# "\boxed{12} more than 13", "\boxed{12} squared"
_CHANGED_AFTER = re.compile(
    r"[\s$)\]}]{0,4}(?:的?(?:一半|两倍|二倍|三倍|平方)|の(?:半分|2倍|二乗)|의 (?:절반|두 배)"
    r"|(?:more|less|fewer|greater|smaller|larger|higher|lower) than[\s$\\(]{1,4}-?\d|squared"
    r"|cubed|factorial|doubled"
    r"|tripled|halved|inverted|plus|minus|divided by|multiplied by|to the (?:power|\d{1,3}(?:st|nd|rd|th)))",
    re.IGNORECASE,
)


def sign_of(said: Statement) -> str:
    """The minus sign before a box, which belongs to the answer; else nothing."""
    before = said.before[-12:]
    return "-" if _SIGN.search(before) and not _DASH.search(before) else ""


def percent_of(said: Statement) -> str:
    """The per cent sign behind a box, which belongs to the answer; else nothing."""
    return r"\%" if re.match(r"[\s$]{0,3}\\?%", said.after) and "%" not in said.text else ""


def changed(said: Statement) -> bool:
    """Whether an operation outside the box changes what is in it."""
    before = said.before[-(BEFORE_CHARACTERS if said.before.rstrip().endswith("{") else 24) :]
    operation = _OPERATION_BEFORE.search(before)
    if operation is not None and operation["factor"] != said.text and not _DASH.search(before[-24:]):
        return True
    after = said.after[:40]
    is_absolute = before.endswith("|") and after.startswith("|")
    return is_absolute or (_OPERATION_AFTER.match(after) or _CHANGED_AFTER.match(after)) is not None


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


_INSIDE = re.compile("|".join(denial.after for denial in DENIALS[1:]), re.IGNORECASE)


def denied_inside(text: str) -> str | None:
    """The words in an answer that deny it, in a language other than English: ``42\\text{は間違い}``."""
    match = _INSIDE.search(text) if text.count(" ") or not text.isascii() else None
    return None if match is None else match[0]
