"""Pages, code, messages and help texts use the field's words: those of the list were read twice by readers."""

import re
from collections.abc import Iterator
from pathlib import Path

from .blocks import ROOT

REFUSED = re.compile(
    r"\b(told from|anew|of ours|rubbish|mend(s|ed)?|(un)?paid|dose|in the place of|hesitation)\b", re.IGNORECASE
)


def texts() -> Iterator[Path]:
    yield from ROOT.glob("*.md")
    yield from (ROOT / "docs").glob("*.md")
    for folder in ("docs/examples", "plugin", "reward_server", "launch"):
        for kind in ("py", "sh", "md", "html", "js", "jinja", "flags", "yaml", "yml"):
            yield from (ROOT / folder).rglob(f"*.{kind}")


def test_no_word_stands_that_has_to_be_read_twice() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in texts()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if REFUSED.search(line) and "words/" not in str(path)
    ]
    assert found == []


def test_the_readme_is_short() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.split()) <= 750
    assert len(text.splitlines()) <= 110
