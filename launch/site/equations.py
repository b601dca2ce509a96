"""Draws the pages' equations, LaTeX between $$, as MathML when the site is built: browsers show it without a script.

The service's page draws what the grader read in the same way, so an equation is written in what the grader reads: no
environments, and a hook that says so where it cannot.
"""

import html
import re
from typing import Any

from mkdocs.exceptions import PluginError

from math_reward.grader.notation.parse import NotMathematics, parse
from math_reward.page.mathml import to_mathml

_EQUATION = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.S)


def on_page_content(text: str, page: Any, **_: Any) -> str:
    """MkDocs calls this with each page's HTML."""

    def drawn(match: re.Match[str]) -> str:
        latex = html.unescape(match[1]).strip()
        try:
            return f'<div class="equation">{to_mathml(parse(latex))}</div>'
        except NotMathematics as error:
            raise PluginError(f"{page.file.src_path}: the equation {latex} cannot be drawn: {error}") from None

    return _EQUATION.sub(drawn, text)
