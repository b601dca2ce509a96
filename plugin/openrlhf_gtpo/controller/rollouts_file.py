"""The size of rollouts.jsonl: what to expect before a run, and the bound that it keeps to."""

import math
from pathlib import Path

from openrlhf_gtpo.controller.step_lines import keep_steps, steps_and_lines
from openrlhf_gtpo.settings import Settings

MOST_BYTES = 10**9
"""Above this size the file keeps only every second step, then every fourth, and so on."""
BYTES_A_TOKEN = 42
"""Of a token's text and three values of seven digits, measured."""


def rollouts_path(settings: Settings) -> Path:
    """The path of rollouts.jsonl, beside the metrics."""
    return settings.metrics_path.with_name("rollouts.jsonl")


def expected(settings: Settings) -> str | None:
    """How large rollouts.jsonl becomes, as a sentence's end; None where no groups are saved."""
    flags, steps = settings.flags, settings.max_steps
    groups = min(settings.groups_saved, flags["rollout.batch_size"])
    if not groups:
        return None
    responses, tokens = flags["rollout.n_samples_per_prompt"], flags["rollout.max_new_tokens"] or flags["data.max_len"]
    step = groups * responses * tokens * BYTES_A_TOKEN
    told = f"{groups} group(s) of {responses} responses a step, at most {_size(step)}"
    if steps is not None:
        told += f", so {_size(step * steps)} in {steps:,} steps"
    return f"{told}; above {_size(MOST_BYTES)} it keeps fewer steps, spread over the run"


def thinned(path: Path, most: int = MOST_BYTES) -> str | None:
    """Remove steps from the file if it is too large: what stays takes at most half of the bound.

    Of all steps every second stays, or every fourth, ..., counted from the first: they are spread evenly over the run,
    as the report shows them.

    Args:
        path: rollouts.jsonl.
        most: bytes of the bound.

    Returns:
        What was done, as a sentence; None if the file is not too large.
    """
    if path.stat().st_size <= most:
        return None
    sizes: dict[float, int] = {}
    for step, line in steps_and_lines(path):
        if math.isfinite(step):
            sizes[step] = sizes.get(step, 0) + len(line)
    every = 2
    while sum(size for step, size in sizes.items() if (step - 1) % every == 0) > most / 2 and every < max(sizes):
        every *= 2
    keep_steps(path, lambda step: (step - 1) % every == 0)
    return f"{path} reached {_size(most)}: of the steps so far it keeps one in {every}."


def _size(count: float) -> str:
    """Bytes for people: 27 MB, 1.3 GB."""
    return f"{count / 1e9:,.1f} GB" if count >= 1e9 else f"{max(1.0, count / 1e6):,.0f} MB"
