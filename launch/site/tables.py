"""Writes into each cell of a wide table what its column's head says, so that a phone can show a row as a list."""

import html
import itertools
import re
from typing import Any

WIDE = 3
"""Columns from which on a table has no room on a phone."""

_TABLE = re.compile(r"<table>(.*?)</table>", re.S)


def on_page_content(text: str, **_: Any) -> str:
    """MkDocs calls this with each page's HTML."""

    def labelled(match: re.Match[str]) -> str:
        heads = [re.sub("<.*?>", "", head) for head in re.findall(r"<th\b[^>]*>(.*?)</th>", match[1], re.S)]
        if len(heads) < WIDE:
            return match[0]
        head = itertools.cycle(heads)
        cells = re.sub("<td", lambda _: f'<td data-head="{html.escape(html.unescape(next(head)))}"', match[1])
        return f"<table data-wide>{cells}</table>"

    return _TABLE.sub(labelled, text)
