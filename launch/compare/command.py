"""The command line of studies: trains one policy in several ways with several seeds, evaluates the results, and
compares them.

A study is data (`designs.Design`). Out of a folder of its runs' records `--analyse FOLDER` makes the tables again.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import results
from designs import HELD_OUT_PROMPTS, JOBS, MOST_SEEDS, ROOT, Design, Study
from inference import Replicate
from openrlhf_gtpo.report.run import Run, read
from runner import SCRIPT, perform


def main(design: Design, description: str) -> None:
    assert design.layout is not None, "the tables of the report"
    names = {arm.key: arm.title for arm in design.arms}
    if sys.argv[1:2] == ["--analyse"] and len(sys.argv) == 3:
        folder = Path(sys.argv[2])
        try:
            print(results.analyse(folder, folder, names, design.layout))
        except ValueError as error:
            print(f"{SCRIPT}: {error}.", file=sys.stderr)
            raise SystemExit(2) from None
        return
    study = parse(design, description)
    begin = time.monotonic()
    perform([study])
    print("== report", flush=True)
    text = results.analyse(study.records, study.out, names, design.layout)
    runs: dict[str, dict[Replicate, Run]] = {}
    for job in study.jobs_in_order():
        runs.setdefault(job.arm.key, {})[job.policy, job.seed] = read(job.folder(study))
    results.report(study.out, runs, design.layout.picture)
    print(text)
    print(f"\nTook {(time.monotonic() - begin) / 60:.0f} minutes. The results are in {study.out}")
    print(f"One record a run, out of which --analyse makes the tables again, is in {study.records}")


def parse(design: Design, description: str) -> Study:
    """The study that the command line asks for; ends the program with a sentence where it cannot be."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / design.name, help=f"(runs/{design.name})")
    parser.add_argument("--long", action="store_true", help="defaults of 5 seeds and 400 steps")
    parser.add_argument(
        "--start",
        type=Path,
        help="folder with model/, train.jsonl and heldout.jsonl (OUT/warm_start, made when missing)",
    )
    if design.has_guide:
        parser.add_argument(
            "--guide", type=Path, help="folder with the guide's model/ (OUT/guide_warm_start, made when missing)"
        )
    parser.add_argument("--seeds", type=int, default=None, help=f"of each arm, 1 to {MOST_SEEDS} (3)")
    parser.add_argument("--steps", type=int, default=None, help=f"steps of each run ({design.steps})")
    everything = ",".join(arm.key for arm in design.arms)
    parser.add_argument(
        "--arms", "--algorithms", dest="arms", default=everything, help=f"separated by commas ({everything})"
    )
    final_prompts = design.final_prompts
    parser.add_argument(
        "--final_prompts", type=int, default=final_prompts, help=f"prompts of the final evaluation ({final_prompts})"
    )
    parser.add_argument("--jobs", type=int, default=JOBS, help="runs at a time (cores)")
    args = parser.parse_args()
    seeds = args.seeds if args.seeds is not None else 5 if args.long else 3
    steps = args.steps if args.steps is not None else 400 if args.long else design.steps
    arms = tuple(args.arms.split(","))
    for key in arms:
        if key not in everything.split(","):
            parser.error(f"--arms has {key!r}: choose from {everything.replace(',', ', ')}.")
    most_prompts = HELD_OUT_PROMPTS - design.evaluation_prompts
    within(parser, seeds=(seeds, MOST_SEEDS), steps=(steps, 600), jobs=(args.jobs, 64))
    within(parser, final_prompts=(args.final_prompts, most_prompts))
    out = args.out.resolve()
    start = (args.start or out / "warm_start").resolve()
    guide = (args.guide or out / "guide_warm_start").resolve() if design.has_guide else None
    for flag, folder in (("start", start), ("guide", guide)):
        if getattr(args, flag, None) and not (folder / "model" / "config.json").is_file():
            parser.error(f"--{flag}: there is no model in {folder / 'model'}.")
    return Study(design, out, arms, seeds, steps, args.jobs, start, guide, args.final_prompts)


def within(parser: argparse.ArgumentParser, **values: tuple[int | None, int]) -> None:
    """End the program with a sentence where the value of a flag is not from 1 to the most that it may be."""
    for flag, (value, most) in values.items():
        if value is not None and not 1 <= value <= most:
            parser.error(f"--{flag} is {value}, but has to be from 1 to {most}.")
