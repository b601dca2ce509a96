"""Draws the pages' equations, LaTeX between $$, as MathML when the site is built: browsers need no script for it."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

_EQUATION = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.S)


def on_page_content(text: str, page: Any, **_: Any) -> str:
    """MkDocs calls this with each page's HTML."""

    def drawn(match: re.Match[str]) -> str:
        return f'<div class="equation">{convert(html.unescape(match[1]).strip(), display="block")}</div>'

    return _EQUATION.sub(drawn, text)
