"""Counts where the token with the highest advantage of each group stands.

    python launch/smollm2/best_tokens.py runs/smollm2

Of the groups in rollouts.jsonl that had wrong and several correct responses: in how many it stands after the answer's
box has begun, and in how many in a response whose arithmetic is not right: none of it can be checked, or a line is
wrong, and the answer is right nevertheless.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LINE = re.compile(r"(?<![\d.])(\d+(?:\s*[-+*x×]\s*\d+)+)\s*=\s*(\d+)")
BOX = "\\boxed{"


def arithmetic_is_right(text: str) -> bool:
    """Whether a text calculates at all, and every calculation in it is right."""
    lines = LINE.findall(text)
    return bool(lines) and all(
        eval(re.sub("[x×]", "*", left)) == int(right) for left, right in lines
    )  # digits and signs


def groups(path: Path) -> Iterator[list[dict[str, Any]]]:
    """The groups that have several correct responses and a wrong one."""
    found: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found.setdefault((row["step"], row["group"]), []).append(row)
    for group in found.values():
        correct = sum(row["correct"] for row in group)
        if 2 <= correct < len(group):
            yield group


def best_token(group: list[dict[str, Any]]) -> tuple[str, str]:
    """The response that has a group's highest advantage, and the part of it before this token."""
    row = max(group, key=lambda row: max(row["advantage"], default=float("-inf")))
    place = max(range(len(row["tokens"])), key=row["advantage"].__getitem__)
    return "".join(row["tokens"]), "".join(row["tokens"][:place])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder with rollouts.jsonl")
    found = list(groups(parser.parse_args().run / "rollouts.jsonl"))
    best = [best_token(group) for group in found]
    after = sum(BOX in before for _, before in best)
    lucky = sum(not arithmetic_is_right(text) for text, _ in best)
    correct = [row for group in found for row in group if row["correct"]]
    among = sum(not arithmetic_is_right("".join(row["tokens"])) for row in correct)
    print(f"{len(found)} groups with several correct responses and a wrong one:")
    print(f"  {after} times the token with the highest advantage stands after the answer's box has begun")
    print(f"  {lucky} times in a response without right arithmetic, as {among} of all {len(correct)} correct ones are")


if __name__ == "__main__":
    main()
