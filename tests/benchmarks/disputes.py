r"""Grades public complaints about answer checkers with six of them, and writes the page of all verdicts.

    python tests/benchmarks/disputes.py         # every grader that can be loaded, then the page
    python tests/benchmarks/disputes.py --page  # the page alone, of the verdicts that are kept

``docs/disputes.jsonl`` has a row a line: what a public thread compares, the thread, and who we think is right. The
verdicts, and the version of each grader in the first line, are written into the same file, so that the page can be
made again where a grader is missing. ``docs/disputes.md`` is made of this file alone.

The graders are those of ``bench_grader.py``, each in a process of its own; verl is installed for the run into a
temporary directory. A row on which a grader raises, or takes longer than ten seconds, has that as its verdict.
"""

import argparse
import importlib.metadata
import json
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench_grader import MATH_VERIFY, OURS, Peer, Row, verl_installed

from openrlhf_gtpo.tables import markdown as table

DOCS = Path(__file__).resolve().parents[2] / "docs"
ROWS, PAGE = DOCS / "disputes.jsonl", DOCS / "disputes.md"
LIMIT_SECONDS = 10.0
PAID, NOT, CRASH, SLOW = "paid", "not", "crash", f"> {LIMIT_SECONDS:g} s"
SHOWN = 150
"""Characters of a completion that the page shows."""


def _verl() -> str:
    (found,) = importlib.metadata.distributions(name="verl", path=[os.environ["BENCH_VERL"]])
    return found.version


VERSIONS: dict[str, Callable[[], str]] = {
    OURS: lambda: "this commit",  # a test grades the rows again
    MATH_VERIFY: lambda: importlib.metadata.version("math-verify"),
    "verl math_verify": lambda: f"{_verl()}, with Math-Verify {importlib.metadata.version('math-verify')}",
    "OpenRLHF math_utils": lambda: importlib.metadata.version("openrlhf"),
    "verl prime_math": _verl,
    "verl math_reward": _verl,
}
"""Each grader of the page, in its order -> which version runs."""


@dataclass
class Dispute:
    kind: str
    reference: str
    equal: bool
    complaint: str
    thread: str
    answer: str = ""
    """It is graded in a box."""
    completion: str = ""
    """In the place of an answer: it is graded as it stands."""
    why: str = ""
    verdicts: dict[str, str] = field(default_factory=dict)

    @property
    def graded(self) -> str:
        return self.completion or rf"So it is \boxed{{{self.answer}}}"

    def right(self, grader: str) -> bool:
        return self.verdicts[grader] == (PAID if self.equal else NOT)


def read(path: Path = ROWS) -> tuple[dict[str, str], list[Dispute]]:
    """The graders' versions, and the rows."""
    versions, *rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return versions, [Dispute(**row) for row in rows]


def write(versions: dict[str, str], rows: Iterable[Dispute], path: Path = ROWS) -> None:
    said = [{name: value for name, value in asdict(row).items() if value not in ("", {})} for row in rows]
    path.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in [versions, *said]), "utf-8")


def grade(versions: dict[str, str], rows: list[Dispute]) -> None:
    """Writes the verdicts of every grader that can be loaded into the rows, and its version."""
    with verl_installed():  # what cannot be installed cannot be loaded either, and is said below
        for name, version in VERSIONS.items():
            try:
                peer = Peer(name, LIMIT_SECONDS)
            except ImportError as error:
                print(f"{name} keeps its verdicts, because it could not be loaded: {error}")
                continue
            versions[name] = version()
            for row in rows:
                row.verdicts[name] = _verdict(peer, row)
            peer.stop()


def _verdict(peer: Peer, row: Dispute) -> str:
    hung, failures = peer.tally.hung, peer.tally.failures
    peer.grade([Row(row.reference, row.graded, row.equal, row.thread)])
    if peer.tally.hung > hung:
        return SLOW
    if peer.tally.failures > failures:
        return CRASH
    return PAID if peer.tally.verdicts[-1] else NOT


