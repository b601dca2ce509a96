"""The phrases that announce a final answer, in the languages that users write in."""

import re
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple


class Phrase(NamedTuple):
    """A phrase that announces an answer."""

    language: str
    keywords: str
    """In lower case; every such phrase has one of them. To search for them is much quicker than for the phrase."""
    pattern: str
    """White space is matched by single characters, so that every pattern takes linear time."""
    example: str
    """A text whose answer is 42 or A, also where another number follows."""


# A verb or a colon must follow the noun.
_IS = r"(?:is|are|:|：|=|(?:would|must|should)(?:\ then)?\ be)"
PHRASES = (
    Phrase(
        "English", "answer solution result option choice",
        rf"(?:final|correct|right|true|actual)\ (?:answer|solution|result|option|choice)s?\b[^.:\n]{{0,40}}?\b{_IS}",
        "The correct solution for x is 42.",
    ),
    Phrase(
        "English", "answer solution result option choice",
        rf"(?:final|correct)\ (?:answer|solution|result|option|choice)s?\W{{0,4}}{_IS}", "The correct result = 42",
    ),
    Phrase(
        "English", "answer", rf"\banswers?(?:\ (?:choice|option|\([^()\n]{{1,30}}\)))?\**\ ?{_IS}",
        "So the answer would be 42.",
    ),
    Phrase("English", "a: a*", r"^[\s*#>-]{0,8}(?-i:A)\**:(?=\s)", "A: 42"),
    Phrase(
        "English", "ans solution result",
        r"^[\s*#>-]{0,8}(?:Ans|Answer|Solution|Result|Final\ Answer)\b\.?\**\ ?[:=：—–]", "Solution: 42",
    ),
    Phrase(
        "English", "answer solution result",
        r"^[\s*#>-]{0,8}(?:Final\ )?(?:Answer|Solution|Result)\**\ ?(?:\n|(?=[\\$\d]))", "Final Answer\n42",
    ),
    Phrase("GSM8K", "####", r"\#{4}", "6 * 7 is\n#### 42"),
    Phrase("JSON", "answer", r'"(?:final[_\ ]?)?answer"\s?:\s?', 'So {"answer": "42"}'),
    Phrase("Chinese", "答 结", r"【(?:答案|最终答案|结论)】[:：]?", "【答案】42"),
    Phrase(
        "Chinese", "答 选 结",
        r"(?:最终|正确)?(?:(?:答案|选项)(?:是|为|應為|应为|選|选)?[:：]?|结果(?:是|为|[:：]|应为))\s?(?:是|为)?",
        "所以x的值为7，答案为42。",
    ),
    Phrase("Chinese", "故 選 填", r"故(?:答案)?(?:选|選|填|为|應選|应选)[:：]?", "故选：42"),
    Phrase("Chinese", "所以", r"所以(?:答案)?(?:选|是|为)[:：]?", "所以是42。"),
    Phrase(
        "Chinese", "选", r"(?:综上|因此|正确选项|应|可|∴)[^。\n]{0,6}选择?[:：]?\s?(?=\(?[A-J])", "综上选A。"
    ),
    Phrase("Chinese", "答 解 结", r"^(?:答|解|结论)[:：]", "解：42"),
    Phrase("Japanese", "答", r"(?:最終的な)?答え?(?:は|[:：])", "答えは42です。"),
    Phrase("Japanese", "解", r"(?:解答|正解)(?:は|[:：])", "正解：42"),
    Phrase("Korean", "답", r"(?:최종\ ?)?(?:정답|답)(?:은|는|[:：])", "정답은 42입니다."),
    Phrase(
        "French", "réponse reponse",
        r"(?:la\ )?r[ée]ponse(?:\ (?:finale|correcte))?\ ?(?:est|:|vaut)(?:\ donc)?(?:\ :)?",
        "La réponse finale est donc : 42",
    ),
    Phrase(
        "German", "antwort lösung losung",
        r"(?:die\ )?(?:endg[üu]ltige\ )?(?:antwort|l[öo]sung)\ ?(?:ist|lautet|:)(?:\ (?:also|daher|somit))?(?:\ ?:)?",
        "Die Antwort lautet: 42",
    ),
    Phrase(
        "Spanish", "respuesta", r"(?:la\ )?respuesta(?:\ (?:final|correcta))?\ ?(?:es|:)(?:\ :)?",
        "La respuesta final es: 42"
    ),
    Phrase(
        "Portuguese", "resposta", r"(?:a\ )?resposta(?:\ (?:final|correta))?\ ?(?:[ée]|:)(?:\ :)?", "A resposta é 42."
    ),
    Phrase(
        "Russian", "ответ", r"ответ(?:ом)?(?:\ (?:равен|является|есть))?\ ?(?:[:：—-]|равен|является)?", "Ответ: 42."
    ),
    Phrase(
        "Arabic", "الجواب الإجابة الاجابة",
        r"(?:الجواب|الإجابة|الاجابة)(?:\ النهائ(?:ي|ية))?\ ?(?:هو|هي|:)", "الجواب هو 42",
    ),
    Phrase("Hindi", "उत्तर", r"(?:अंतिम\ )?उत्तर(?:\ (?:है|होगा))?\ ?[:：]?", "अंतिम उत्तर: 42"),
    Phrase(
        "Vietnamese", "đáp câu", r"(?:đáp\ án|đáp\ số|câu\ trả\ lời)(?:\ (?:cuối\ cùng|đúng))?\ ?(?:là|:)",
        "Câu trả lời cuối cùng là: 42",
    ),
    Phrase("Turkish", "cevap yanıt", r"(?:nihai\ )?(?:cevap|yanıt)\ ?:?", "Cevap: 42'dir"),
)  # fmt: skip
MAX_LINES = 64
"""How many lines with a keyword, counted from the end, are searched."""
FILLER = re.compile(
    r"(?:[\s*:：]|\b(?:definitely|clearly|simply|just|therefore|thus|exactly|approximately|about|equal\ to|indeed"
    r"|option|choice|for\ sure|donc|also|daher|i\ (?:think|believe)(?:\ that)?(?:\ it\ is|\ it's)?)\b)*",
    re.IGNORECASE,
)
"""What may stand between the phrase and the answer."""
ENDING = re.compile(
    r"(?:입니다|이다|이에요|예요|です|である|となります|になります|だ|है|होगा|हैं"
    r"|['’]?(?:dir|dır|dur|dür|tir|tır|tur|tür))[.。।]?$"
)
"""What some languages put after the answer."""
HOPE = re.compile(r"\bI\ hope\ (?:it|this)\b")
"""The end of MATH's few-shot prompts."""


