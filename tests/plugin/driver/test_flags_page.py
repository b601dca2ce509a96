"""docs/flags.md is the parser's own words."""

from pathlib import Path

from openrlhf_gtpo.driver.flags_page import main

PAGE = Path(__file__).resolve().parents[3] / "docs" / "flags.md"


def test_the_page_is_what_the_command_writes(tmp_path: Path) -> None:
    main([str(tmp_path / "flags.md")])
    written = (tmp_path / "flags.md").read_text(encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == written, "run `python -m openrlhf_gtpo.driver.flags_page docs/flags.md`"
