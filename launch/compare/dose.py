"""The entropy study's analysis, out of the records of its runs alone: the planned comparisons, the table of all arms
and the dose-response picture."""

from __future__ import annotations

import io
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import record
from inference import Paired, Replicate, area, holm, mean_and_half, paired, units
from openrlhf_gtpo.tables import markdown
from record import Record
from results import over

OUTCOMES = ("area under pass@1", "pass@16 at the end")
"""Named before the first run; of held-out prompts."""
SECONDARY = ("pass@1 at the end", "entropy at the end", "rebound", "length at the end")
WINDOW = 5  # steps that the last and the lowest entropy are means over
REAL, SHUFFLED = "gtpo", "gtpo_shuffled"


@dataclass(frozen=True)
class Family:
    """Comparisons that are corrected together."""

    title: str
    pairs: tuple[tuple[str, str], ...]
    """Arms; the second is subtracted from the first."""


CONTROL = Family(
    "Real against shuffled entropies at the same dose (primary)",
    tuple((f"{REAL}_{dose}", f"{SHUFFLED}_{dose}") for dose in ("1", "3")),
)
HARM = Family(
    "Shuffled entropies against none (not in the plan; added to tell harm by the control from help by entropy)",
    tuple((f"{SHUFFLED}_{dose}", f"{REAL}_0") for dose in ("1", "3")),
)
DOSE = Family(
    "Each dose against none",
    tuple((f"{REAL}_{dose}", f"{REAL}_0") for dose in ("0.1", "1", "3")),
)
GRPO_S = Family("GRPO-S, real against shuffled", (("grpo_s_1", "grpo_s_shuffled_1"),))


def outcomes(run: Record) -> dict[str, float]:
    """A run's figures by name."""
    entropy = run.series("entropy")
    width = min(WINDOW, len(entropy))
    means = [statistics.fmean(entropy[i : i + width]) for i in range(len(entropy) - width + 1)]
    values = (
        area(record.curve(run, "pass@1")),
        run.last["pass@16"],
        run.last["pass@1"],
        run.last["entropy"],
        means[-1] - min(means),
        statistics.fmean(run.series("length")[-width:]),
    )
    return dict(zip((*OUTCOMES, *SECONDARY), values, strict=True))


Values = Mapping[str, Mapping[str, Mapping[Replicate, float]]]
"""Arm -> outcome -> replicate -> value."""


def by_replicate(records: Sequence[Record]) -> Values:
    found: dict[str, dict[str, dict[Replicate, float]]] = {}
    for run in records:
        for name, value in outcomes(run).items():
            found.setdefault(run.arm, {}).setdefault(name, {})[run.replicate] = value
    return found


def compared(family: Family, values: Values, names: Mapping[str, str], by_policy: bool = False) -> str:
    """A family's table, corrected for its number of tests; empty where no pair has two seeds or, with `by_policy`, two
    policies."""
    found: list[tuple[str, str, Paired]] = []
    for one, other in family.pairs:
        for outcome in OUTCOMES:
            if one in values and other in values:
                result = paired(values[one][outcome], values[other][outcome], by_policy)
                if result is not None:
                    found.append((f"{names[one]} - {names[other]}", outcome, result))
    if not found:
        return ""
    # A test at the ceiling was planned and counts, as one that finds nothing.
    corrected = holm([1.0 if result.p is None else result.p for _, _, result in found])
    rows = []
    for (pair, outcome, result), p in zip(found, corrected, strict=True):
        gap = f"{result.mean:+.4f} ± {result.half:.4f}"
        tests: list[str] = [CEILING, *[""] * 4]
        if result.p is not None:
            seen = f"{result.visible(0.05 / len(found)):.4f}"
            tests = [small(result.p), small(p), small(result.flip), small(result.welch), seen]
        rows.append([pair, outcome, result.number, f"**{gap}**" if p < 0.05 else gap, *tests])
    number = "policies" if by_policy else "seeds"
    head = ["", "outcome", number, "difference", "p", f"p, Holm of {len(found)}", "p, sign flip", "p, Welch"]
    return f"\n{family.title}. {BOLD}\n\n{markdown([*head, 'visible at 80 %'], rows)}\n"