def any_of(rows: Iterable[Phrase]) -> re.Pattern[str]:
    """A pattern that matches what any of these rows matches."""
    return re.compile("|".join(f"(?:{row.pattern})" for row in rows), re.IGNORECASE | re.MULTILINE)


PHRASE = any_of(PHRASES)
_KEYWORDS = frozenset(word for phrase in PHRASES for word in phrase.keywords.split())


def last_phrase(text: str) -> re.Match[str] | None:
    """The last phrase in ``text`` that announces an answer."""
    lower = text.lower()
    if len(lower) != len(text):  # Some capitals have two letters in lower case.
        return last_match(PHRASE, text)
    for _ in range(MAX_LINES):
        place = max(lower.rfind(word) for word in _KEYWORDS)
        if place < 0:
            return None
        start = lower.rfind("\n", 0, place) + 1
        # A phrase may begin with the white space of the lines before it, and end with the next line's.
        begin = start
        while begin and start - begin < 8 and text[begin - 1] in "\n \t*#>-":
            begin -= 1
        end = text.find("\n", place)
        phrase = last_match(PHRASE, text, begin, len(text) if end < 0 else min(len(text), end + 2))
        if phrase is not None:
            return phrase
        lower = lower[:start]
    return None


def last_match(pattern: re.Pattern[str], text: str, start: int = 0, end: int | None = None) -> re.Match[str] | None:
    """The last match in ``text[start:end]``."""
    matches = pattern.finditer(text, start, len(text) if end is None else end)
    return next(iter(deque(matches, maxlen=1)), None)


def first_group(match: re.Match[str] | None) -> str | None:
    """What the first group matched; None without a match."""
    return None if match is None else match[1]
