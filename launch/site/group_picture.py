"""Draws one group of the quickstart as GRPO and as GTPO see it: a token's advantage as its colour.

    python launch/site/group_picture.py     # docs/examples/group.jsonl -> docs/group.svg

The rows are those that the run saved (``--shaping.save_rollouts``): step 11, group 4. The advantages are calculated
here, with the functions of the trainer.
"""

import html
import json
from collections import Counter
from pathlib import Path

import torch

from openrlhf_gtpo.shaping import gtpo

DOCS = Path(__file__).resolve().parents[2] / "docs"
CHARACTER, LINE, LEFT, TOP = 9.2, 26, 176, 84
BLUE, ORANGE = (0, 114, 178), (213, 94, 0)  # told apart with any eyes


def picture(rows: list[dict]) -> str:
    """The picture as SVG. ``rows``: the responses of one group, as a run saves them."""
    correct = torch.tensor([row["correct"] for row in rows])
    longest = max(len(row["tokens"]) for row in rows)
    mask = torch.tensor([[t < len(row["tokens"]) for t in range(longest)] for row in rows])
    entropy = torch.zeros(len(rows), longest)
    for row, line in zip(rows, entropy, strict=True):
        line[: len(row["tokens"])] = torch.tensor(row["entropy"])
    shaped = gtpo(entropy, mask, correct, torch.zeros(len(rows), dtype=torch.long)).advantages
    rewards = correct.float()
    plain = (rewards - rewards.mean()) / rewards.std()
    # Each class has a colour; the strongest of it is the largest advantage of either method.
    most = {is_correct: float(shaped[correct == is_correct].abs().max()) for is_correct in (True, False)}

    copies = Counter("".join(row["tokens"]) for row in rows)
    lines: list[str] = []
    y = TOP
    for row, one, many in zip(rows, plain, shaped, strict=True):
        times = copies.pop("".join(row["tokens"]), 0)
        if not times:
            continue
        name = ("correct" if row["correct"] else "wrong") + (f", {times} times" if times > 1 else "")
        lines.append(f'<text x="8" y="{y + LINE}" class="name">{name}</text>')
        count = len(row["tokens"])
        for method, values in (("GRPO", [float(one)] * count), ("GTPO", many[:count].tolist())):
            lines += _tokens(row["tokens"], values, most[row["correct"]], y, method)
            y += LINE
        y += 14
    width = LEFT + max(sum(map(_width, row["tokens"])) for row in rows) + 12
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {y}" width="{width:.0f}" role="img">'
        "<title>The same group with GRPO, one advantage for each response, and with GTPO, one for each token</title>"
        "<style>text{font:15px monospace;fill:#222} .name,.what{font-family:sans-serif} .what{font-size:14px}</style>"
        f'<rect width="100%" height="100%" fill="#fff"/>'
        f'<text x="8" y="24" class="name" font-weight="bold">{html.escape(_question(rows[0]))}</text>'
        '<text x="8" y="48" class="what">Blue: this token is made more likely, orange: less. Darker is more. Two lines'
        "</text>"
        '<text x="8" y="67" class="what">for each response: GRPO above, GTPO below.</text>'
    )
    return head + "".join(lines) + "</svg>\n"


def _question(row: dict) -> str:
    asked = row["prompt"].split("<|im_start|>user\n")[-1].split("<|im_end|>")[0]
    return f"{asked} (The answer is {row['label']}.)"


def _shown(token: str) -> str:
    return token.replace("\n", "⏎").replace("<|im_end|>", "■")


def _width(token: str) -> float:
    return CHARACTER * len(_shown(token)) + 3


def _tokens(tokens: list[str], values: list[float], most: float, y: float, method: str) -> list[str]:
    drawn = [f'<text x="{LEFT - 44}" y="{y + 18}" class="what">{method}</text>']
    x = float(LEFT)
    for token, value in zip(tokens, values, strict=True):
        shown = _shown(token)
        share = min(1.0, abs(value) / most)
        strongest = BLUE if value > 0 else ORANGE
        colour = "rgb({},{},{})".format(*(round(255 - share * (255 - part)) for part in strongest))
        ink = "#fff" if share > 0.6 else "#222"
        wide = _width(token)
        drawn.append(
            f'<g><title>{html.escape(shown)}: {value:+.2f}</title><rect x="{x:.1f}" y="{y + 2}" width="{wide:.1f}" '
            f'height="{LINE - 4}" fill="{colour}"/><text x="{x + 1.5:.1f}" y="{y + 18}" style="fill:{ink}">'
            f"{html.escape(shown)}</text></g>"
        )
        x += wide
    return drawn


if __name__ == "__main__":
    group = [json.loads(line) for line in (DOCS / "examples" / "group.jsonl").read_text("utf-8").splitlines()]
    (DOCS / "group.svg").write_text(picture(group), "utf-8")
