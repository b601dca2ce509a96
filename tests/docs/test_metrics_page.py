"""docs/metrics.md has a row for every metric that the plugin's code names, and no other."""

import ast
import re
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

from ..metrics_page import is_described, names
from .blocks import ROOT

KINDS = {name.partition("/")[0] for name in names() if "/" in name}


def metrics_of_the_code() -> Iterator[str]:
    """Names, and beginnings of names that the code completes."""
    for path in (ROOT / "plugin" / "openrlhf_gtpo").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            if re.fullmatch(r"\w+/\w*", text) and text.partition("/")[0] in KINDS:
                yield text


def test_each_metric_of_the_code_has_a_row() -> None:
    found = set(metrics_of_the_code())
    assert len(found) > 30
    assert {
        name for name in found if not (is_described(name) or any(row.startswith(name) for row in names()))
    } == set()


def test_each_row_is_of_a_metric_that_the_code_or_openrlhf_writes() -> None:
    openrlhf = Path(str(distribution("openrlhf").locate_file("openrlhf")))
    files = [path for folder in (ROOT / "plugin", ROOT / "reward_server", openrlhf) for path in folder.rglob("*.py")]
    words = {word for path in files for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))}
    last = {name.rpartition("/")[2].removesuffix("_total") for name in names() if "{" not in name}
    assert last - words == set()
