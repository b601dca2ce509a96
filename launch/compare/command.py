"""The command line that all studies share: trains one policy in several ways with several seeds, evaluates the
results, and compares them.

A study is data (`designs.Design`). Out of a folder of its runs' records `--analyse FOLDER` makes the tables again, and
`--times FOLDER` tells how long such runs take.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import time
from pathlib import Path

import record
import results
from designs import HELD_OUT_PROMPTS, JOBS, MOST_SEEDS, ROOT, Design, Study
from inference import Replicate
from openrlhf_gtpo.tables import markdown
from record import Record
from runner import SCRIPT, perform


def main(design: Design) -> None:
    if sys.argv[1:2] in (["--analyse"], ["--times"]) and len(sys.argv) == 3:
        folder = Path(sys.argv[2])
        try:
            print(times(design, record.load(folder)) if sys.argv[1] == "--times" else analysed(design, folder, folder))
        except ValueError as error:
            print(f"{SCRIPT}: {error}", file=sys.stderr)
            raise SystemExit(2) from None
        return
    study = parse(design)
    begin = time.monotonic()
    perform([study])
    print("== report", flush=True)
    text = compared(study) if design.layout else ""
    print(analysed(design, study.records, study.out) if design.analyse else text)
    print(f"\nTook {(time.monotonic() - begin) / 60:.0f} minutes. The results are in {study.out}")
    print(f"One record a run, small enough to be committed, is in {study.records}")


def parse(design: Design) -> Study:
    parser = argparse.ArgumentParser(
        description=design.description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / design.name, help=f"(runs/{design.name})")
    parser.add_argument(
        "--records",
        type=Path,
        help="folder for one small file a run, out of which --analyse makes the tables again (OUT/records)",
    )
    parser.add_argument("--long", action="store_true", help="defaults of 5 seeds and 400 steps")
    parser.add_argument(
        "--start",
        type=Path,
        help="folder with model/, train.jsonl and heldout.jsonl: the only initial policy, in the place of --policies",
    )
    usual_policies = ",".join(map(str, design.policies))
    parser.add_argument(
        "--policies", help=f"initial policies: seeds of warm starts, separated by commas ({usual_policies})"
    )
    if design.has_guide:
        parser.add_argument(
            "--guide", type=Path, help="folder with the guide's model/ (OUT/guide_warm_start, made when missing)"
        )
    usual = sorted({arm.seeds for arm in design.arms}, reverse=True)
    said = " or ".join(map(str, usual))
    parser.add_argument("--seeds", type=int, default=None, help=f"of each arm and policy, 1 to {MOST_SEEDS} ({said})")
    parser.add_argument("--steps", type=int, default=None, help=f"steps of each run ({design.steps})")
    everything = ",".join(arm.key for arm in design.arms)
    parser.add_argument(
        "--arms", "--algorithms", dest="arms", default=everything, help=f"separated by commas ({everything})"
    )
    rate = design.learning_rate
    parser.add_argument("--learning_rate", type=float, default=rate, help=f"of the policy ({rate:g})")
    final_prompts = design.final_prompts
    parser.add_argument(
        "--final_prompts", type=int, default=final_prompts, help=f"prompts of the final evaluation ({final_prompts})"
    )
    parser.add_argument("--jobs", type=int, default=JOBS, help="runs at a time (cores)")
    args = parser.parse_args()
    seeds = args.seeds if args.seeds is not None else 5 if args.long else None
    steps = args.steps if args.steps is not None else 400 if args.long else design.steps
    arms = tuple(args.arms.split(","))
    for key in arms:
        if key not in everything.split(","):
            parser.error(f"--arms has {key!r}: choose from {everything.replace(',', ', ')}")
        followed = design.arm(key).follows
        if followed is not None and followed not in arms:
            parser.error(f"--arms has {key}, whose runs need those of {followed}: add {followed}")
    bounds = (("seeds", seeds or 1, MOST_SEEDS), ("steps", steps, 600), ("jobs", args.jobs, 64))
    most_prompts = HELD_OUT_PROMPTS - design.evaluation_prompts
    for flag, value, most in (*bounds, ("final_prompts", args.final_prompts, most_prompts)):
        if not 1 <= value <= most:
            parser.error(f"--{flag} is {value}, but has to be from 1 to {most}")
    if design.final_samples is None and steps % min(steps, design.evaluations):
        parser.error(
            f"--steps is {steps}, but has to be a multiple of {design.evaluations}: each run has so many evaluations, "
            "and the last one is its result"
        )
    if args.start and args.policies:
        parser.error("--start is one initial policy and --policies names warm starts: give one of the two")
    policies = policies_of(parser, args.policies) if args.policies else design.policies
    if args.start:
        policies = (0,)
    if args.learning_rate <= 0:
        parser.error(f"--learning_rate is {args.learning_rate}, but has to be above 0")
    out = args.out.resolve()
    start = (args.start or out / "warm_start").resolve()
    guide = (args.guide or out / "guide_warm_start").resolve() if design.has_guide else None
    for flag, folder in (("start", start), ("guide", guide)):
        if getattr(args, flag, None) and not (folder / "model" / "config.json").is_file():
            parser.error(f"--{flag}: there is no model in {folder / 'model'}")
    records = args.records and args.records.resolve()
    rest = (args.jobs, args.learning_rate, start, guide, args.final_prompts)
    return Study(design, out, arms, seeds, steps, *rest, records_at=records, policies=policies)


def policies_of(parser: argparse.ArgumentParser, text: str) -> tuple[int, ...]:
    """The value of --policies; ends the program with a sentence where it is none."""
    fits = re.fullmatch(r"\d{1,6}(,\d{1,6})*", text)
    policies = tuple(map(int, text.split(","))) if fits else ()
    if len(policies) == 0 or len(set(policies)) < len(policies):
        parser.error(f"--policies is {text}, but has to be different whole numbers such as 0,1,2")
    return policies


def analysed(design: Design, records: Path, out: Path) -> str:
    """Write the tables of a study out of its records; returns them.

    Raises:
        ValueError: the records cannot be compared.
    """
    if design.analyse is not None:
        return design.analyse(records, out)
    assert design.layout is not None, "a design has a layout or analyses its records itself"
    return results.analyse(records, out, {arm.key: arm.title for arm in design.arms}, design.layout)


def times(design: Design, records: list[Record]) -> str:
    """How long recorded runs took, and what all runs of the design would take at that pace.

    Raises:
        ValueError: there are no records, or they cannot be compared.
    """
    record.check(records)
    rows, medians = [], {}
    for key in dict.fromkeys(one.arm for one in records):
        mine = [one for one in records if one.arm == key]
        seconds = [one.seconds for one in mine]
        medians[key] = statistics.median(seconds)
        steps = statistics.median(sum(one.series("seconds")) for one in mine)  # 0 where old records do not tell
        parts = [f"{steps / mine[0].steps:.2f}", f"{medians[key] - steps:.0f}"] if steps else ["", ""]
        rows.append(
            [key, len(mine), *(f"{value:.0f}" for value in (medians[key], min(seconds), max(seconds))), *parts]
        )
    usual = statistics.median(medians.values())
    counts = [(arm.seeds * len(design.policies), medians.get(arm.key, usual)) for arm in design.arms]
    hours = sum(runs * seconds for runs, seconds in counts) / JOBS / 3600
    head = ["", "runs", "seconds a run, median", "least", "most", "seconds a step", "start and evaluations"]
    return (
        f"{markdown(head, rows)}\n\n{sum(runs for runs, _ in counts)} runs of {records[0].steps} steps, as many as "
        f"this study has by default, take {hours:.1f} hours at this pace, {JOBS} at a time."
    )


def compared(study: Study) -> str:
    """Write tables, curves and report.html by the design's layout; returns the tables."""
    design, layout = study.design, study.design.layout
    assert layout is not None, "only a design with a layout has a report"
    names = {key: design.arm(key).title for key in study.arms}
    folders: dict[str, dict[Replicate, Path]] = {key: {} for key in names}
    for job in study.jobs_in_order():
        folders[job.arm.key][job.policy, job.seed] = job.folder(study)
    runs = {len(mine) for mine in folders.values()}
    is_whole = len(names) == len(design.arms) and len(runs) == 1
    title = f"{design.title}, {runs.pop()} runs each" if is_whole else "Comparison"
    return results.write(study.out, names, folders, layout, title)
