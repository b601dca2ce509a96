"""The glossary of metrics: one entry a name, and the page that users read is made of it.

That every name which a run logs has an entry is asked of each run of tests/end_to_end (loop.py).
"""

import re
from pathlib import Path

from openrlhf_gtpo.glossary.__main__ import main
from openrlhf_gtpo.glossary.entries import GLOSSARY, describe
from openrlhf_gtpo.report.curves import CURVES

PAGE = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"


def test_the_page_is_what_the_command_writes_and_has_each_name_once(tmp_path: Path) -> None:
    main([str(tmp_path / "metrics.md")])
    written = (tmp_path / "metrics.md").read_text(encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == written, "run `python -m openrlhf_gtpo.glossary docs/metrics.md`"
    rows = re.findall(r"^\| `(.+?)` \|", written, re.MULTILINE)
    assert sorted(rows) == sorted({entry.name for entry in GLOSSARY})


def test_a_name_is_described_by_its_own_words() -> None:
    entry = describe("entropy/wrong_token_q90")
    assert entry is not None
    assert (entry.unit, entry.over) == ("nats", "the tokens of wrong responses of a step")
    lower = describe("eval_open/aime_pass_1_pass16_low")
    assert lower is not None
    assert lower.name == "eval_open/aime_pass_1_pass16_low"
    assert describe("entropy/right_token_mean") is None
    assert describe("my_own_log") is None


def test_what_the_report_draws_is_described() -> None:
    assert [key for key, _, _ in CURVES if describe(key) is None] == []
