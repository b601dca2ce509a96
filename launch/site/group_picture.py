"""Draws one group of a language model as GRPO and as GTPO see it: a token's advantage as its colour, and its entropy.

    python launch/site/group_picture.py     # docs/examples/group.jsonl -> docs/group.svg

The rows are those that `MODEL=smollm2 bash launch/quickstart.sh` saved (``--shaping.save_rollouts``): step 8, group 6.
The advantages are calculated here, of all eight with the functions of the trainer; the first of each kind are drawn.
"""

import html
import json
from pathlib import Path

import torch

from openrlhf_gtpo.shaping import gtpo

DOCS = Path(__file__).resolve().parents[2] / "docs"
CHARACTER, LINE, LEFT, TOP = 9.2, 26, 176, 84
BLUE, ORANGE, GREY = (0, 114, 178), (213, 94, 0), (90, 90, 90)  # told apart with any eyes
DRAWN = {True: 2, False: 1}
"""Responses, correct and wrong."""


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

    lines: list[str] = []
    y, drawn = TOP, {True: 0, False: 0}
    width = 0.0
    for row, one, many in zip(rows, plain, shaped, strict=True):
        drawn[row["correct"]] += 1
        if drawn[row["correct"]] > DRAWN[row["correct"]]:
            continue
        name = "correct" if row["correct"] else "wrong"
        lines.append(f'<text x="8" y="{y + LINE}" class="name">{name}</text>')
        count = len(row["tokens"])
        lines += _tokens(row["tokens"], row["entropy"], float(entropy.max()), y, "entropy", GREY, " nats")
        for method, values in (("GRPO", [float(one)] * count), ("GTPO", many[:count].tolist())):
            y += LINE
            colour = BLUE if row["correct"] else ORANGE
            lines += _tokens(row["tokens"], values, most[row["correct"]], y, method, colour)
        y += LINE + 14
        width = max(width, LEFT + sum(map(_width, row["tokens"])) + 12)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {y}" width="{width:.0f}" role="img">'
        "<title>Responses of one group: each token's entropy, GRPO's one advantage for all, GTPO's for each</title>"
        "<style>text{font:15px monospace;fill:#222} .name,.what{font-family:sans-serif} .what{font-size:14px}</style>"
        f'<rect width="100%" height="100%" fill="#fff"/>'
        f'<text x="8" y="24" class="name" font-weight="bold">{html.escape(_question(rows[0]))}</text>'
        '<text x="8" y="48" class="what">Grey: entropy. Blue: this token is made more likely, orange: less. Stronger '
        "is more.</text>"
        '<text x="8" y="67" class="what">Three of eight responses; the others count in GTPO\'s shares too.</text>'
    )
    return head + "".join(lines) + "</svg>\n"


def _question(row: dict) -> str:
    asked = row["prompt"].split("<|im_start|>user\n")[-1].split("<|im_end|>")[0]
    return f"{asked} (The answer is {row['label']}.)"


def _shown(token: str) -> str:
    return token.replace("\n", "⏎").replace("<|im_end|>", "■").replace(" ", "\u00a0")  # a space that is drawn


def _width(token: str) -> float:
    return CHARACTER * len(_shown(token)) + 3


def _tokens(
    tokens: list[str],
    values: list[float],
    most: float,
    y: float,
    what: str,
    strongest: tuple[int, int, int],
    unit: str = "",
) -> list[str]:
    drawn = [f'<text x="{LEFT - 56}" y="{y + 18}" class="what">{what}</text>']
    x = float(LEFT)
    for token, value in zip(tokens, values, strict=True):
        shown = _shown(token)
        share = min(1.0, abs(value) / most)
        colour = "rgb({},{},{})".format(*(round(255 - share * (255 - part)) for part in strongest))
        ink = "#fff" if share > 0.6 else "#222"
        wide = _width(token)
        drawn.append(
            f"<g><title>{html.escape(shown)}: {value:.2f}{unit}</title>"
            f'<rect x="{x:.1f}" y="{y + 2}" width="{wide:.1f}" height="{LINE - 4}" fill="{colour}"/>'
            f'<text x="{x + 1.5:.1f}" y="{y + 18}" style="fill:{ink}">'
            f"{html.escape(shown)}</text></g>"
        )
        x += wide
    return drawn


if __name__ == "__main__":
    group = [json.loads(line) for line in (DOCS / "examples" / "group.jsonl").read_text("utf-8").splitlines()]
    (DOCS / "group.svg").write_text(picture(group), "utf-8")
