"""docs/flags.md is the parser's own words."""

import argparse
from pathlib import Path

from openrlhf_gtpo.driver.flags_page import main, markdown

PAGE = Path(__file__).resolve().parents[3] / "docs" / "flags.md"


def test_the_page_is_what_the_command_writes(tmp_path: Path) -> None:
    again = tmp_path / "flags.md"
    main([str(again)])
    assert PAGE.read_text(encoding="utf-8") == again.read_text(encoding="utf-8"), (
        "run `python -m openrlhf_gtpo.driver.flags_page docs/flags.md`"
    )


def test_every_flag_is_on_the_page_once(parser: argparse.ArgumentParser) -> None:
    page = markdown()
    flags = [option for action in parser._actions for option in action.option_strings if action.dest != "help"]
    assert len(flags) > 150
    for flag in flags:
        rows = [line for line in page.splitlines() if line.startswith(f"| `{flag}") or f", `{flag}" in line]
        assert [row for row in rows if f"`{flag}`" in row or f"`{flag} " in row] != [], flag