def markdown(versions: dict[str, str], rows: list[Dispute]) -> str:
    """The page."""
    kinds = list(dict.fromkeys(row.kind for row in rows))
    missed = sum(not row.right(OURS) for row in rows)
    parts = [
        HEAD.format(rows=len(rows), threads=len({row.thread for row in rows}), missed=missed, slow=SLOW, crash=CRASH),
        table(
            ["grader", "version", "right", "false accepts", "false rejects", f"{CRASH} or {SLOW}"],
            [_summary(name, versions[name], rows) for name in VERSIONS],
        ),
        HOW.format(boxless=sum("boxed" not in row.graded for row in rows)),
    ]
    for kind in kinds:
        of_kind = [row for row in rows if row.kind == kind]
        count = sum(not row.right(OURS) for row in of_kind)
        ours = f", ours is wrong in {count}" if count else ""
        parts += [
            f'<details markdown="1">\n<summary>{kind}: {len(of_kind)} rows{ours}</summary>',
            table(
                ["reference", "answer", "equal", *VERSIONS, "complaint"],
                [
                    [
                        _code(row.reference),
                        _code(row.answer or row.completion) + (" (completion)" if row.completion else ""),
                        "yes" if row.equal else "no",
                        *(row.verdicts[name] if row.right(name) else f"**{row.verdicts[name]}**" for name in VERSIONS),
                        f"[{_name(row.thread)}]({row.thread}): {row.complaint}{f' *{row.why}*' if row.why else ''}",
                    ]
                    for row in of_kind
                ],
            ),
            "</details>",
        ]
    return "\n\n".join(parts) + "\n"


def _summary(name: str, version: str, rows: list[Dispute]) -> list[str]:
    return [
        name,
        version,
        f"{sum(row.right(name) for row in rows)} of {len(rows)}",
        f"{sum(row.verdicts[name] == PAID and not row.equal for row in rows)} of {sum(not row.equal for row in rows)}",
        f"{sum(row.verdicts[name] == NOT and row.equal for row in rows)} of {sum(row.equal for row in rows)}",
        str(sum(row.verdicts[name] in (CRASH, SLOW) for row in rows)),
    ]


def _code(text: str) -> str:
    """As code in a cell of a table, in one line and shortened."""
    if len(text) > SHOWN:
        text = f"{text[: SHOWN // 2]} … {text[-SHOWN // 2 :]}"
    text = text.replace("\n", " ⏎ ").strip()
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _name(thread: str) -> str:
    *_, repository, _, number = thread.split("/")
    return f"{repository} {number}"


HEAD = """# Disputes

What people have complained about in public, about answer checkers of all kinds: {rows} rows of {threads} issues and
pull requests, with the verdicts of six graders today, and who we think is right. This page is written by
`python tests/benchmarks/disputes.py` out of [its rows](disputes.jsonl).

The rows are complaints, hence chosen against the graders that people use most, and some are fixed since. So this is
no accuracy on ordinary data; [the verifier's page](grader.md#measured) has that. Each row was labelled before our
grader was run on it, but some pairs were known when our rules were written: they stand in Math-Verify's own tests.
At first sight ours was wrong in 17 of 341, all of them false rejects; some of these kinds are read since. Ours is
wrong in {missed} rows: they stay here and say so.

A row is a pair of the thread, or of the test that a pull request adds; where a thread names one expression, it is
graded against itself. An answer is graded in a box, a completion as it stands. **Bold** is a verdict that we think is
wrong; `{crash}` means that the grader raised, and `{slow}` that it had to be ended. False accepts are what a policy
learns."""

HOW = """verl's `math_reward` is the checker of MATH's authors, which harnesses have too. OpenRLHF's and `math_reward`
look for boxes only: they refuse the {boxless} completions without one.

## Add a row

You know a complaint that is missing, or you think that a label is wrong? Open an issue or a pull request. A row is a
line in `docs/disputes.jsonl`: `kind`, `reference`, `answer` (or `completion`), `equal` (label it before you run
anything), `complaint` in one sentence, `thread` (the link), and `why` where it is a convention. Then

<!-- tested by tests/docs/test_disputes.py: tests/benchmarks/disputes.py -->
```bash
python tests/benchmarks/disputes.py
```

grades the rows with every grader that can be loaded, and writes the verdicts and this page.

## Rows"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--page", action="store_true", help="write the page of the verdicts that are kept")
    arguments = parser.parse_args()
    versions, rows = read()
    if not arguments.page:
        grade(versions, rows)
        write(versions, rows)
    PAGE.write_text(markdown(versions, rows), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
