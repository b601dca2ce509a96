"""What stands behind an answer and has values of its own: a check, or a remark in brackets."""

import re

from math_reward.grader.extraction.bare import IDEOGRAPHS, LATEX_WORD, MATHEMATICS, PROSE_WORD
from math_reward.grader.extraction.denials import denied_after
from math_reward.grader.extraction.phrases import last_match
from math_reward.grader.words.doubts import says

# What follows an answer and repeats other numbers: a check, a remark.
AFTERWARDS = re.compile(
    r"(?:^|(?<!\n\d)(?<!\n\d\d)[.。;!\n✓✔]|\s\(|[,$]\s)\s{0,4}"
    r"(?:let(?:'s| us| me) (?:check|verify)|to (?:check|verify)"
    r"|(?:quick |double[ -])?check|checking|verification|proof|indeed|fun fact|(?:a|one|the) common mistake|probe"
    r"|vérification|comprobación|verifica|verificação|проверка|検算|检验|验证|驗證|검산)(?!\w)",
    re.IGNORECASE,
)
_CONCLUDES = re.compile(
    r"\b(?:so|thus|hence|therefore)\b[^.\n=]{0,30}(?:=|\bis)\s\$?(?P<value>-?\d[\d,]*(?:\.\d+)?)", re.IGNORECASE
)
# "42 (for comparison, 31² = 961).": it speaks of the answer, and neither doubts it, nor limits it, nor is another one.
_REMARK = re.compile(r"(?<=[\w)}\]$*%²³])\s*[(（](?P<said>[^()（）\n]{3,240})[)）][\s.。*]{0,4}\Z")


def corrects(check: str, answer: str) -> bool:
    """Whether a check after an answer fails, or concludes with another number."""
    concluded = last_match(_CONCLUDES, check)
    return says("check", check) is not None or (concluded is not None and concluded["value"] not in answer)


def without_remark(text: str) -> str:
    """``text`` without a remark in brackets at its end, of two words or more."""
    begin = max(0, len(text) - 260)
    remark = _REMARK.search(text[begin:])
    if remark is None or says("remark", remark["said"]) or denied_after(remark["said"]):
        return text
    words = PROSE_WORD.findall(LATEX_WORD.sub(" ", remark["said"]))
    is_prose = len([word for word in words if word.lower() not in MATHEMATICS]) > 1
    is_prose = is_prose or len(IDEOGRAPHS.findall(remark["said"])) > 2
    return text[: begin + remark.start()] if is_prose else text
