"""Draws and prints the results of a quickstart run.

    python launch/quickstart/report.py --run runs/quickstart --algorithm gtpo

Reads before/eval.json, after/eval.json, phases.json, metrics.jsonl and rollouts.jsonl in the run's folder. Writes
curves.png and summary.json there. Prints a table of before and after, and one group of responses token by token.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from pathlib import Path
from typing import Any

from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.registry import label_of
from openrlhf_gtpo.report.curves import CURVES, picture
from openrlhf_gtpo.report.run import read
from openrlhf_gtpo.report.tokens import question, shows

DRAWN = ("rollout/pass_rate", "entropy/token_mean", "rollout/response_length_mean")
ROWS = [
    ("pass@1", "pass@1", ".3f"),
    ("pass@8", "pass@8", ".3f"),
    ("entropy_token_mean", "entropy a token, nats", ".3f"),
    ("response_length", "response length, tokens", ".1f"),
]
WIDTH = 100  # columns of the printed group
SHOWN = 4  # responses of the printed group


def means(benchmarks: dict[str, Any]) -> dict[str, float]:
    """The means of an evaluation's only benchmark, without their intervals."""
    (figures,) = benchmarks.values()
    return {key: value["mean"] for key, value in figures.items() if isinstance(value, dict)}


def table(before: dict[str, float], after: dict[str, float]) -> str:
    lines = [f"  {'held-out prompts':<26}{'before':>9}{'after':>9}"]
    for key, name, form in ROWS:
        lines.append(f"  {name:<26}" + "".join(f"{format(result[key], form):>9}" for result in (before, after)))
    return "\n".join(lines)


def choose_responses(group: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Up to SHOWN different responses, correct and wrong in turn."""
    distinct = list({tuple(response["tokens"]): response for response in group}.values())
    ranked = {flag: [response for response in distinct if bool(response["correct"]) is flag] for flag in (True, False)}
    turns = [pair[i] for i in range(len(distinct)) for pair in ranked.values() if i < len(pair)]
    return turns[:SHOWN]


def token_rows(response: dict[str, Any]) -> str:
    """Every token over its entropy H and its advantage A, wrapped to the width of the terminal."""
    tokens = [token.replace("\n", "\\n") for token in response["tokens"]]
    columns = zip(tokens, response["entropy"], response["advantage"], strict=True)
    rows = [" ", "H", "A"]
    finished: list[str] = []
    for token, entropy, advantage in columns:
        cells = [token, f"{entropy:.2f}", f"{advantage:+.2f}"]
        width = max(map(len, cells)) + 1
        if len(rows[0]) + width > WIDTH - 4:
            finished, rows = finished + rows, [" ", "H", "A"]
        rows = [row + cell.rjust(width) for row, cell in zip(rows, cells, strict=True)]
    return "\n".join(f"    {row}" for row in finished + rows)


def group_text(group: list[dict[str, Any]]) -> str:
    shown = choose_responses(group)
    correct = sum(bool(response["correct"]) for response in group)
    head = f"Step {group[0]['step']}: {question(group[0]['prompt'])} (answer: {group[0]['label']})"
    note = (
        f"{correct} of {len(group)} responses are correct; {len(shown)} different ones with each token's entropy H "
        "(nats) and advantage A. Where A varies among the tokens of correct responses, or of wrong ones, that is the "
        "entropy's part:"
    )
    lines = [textwrap.fill(f"{head} {note}", WIDTH, initial_indent="  ", subsequent_indent="  ")]
    for response in shown:
        lines += ["", f"  {'correct' if response['correct'] else 'wrong'}", token_rows(response)]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True, help="folder of the run")
    parser.add_argument("--algorithm", required=True, help="what the run was trained with")
    args = parser.parse_args()

    for name in ("warm_start/task.json", "before/eval.json", "after/eval.json", "phases.json"):
        if not (args.run / name).is_file():
            raise SettingsError(
                f"{args.run / name} is missing: the run stopped before it was written, or --run names another folder."
            )
    run = read(args.run)
    before, after = means(run.before), means(run.after)
    task = json.loads((args.run / "warm_start" / "task.json").read_text(encoding="utf-8"))["task"]
    name = label_of(args.algorithm)
    title = f"{name} on the task {task}: held-out pass@1 {before['pass@1']:.2f} to {after['pass@1']:.2f}"
    drawn = {key: CURVES[key] for key in DRAWN if run.points(key)}
    for key in set(DRAWN) - set(drawn):
        print(f"report.py: metrics.jsonl has no {key}, so its curve is missing", file=sys.stderr)
    if drawn:
        (args.run / "curves.png").write_bytes(picture([run], "png", drawn, title))

    kept = [key for key, _, _ in ROWS]
    summary = {
        "algorithm": args.algorithm,
        "before": {key: before[key] for key in kept},
        "after": {key: after[key] for key in kept},
        "seconds": json.loads((args.run / "phases.json").read_text(encoding="utf-8")),
    }
    (args.run / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")

    group = max(run.groups(), key=shows, default=[])
    if group:
        print(group_text(group) + "\n")
    else:
        print("report.py: rollouts.jsonl is empty, so no group can be shown", file=sys.stderr)
    print(table(before, after) + "\n")
    print(f"  curves: {args.run / 'curves.png'}    numbers: {args.run / 'summary.json'}")


if __name__ == "__main__":
    try:
        main()
    except SettingsError as error:
        sys.exit(f"report.py: {error}")
