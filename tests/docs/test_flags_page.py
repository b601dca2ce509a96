"""docs/flags.md is what its program writes."""

import runpy

from .blocks import ROOT


def test_the_page_of_flags_is_the_parsers() -> None:
    page = runpy.run_path(str(ROOT / "launch" / "site" / "flags.py"))["page"]
    written = (ROOT / "docs" / "flags.md").read_text(encoding="utf-8")
    assert written == page(), "write it: python launch/site/flags.py docs/flags.md"
