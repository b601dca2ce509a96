"""Draws one correct and one wrong response of a language model: GRPO's advantage as a flat line, GTPO's as bars on it.

    python launch/site/group_picture.py     # docs/examples/group.jsonl -> docs/group.svg, docs/group_phone.svg

The rows are those that `MODEL=smollm2 bash launch/quickstart.sh` saved (``--shaping.save_rollouts``): step 8, group 6.
The advantages are calculated here, of all eight with the functions of the trainer.
"""

import html
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch

from openrlhf_gtpo.algorithms.estimators import normalised_in_groups
from openrlhf_gtpo.shaping import gtpo

DOCS = Path(__file__).resolve().parents[2] / "docs"
UNIT = 80
"""Pixels of an advantage of 1."""
BARS = 72
"""Pixels that the highest bar may take."""
STYLE = (
    "svg{--ground:#fff;--ink:#1b1b1b;--soft:#5f5f5f;--more:#0072b2;--blame:#b34e00;--less:#b9bdc2}"
    "@media (prefers-color-scheme:dark){svg{--ground:#16181a;--ink:#e9e9e7;--soft:#a6a6a6;--more:#4aa3df;"
    "--blame:#e6873c;--less:#55595e}}"
    "rect.ground{fill:var(--ground)}text{fill:var(--ink);font-family:system-ui,sans-serif}"
    ".token{font-family:ui-monospace,monospace}.soft{fill:var(--soft)}.more{fill:var(--more)}.blame{fill:var(--blame)}"
    ".less{fill:var(--less)}line{stroke:var(--soft);stroke-width:1.2}"
)


class Label(NamedTuple):
    """A remark at a token of the response."""

    token: int
    text: str


class Drawn(NamedTuple):
    """A response to draw, and what is remarked of it."""

    row: int
    labels: tuple[Label, ...]


RESPONSES = (
    Drawn(0, (Label(0, "all correct ones agree: no difference"), Label(13, "least sure, and right: more credit"))),
    Drawn(7, (Label(7, "surest, and wrong: more blame"),)),
)


class Size(NamedTuple):
    """Of a picture: its width in pixels, that of a letter, and the size of letters."""

    width: int
    letter: float
    font: float


SIZES = {"group.svg": Size(900, 9.7, 16), "group_phone.svg": Size(390, 7.3, 12)}


def picture(rows: list[dict], size: Size) -> str:
    """The picture as SVG. ``rows``: the responses of one group, as a run saves them."""
    correct = torch.tensor([row["correct"] for row in rows])
    group = torch.zeros(len(rows), dtype=torch.long)
    entropy = torch.nn.utils.rnn.pad_sequence([torch.tensor(row["entropy"]) for row in rows], batch_first=True)
    mask = torch.nn.utils.rnn.pad_sequence([torch.ones(len(row["tokens"])).bool() for row in rows], batch_first=True)
    plain = normalised_in_groups(correct.float(), group)
    away = gtpo(entropy, mask, correct, group).advantages - plain[:, None]

    lines: list[str] = []
    y = 6.0
    for line in _wrapped(_question(rows[0]), size):
        y += size.font + 4
        lines.append(_text(8, y, line, size, bold=True))
    y += 8
    for row, labels in RESPONSES:
        parts, y = _response(rows[row], away[row].tolist(), float(plain[row]), labels, y, size)
        lines += parts
    note = "Bars: how far GTPO's advantage is from GRPO's. Idle talk gets more credit too."
    for line in _wrapped(note, size):
        y += size.font + 6
        lines.append(_text(8, y, line, size, "soft"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size.width} {y + 12:.0f}" width="{size.width}" '
        'role="img"><title>Two responses of one group: GRPO gives each response one advantage; GTPO gives more credit '
        "where a correct one was least sure, more blame where a wrong one was surest</title>"
        f'<style>{STYLE}</style><rect class="ground" width="100%" height="100%"/>{"".join(lines)}</svg>\n'
    )


def _response(
    row: dict, away: list[float], plain: float, labels: tuple[Label, ...], y: float, size: Size
) -> tuple[list[str], float]:
    """What is drawn of a response below ``y``, and where it ends. A correct one's bars stand above its text, a wrong
    one's below it."""
    is_correct = row["correct"]
    name = f"{'correct' if is_correct else 'wrong'} response, GRPO's advantage {plain:+.2f}".replace("-", "−")
    drawn = [_text(8, y + 24, name, size, "more" if is_correct else "blame", bold=True)]
    y += 34
    for line in _lines(row["tokens"], size):
        heights = {token: min(BARS, abs(away[token]) * UNIT) for token, _, _ in line}
        remarks = [(x, label.text) for token, x, _ in line for label in labels if label.token == token]
        room = max(heights.values()) + (size.font + 8 if remarks else 0)
        base, text = (y + room, y + room + size.font + 6) if is_correct else (y + size.font + 8, y + size.font)
        drawn.append(f'<line x1="8" x2="{size.width - 8}" y1="{base:.1f}" y2="{base:.1f}"/>')
        for token, x, width in line:
            kind = ("more" if is_correct else "blame") if (away[token] > 0) is is_correct else "less"
            top = base - heights[token] if away[token] > 0 else base
            drawn.append(
                f'<rect class="{kind}" x="{x + 0.5:.1f}" y="{top:.1f}" width="{width - 1:.1f}" '
                f'height="{heights[token]:.1f}"/>'
            )
            shown = html.escape(_shown(row["tokens"][token]))
            drawn.append(f'<text class="token" x="{x + 1:.1f}" y="{text:.1f}" font-size="{size.font}">{shown}</text>')
        for x, remark in remarks:
            wide = 0.51 * size.font * len(remark)
            x = min(x, size.width - 8 - wide)
            highest = max(heights[token] for token, left, width in line if left < x + wide and left + width > x)
            at = base - highest - 7 if is_correct else base + highest + size.font + 3
            drawn.append(_text(x, at, remark, size, "more" if is_correct else "blame"))
        y = (text if is_correct else base + room) + 12
    return drawn, y


def _lines(tokens: list[str], size: Size) -> Iterator[list[tuple[int, float, float]]]:
    """The tokens as lines of (place, x, width)."""
    line: list[tuple[int, float, float]] = []
    x = 8.0
    for place, token in enumerate(tokens):
        width = size.letter * len(_shown(token)) + 2
        if x + width > size.width - 8:
            yield line
            line, x = [], 8.0
        line.append((place, x, width))
        x += width
    yield line


def _wrapped(text: str, size: Size) -> Iterator[str]:
    line = ""
    for word in text.split():
        if len(line) + len(word) + 1 > size.width / (0.64 * size.font):
            yield line
            line = ""
        line = f"{line} {word}".strip()
    yield line


def _text(x: float, y: float, text: str, size: Size, kind: str = "", bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" font-size="{size.font}"{weight}>{html.escape(text)}</text>'


def _question(row: dict) -> str:
    return row["prompt"].split("<|im_start|>user\n")[-1].split("<|im_end|>")[0]


def _shown(token: str) -> str:
    return token.replace("\n", "⏎").replace("<|im_end|>", "■").replace(" ", "\u00a0")  # a space that is drawn


if __name__ == "__main__":
    group = [json.loads(line) for line in (DOCS / "examples" / "group.jsonl").read_text("utf-8").splitlines()]
    for name, size in SIZES.items():
        (DOCS / name).write_text(picture(group, size), "utf-8")
