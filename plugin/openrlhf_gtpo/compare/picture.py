"""`openrlhf-gtpo compare`'s picture and page."""

import base64
import io
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from openrlhf_gtpo.compare.rises import Figure

COLOURS = {"better": "#3a9a5b", "worse": "#d65a7a", "open": "#3a76d8"}


def picture(found: Mapping[str, Mapping[str, Figure]], passed: str, path: Path | io.BytesIO) -> None:
    """A forest plot: a line for each method, columns for reward, pass@k and entropy, GRPO's line at 1."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = [name for name in found if name != "GRPO"]
    titles = {"reward": "reward", "pass": passed, "entropy": "entropy lost"}
    drawn, axes = pyplot.subplots(1, 3, figsize=(11, 1.3 + 0.34 * len(names)), sharey=True, squeeze=False)
    for axis, (key, title) in zip(axes[0], titles.items(), strict=True):
        figures = [found[name][key] for name in names]
        means = [figure.mean for figure in figures]
        low, high = min([0.9, *means]), max([1.1, *means])
        room = high - low
        axis.set_xlim(low - room, high + room)
        for y, figure in enumerate(figures):
            sure = figure.low > 1 or figure.high < 1
            good = (figure.mean > 1) == (key != "entropy")
            colour = COLOURS["open" if not sure else "better" if good else "worse"]
            axis.plot([figure.low, figure.high], [y, y], color=colour, linewidth=2, solid_capstyle="butt")
            axis.plot(figure.mean, y, "o", color=colour, markersize=5)
        axis.axvline(1, color="black", linewidth=0.8)
        axis.set_title(title, fontsize=10, loc="left")
        axis.grid(axis="x", alpha=0.3)
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right", "left"]].set_visible(False)
    axes[0][0].set_yticks(range(len(names)), [name.replace("$", r"\$") for name in names], fontsize=9)
    axes[0][0].invert_yaxis()
    drawn.suptitle("A step's effect relative to GRPO's (1), 95 % intervals", fontsize=10, x=0.01, ha="left")
    drawn.tight_layout()
    drawn.savefig(path, dpi=110)
    pyplot.close(drawn)


def page(
    found: Mapping[str, Mapping[str, Figure]], about: Mapping[str, Any], sentences: Sequence[str], path: str
) -> None:
    """The picture, the table and the sentences as one HTML file that needs no other."""
    import jinja2

    buffer = io.BytesIO()
    picture(found, f"pass@{about['k']}", buffer)
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    style = (files("openrlhf_gtpo.report") / "page.css").read_text(encoding="utf-8")
    source = (files("openrlhf_gtpo.compare") / "page.html").read_text(encoding="utf-8")
    image = base64.b64encode(buffer.getvalue()).decode()
    text = environment.from_string(source).render(
        found=found, about=about, sentences=sentences, style=style, image=image
    )
    Path(path).write_text(text, encoding="utf-8")
