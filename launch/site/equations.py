"""Draws the pages' equations, LaTeX between $$, or $ within a line, as MathML when the site is built: browsers need no
script for it."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

_EQUATION = re.compile(r'<(div|span) class="arithmatex">\s*\\[\[(](.*?)\\[\])]\s*</\1>', re.S)


def on_page_content(text: str, page: Any, **_: Any) -> str:
    """MkDocs calls this with each page's HTML."""

    def drawn(match: re.Match[str]) -> str:
        latex = html.unescape(match[2]).strip()
        if match[1] == "span":
            return str(convert(latex))
        return f'<div class="equation">{convert(latex, display="block")}</div>'

    return _EQUATION.sub(drawn, text)
