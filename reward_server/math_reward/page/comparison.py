"""The page of ``math-reward compare``: one HTML file with the rows on which two graders differ."""

import base64
import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any


def page(name: str, rows: int, counts: Mapping[str, int], differences: Sequence[dict[str, Any]], limit: int) -> str:
    """A document that needs no network and no server.

    Args:
        name: of the file that was graded.
        rows: how many rows it has.
        counts: for each kind how many rows are of it.
        differences: rows to show; each has its kind, its texts, both verdicts, and formulas as MathML.
        limit: how many rows of a kind there are here at most.
    """
    folder = files("math_reward").joinpath("page", "static")
    style, script = (folder.joinpath(f"comparison.{kind}").read_text(encoding="utf-8") for kind in ("css", "js"))
    data = {"rows": rows, "counts": dict(counts), "differences": list(differences), "limit": limit}
    # Half a surrogate pair and "<", which could end the element, are escaped.
    text = json.dumps(data).replace("<", "\\u003c")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return folder.joinpath("comparison.html").read_text(encoding="utf-8") % {
        "policy": policy,
        "name": html.escape(name.encode("utf-8", "replace").decode()),
        "style": style,
        "data": text,
        "script": script,
    }


def _hash(source: str) -> str:
    """How a policy names a style or a script inside the page: the page runs these two and no other."""
    return "sha256-" + base64.b64encode(hashlib.sha256(f"\n{source}".encode()).digest()).decode()
