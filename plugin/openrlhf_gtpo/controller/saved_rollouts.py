"""Runs in the controller: writes some groups of each step, token by token, for the report's token view."""

import functools
import json
from typing import Any

import torch

from openrlhf_gtpo.algorithms.groups import per_group
from openrlhf_gtpo.batch.transformation import Transformation
from openrlhf_gtpo.batch.whole_batch import WholeBatch
from openrlhf_gtpo.controller.rollouts_file import rollouts_path, thinned


class SavedRollouts(Transformation):
    """Changes nothing: some groups of each step, written token by token."""

    def __init__(self, args: Any, tokenizer: Any) -> None:
        self.path, self.groups = rollouts_path(args.plugin), args.plugin.groups_saved
        self.tokenizer = tokenizer

    def before_updates(self, batch: WholeBatch) -> None:
        """Append groups to the file, one response a line. Groups with both correct and wrong responses come first. A
        file that has become too large loses steps, which a line on standard output says."""
        correct, shaped_rewards = batch.correct, batch.shaped_rewards
        real = slice(None) if batch.grouped is None else batch.grouped
        sizes = batch.group[real].bincount()
        informative = torch.zeros_like(sizes, dtype=torch.bool)
        if correct is not None:
            hits = per_group(correct[real].long(), batch.group[real])
            informative = (hits > 0) & (hits < sizes)
        chosen = informative.long().argsort(descending=True, stable=True)[: self.groups].tolist()
        place = {int(row): (m, i) for m, rows in enumerate(batch.order) for i, row in enumerate(rows)}
        text_of = functools.cache(lambda token: self.tokenizer.decode([token]))  # most tokens occur many times
        with self.path.open("a") as file:
            for group in chosen:
                for row in (batch.group == group).nonzero().flatten().tolist():
                    m, i = place[row]
                    experience, mask = batch.experiences[m], batch.mask[row]
                    tokens = experience.sequences[i, 1:][mask[: experience.action_mask.shape[1]]].tolist()
                    line = {
                        "step": batch.step,
                        "group": group,
                        "prompt": experience.prompts[i],
                        "label": experience.labels[i],
                        "correct": None if correct is None else bool(correct[row]),
                        "guide": False,
                        **{name: bool(values[row]) for name, values in batch.saved_marks.items()},
                        "tokens": [text_of(token) for token in tokens],
                        "entropy": _significant(batch.entropy[row][mask]),
                        "shaped_reward": None if shaped_rewards is None else _significant(shaped_rewards[row][mask]),
                        "advantage": _significant(batch.advantages[row][mask]),
                    }
                    file.write(json.dumps(line) + "\n")
        if said := thinned(self.path):
            print(said, flush=True)


def _significant(values: torch.Tensor) -> list[float]:
    """Rounded to float32's seven digits. Fixed decimals would lose small entropies, whose inverse is used."""
    return [float(f"{value:.7g}") for value in values.tolist()]
