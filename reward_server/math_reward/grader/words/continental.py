"""Numbers as most of Europe and South America write them: 18.000 is eighteen thousand, and 3,75 is 3.75."""

from __future__ import annotations

import re

_GROUPED = re.compile(r"(?<![\d.,])\d{1,3}(?:\.\d{3})+(?:,\d{1,6})?(?![\d.,]*\d)")
_FOREIGN = re.compile(
    r"\b(?:und|der|die|das|ist|sind|eine?|pro|mit|von|zu|que|los|las|por|para|una|cada|del|est|les|des|une|pour|dans|par"
    r"|il|di|che|della|per|são|uma|não|com|em|é|het|een|van|är|och|att|jest|na|от|и|в|на|это)\b",
    re.IGNORECASE,
)
_ENGLISH = re.compile(r"\b(?:the|is|are|of|and|to|for|so|each|per|have|has|we)\b", re.IGNORECASE)


def with_points(number: str, text: str) -> str:
    """``number`` with a point for its decimals and none in its thousands, if the text around it is in a language that
    writes 18.000,50; else as it is.
    """
    if _GROUPED.search(number) is None or len(_FOREIGN.findall(text)) <= len(_ENGLISH.findall(text)) + 2:
        return number
    return _GROUPED.sub(lambda match: match[0].replace(".", "").replace(",", "."), number)