CEILING = "ceiling"
"""In the place of a p where no run of either arm differs from the others."""
BOLD = "Bold: p below 0.05 after Holm's correction."
READ = (
    "How to read the tests. p: Student's t test of the differences between runs with the same seed, which takes them "
    "as normal. Holm: that p, corrected for the tests of its own table, ceilings included; nothing is corrected for "
    "the number of tables. Sign flip: exact, without normality; eight pairs can give no less than 0.0078, four no "
    "less than 0.125. Welch: the two arms as independent samples. Ceiling: both arms have the same value in every "
    "run, so there is nothing to test. Intervals are 95 % intervals, each by itself."
)


def small(p: float | None) -> str:
    return "" if p is None else f"{p:.3f}" if p >= 0.01 else f"{p:.2g}"


def families(arms: Sequence[str]) -> list[Family]:
    """The planned ones, all other arms against GRPO, and the control against no entropy."""
    named = {arm for family in (CONTROL, DOSE) for pair in family.pairs for arm in pair}
    others = tuple((arm, "grpo") for arm in arms if arm not in named | {"grpo"})
    return [CONTROL, HARM, DOSE, GRPO_S, Family("The other arms against GRPO", others)]


def write(folder: Path, out: Path, names: Mapping[str, str]) -> str:
    """Write table.md and dose.png.

    Args:
        folder: of records.
        out: where to.
        names: arm -> its name, in the order of the table.

    Returns:
        The tables, as Markdown.

    Raises:
        ValueError: the records cannot be compared.
    """
    records = record.load(folder)
    record.check(records)
    values, by_policy = by_replicate(records), len({run.policy for run in records}) > 1
    arms = [arm for arm in names if arm in values]
    rows = []
    for arm in arms:
        mine = [run for run in records if run.arm == arm]
        cells = []
        for outcome in (*OUTCOMES, *SECONDARY):
            mean, half = mean_and_half(list(units(values[arm][outcome], by_policy).values()))
            places = 1 if abs(mean) >= 10 else 4
            cells.append(f"{mean:.{places}f}" + ("" if half is None else f" ± {half:.{places}f}"))
        rows.append([names[arm], len(mine), *cells, f"{statistics.median(run.seconds for run in mine):.0f}"])
    head = ["", "runs" if by_policy else "seeds", *OUTCOMES, *SECONDARY, "seconds a run"]
    text = f"{markdown(head, rows)}\n\n{over(by_policy)}\n"
    tests = "".join(compared(family, values, names, by_policy) for family in families(arms))
    text += f"\n{READ}\n{tests}" if tests else ""
    commits = ", ".join(sorted({run.commit for run in records}))
    text += f"\n{len(records)} runs of {records[0].steps} steps; commits: {commits}.\n"
    (out / "table.md").write_text(text, encoding="utf-8")
    (out / "dose.png").write_bytes(picture(values, by_policy))
    return text


def picture(values: Values, by_policy: bool) -> bytes:
    """Dose-response: the first outcome over alpha2, real beside shuffled, with 95 % intervals over seeds or policies.

    The second, pass@16, is at its ceiling in nearly every run: the tables say so.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    doses = ("0", "0.1", "1", "3")
    figure, axes = plt.subplots(figsize=(5.6, 3.3), layout="constrained")
    for shift, (prefix, label, colour) in enumerate(
        ((REAL, "real entropies", "#0072B2"), (SHUFFLED, "shuffled entropies", "#D55E00"))
    ):
        places = [n for n, dose in enumerate(doses) if f"{prefix}_{dose}" in values]
        found = [units(values[f"{prefix}_{doses[n]}"][OUTCOMES[0]], by_policy) for n in places]
        points = [mean_and_half(list(mine.values())) for mine in found]
        axes.errorbar(
            [n + 0.12 * shift for n in places],
            [mean for mean, _ in points],
            yerr=[half or 0.0 for _, half in points],
            fmt="o-" if prefix == REAL else "s--",
            color=colour,
            capsize=3,
            label=label,
        )
    axes.set_xticks(range(len(doses)), doses)
    axes.set_xlabel("alpha2, the weight of entropy")
    axes.set_ylabel(OUTCOMES[0])
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, high - 0.1), min(high, 1.01))  # small differences are not to look large
    axes.grid(alpha=0.15)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120, metadata={"Software": None})
    plt.close(figure)
    return buffer.getvalue()
