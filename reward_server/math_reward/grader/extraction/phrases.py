"""The phrases that announce a final answer, in the languages that users write in."""

import re
from collections import deque

# A verb or a colon must follow the noun. White space is matched by single characters, so that every pattern takes
# linear time.
_IS = r"(?:is|are|:|：|=|would\ be|must\ be|should\ be)"
_PHRASES = [
    # English
    rf"(?:final|correct|right|true|actual)\ (?:answer|solution|result|option|choice)s?\b[^.:\n]{{0,40}}?\b{_IS}",
    rf"(?:final|correct)\ (?:answer|solution|result|option|choice)s?\W{{0,4}}{_IS}",
    rf"\banswers?(?:\ (?:choice|option))?\**\ ?{_IS}",
    r"^[\s*#>-]{0,8}(?-i:A)\**:(?=\s)",
    r"^[\s*#>-]{0,8}(?:Ans|Answer|Solution|Result|Final\ Answer)\b\.?\**\ ?[:=：]",
    r"^[\s*#>-]{0,8}(?:Final\ )?(?:Answer|Solution|Result)\**\ ?(?:\n|(?=[\\$\d]))",
    r"\#{4}",
    r'"(?:final_?)?answer"\ ?:\ ?"?',
    # Chinese
    r"【(?:答案|最终答案|结论)】[:：]?",
    r"(?:最终|正确)?(?:答案|选项|结果)(?:是|为|應為|应为|選|选)?[:：]?\s?(?:是|为)?",
    r"故(?:答案)?(?:选|選|填|为|應選|应选)[:：]?",
    r"所以(?:答案)?(?:选|是|为)[:：]?",
    r"(?:综上|因此|正确选项|应|可|∴)[^。\n]{0,6}选择?[:：]?\s?(?=\(?[A-J])",
    r"^(?:答|解|结论)[:：]",
    # Japanese
    r"(?:最終的な)?答え?(?:は|[:：])", r"(?:解答|正解)(?:は|[:：])",
    # Korean
    r"(?:최종\ ?)?(?:정답|답)(?:은|는|[:：])",
    # French
    r"(?:la\ )?r[ée]ponse(?:\ (?:finale|correcte))?\ ?(?:est|:|vaut)(?:\ donc)?(?:\ :)?",
    # German
    r"(?:die\ )?(?:endg[üu]ltige\ )?(?:antwort|l[öo]sung)\ ?(?:ist|lautet|:)(?:\ (?:also|daher|somit))?(?:\ ?:)?",
    # Spanish, Portuguese
    r"(?:la\ )?respuesta(?:\ (?:final|correcta))?\ ?(?:es|:)(?:\ :)?",
    r"(?:a\ )?resposta(?:\ (?:final|correta))?\ ?(?:[ée]|:)(?:\ :)?",
    # Russian
    r"ответ(?:ом)?(?:\ (?:равен|является|есть))?\ ?(?:[:：—-]|равен|является)?",
    # Arabic, Hindi
    r"(?:الجواب|الإجابة|الاجابة)(?:\ النهائ(?:ي|ية))?\ ?(?:هو|هي|:)", r"(?:अंतिम\ )?उत्तर(?:\ (?:है|होगा))?\ ?[:：]?",
    # Vietnamese, Turkish
    r"(?:đáp\ án|đáp\ số|câu\ trả\ lời)(?:\ (?:cuối\ cùng|đúng))?\ ?(?:là|:)", r"(?:nihai\ )?(?:cevap|yanıt)\ ?:?",
]  # fmt: skip
PHRASE = re.compile("|".join(f"(?:{phrase})" for phrase in _PHRASES), re.IGNORECASE | re.MULTILINE)

# Every phrase contains one of these, and searching for them is much quicker than searching for the phrases.
_KEYWORDS = (
    "answer", "solution", "result", "option", "choice", "ans", "a:", "a*", "####", "答", "解", "选", "選", "填", "结",
    "所以", "故", "답", "réponse", "reponse", "antwort", "lösung", "losung", "respuesta", "resposta", "ответ",
    "الجواب", "الإجابة", "الاجابة", "उत्तर", "đáp", "câu", "cevap", "yanıt",
)  # fmt: skip
MAX_LINES = 64
"""How many lines with a keyword, counted from the end, are searched."""


def last_phrase(text: str) -> re.Match[str] | None:
    """The last phrase in ``text`` that announces an answer."""
    lower = text.lower()
    if len(lower) != len(text):  # Some capitals have two letters in lower case.
        return _last_between(text, 0, len(text))
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
        found = _last_between(text, begin, len(text) if end < 0 else min(len(text), end + 2))
        if found is not None:
            return found
        lower = lower[:start]
    return None


def _last_between(text: str, start: int, end: int) -> re.Match[str] | None:
    return next(iter(deque(PHRASE.finditer(text, start, end), maxlen=1)), None)


FILLER = re.compile(
    r"(?:[\s*:：(]|\b(?:definitely|clearly|simply|just|therefore|thus|exactly|approximately|about|equal\ to|indeed"
    r"|option|choice|for\ sure|donc|also|daher)\b)*",
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
