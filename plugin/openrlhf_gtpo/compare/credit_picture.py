"""`openrlhf-gtpo credit`'s picture: what decided in two responses, where it lies, and what it deserves."""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

WIDTH = 26
"""Tokens of a response that are shown."""
CURVES: dict[str, dict[str, Any]] = {
    "entropy": {"label": "by entropy", "color": "#c0392b", "linewidth": 2.2},
    "surprisal": {"label": "by surprisal, -log p", "color": "#3a76d8"},
    "position": {"label": "by position, first tokens first", "color": "#3a9a5b", "linestyle": ":"},
}
SIDES = {"right": ("#3a76d8", -0.18), "wrong": ("#d65a7a", 0.18)}
Line = Mapping[str, Any]
"""A response of `openrlhf_gtpo.compare.values.valued`."""


def shown(found: Sequence[Sequence[Line]]) -> list[Line]:
    """A right and a wrong response to one prompt, in both of which much was decided; short ones first."""

    def rank(line: Line) -> tuple[bool, float]:
        return len(line["tokens"]) <= WIDTH, float(np.nansum(line["advantage"] ** 2))

    sides = [[[one for one in group if one["correct"] == side] for side in (True, False)] for group in found]
    return max(([max(side, key=rank) for side in pair] for pair in sides), key=lambda pair: min(map(rank, pair)))


def window(line: Line) -> range:
    """The places of tokens that are shown: all, or those around the one that was worth most."""
    middle, last = int(np.nan_to_num(abs(line["advantage"])).argmax()), len(line["tokens"])
    first = max(0, min(middle - WIDTH // 2, last - WIDTH))
    return range(first, min(first + WIDTH, last))


def label(token: str) -> str:
    """A token that can be read in a small box."""
    token = token[2:-2] if token.startswith("<|") and token.endswith("|>") and len(token) > 4 else token
    token = token.replace("\n", "⏎")
    token = token.strip() or token.replace(" ", "␣")
    return (token if len(token) <= 8 else f"{token[:7]}…").replace("$", r"\$")


def picture(found: Sequence[Sequence[Line]], record: Mapping[str, Any], path: Path) -> None:
    """Write the picture of groups of responses and of what credit.json has, with figures as objects."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    drawn = pyplot.figure(figsize=(13, 8.4))
    grid = drawn.add_gridspec(2, 2, hspace=0.2, wspace=0.16)
    _responses(drawn.add_subplot(grid[0, :]), shown(found), pyplot.cm)
    _captured(drawn.add_subplot(grid[1, 0]), record["curves"])
    _deserved(drawn.add_subplot(grid[1, 1]), record)
    drawn.savefig(path, dpi=110, bbox_inches="tight")
    pyplot.close(drawn)


def _responses(axis: Any, pair: Sequence[Line], colours: Any) -> None:
    top = max(0.01, *(line["entropy"][window(line)].max() for line in pair))
    middle = {"ha": "center", "va": "center"}

    def box(x: int, y: float, said: str, colour: Any, strength: float) -> None:
        axis.barh(y, 1, 0.92, x - 0.5, color=colour, edgecolor="white")
        size = 8 if len(said) < 6 else 6.5
        axis.text(x, y, said, **middle, fontsize=size, color="white" if strength > 0.65 else "black")

    for y, line in zip((0.0, 3.9), pair, strict=True):
        right, side, places = line["values"].mean(0), "right" if line["correct"] else "wrong", window(line)
        for x, t in enumerate(places):
            strength, worth = line["entropy"][t] / top, line["advantage"][t]
            box(x, y, label(line["tokens"][t]), colours.YlOrRd(0.9 * strength), strength)
            if not np.isnan(worth):
                said = f"{worth:+.2f}" if abs(worth) >= 0.05 else "·"
                box(x, y + 1, said, colours.RdBu(0.5 + 0.42 * worth), abs(worth))
            if not np.isnan(right[t + 1]):
                axis.text(x, y + 1.8, f"{right[t + 1]:.2f}", **middle, fontsize=7, color="dimgrey")
        for row, name in ((0, "entropy"), (1, "true advantage"), (1.8, "P(right) so far")):
            axis.text(-0.7, y + row, name, ha="right", va="center", fontsize=8.5)
        before = right[places[0]]
        said = f"{side.upper()}" + ("" if np.isnan(before) else f", P(right) was {before:.2f} before")
        axis.text(-0.5, y - 0.85, said, va="center", fontsize=9, color=SIDES[side][0], weight="bold")
    question = textwrap.shorten(" ".join(pair[0]["prompt"].strip().splitlines()[-1:]), 110)
    title = f"{question} (answer {pair[0]['label']})".replace("$", r"\$")
    how = (
        f"Entropy: the darker, the higher, up to {top:.1f} nats. True advantage: blue raised and red lowered P(right)."
    )
    axis.set(xlim=(-3.2, max(len(window(line)) for line in pair)), ylim=(6.2, -1.3))
    axis.axis("off")
    axis.set_title(f"{title}\n{how}", loc="left", fontsize=10)


def _captured(axis: Any, curves: Mapping[str, Sequence[float]]) -> None:
    x = np.arange(101)
    for name, style in CURVES.items():
        axis.plot(x, 100 * np.array(curves[name]), **style)
    bounds = [np.clip(100 * np.array(curves[f"best, at {end}"]), 0, 100) for end in ("least", "most")]
    axis.fill_between(x, *bounds, color="grey", alpha=0.3, label="best possible, between bounds")
    axis.plot(x, x, "--", color="black", linewidth=0.8, label="random")
    axis.set(xlabel="top x % of tokens", ylabel="% of the sum of A²", xlim=(0, 100), ylim=(-3, 103))
    _finish(axis, "How much of what decided lies in the top tokens", "lower right")


def _deserved(axis: Any, record: Mapping[str, Any]) -> None:
    for side, (colour, shift) in SIDES.items():
        bins = record["mean advantage"][side]
        mean, low, high = np.array([(one.mean, one.low, one.high) for one in bins.values()]).T
        x = np.arange(len(bins)) + shift
        axis.bar(x, mean, 0.34, color=colour, alpha=0.75, label=f"true advantage, {side} responses")
        axis.errorbar(x, mean, [mean - low, high - mean], fmt="none", ecolor="black", linewidth=0.9, capsize=2)
        credit = np.array(record["mean credit"][record["method"]][side], float)
        said = {"label": f"{record['method']}'s credit, scaled to the same sum"} if side == "right" else {}
        axis.plot(x, credit, "_", color="black", ms=17, mew=1.8, **said)
    axis.axhline(0, color="black", linewidth=0.6)
    axis.set_xticks(range(len(bins)), bins)
    bottom, top = axis.get_ylim()
    axis.set(xlabel="entropy of the token, nats", ylabel="mean A", ylim=(bottom, top + 0.28 * (top - bottom)))
    _finish(axis, "What tokens of an entropy deserve, with 95 % intervals", "upper left")


def _finish(axis: Any, title: str, where: str) -> None:
    axis.set_title(title, fontsize=10, loc="left")
    axis.legend(fontsize=8, loc=where)
    axis.grid(alpha=0.3, axis="y")
