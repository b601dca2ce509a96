"""The entropy study's analysis, out of the records of its runs alone: the planned comparisons, the table of all arms
and the dose-response picture."""

from __future__ import annotations

import io
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import record
from contrasts import READ, Family, Values, by_replicate, compared, levels
from inference import area, mean_and_half, units
from record import Record
from results import over

OUTCOMES = ("area under pass@1", "pass@16 at the end")
"""Named before the first run; of held-out prompts."""
SECONDARY = ("pass@1 at the end", "entropy at the end", "rebound", "length at the end")
WINDOW = 5  # steps that the last and the lowest entropy are means over
REAL, SHUFFLED = "gtpo", "gtpo_shuffled"


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
    values = by_replicate(records, outcomes)
    by_policy = len({run.policy for run in records}) > 1
    arms = [arm for arm in names if arm in values]
    text = f"{levels(records, values, names, (*OUTCOMES, *SECONDARY), by_policy)}\n\n{over(by_policy)}\n"
    tests = "".join(compared(family, values, names, OUTCOMES, by_policy) for family in families(arms))
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
