"""Runs in the controller: between the (N, T) of a rollout batch and OpenRLHF's micro-batches of B responses and A
action columns, which come padded to their own widths and in any order."""

import logging
from collections.abc import Sequence
from typing import Any

import torch
from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator

from openrlhf_gtpo.batch import Response, RolloutBatch

logger = logging.getLogger(__name__)


def experience_of(response: Response) -> Experience:
    """OpenRLHF's own, of one response: (1, L), made by its method, which reads nothing of its object."""
    make: Any = SamplesGenerator._process_response_into_experience
    return make(None, response.returned, max_len=response.max_len)


def experiences_of(batch: RolloutBatch) -> list[Experience]:
    """(N,) one for each response. A log that some responses lack is left out: OpenRLHF cannot batch it."""
    samples = [experience_of(response) for response in batch.responses]
    common = set.intersection(*(set(sample.info) for sample in samples))
    for name in {name for sample in samples for name in sample.info} - common:
        logger.warning("extra_logs[%r] is missing from some responses and is not logged.", name)
    for sample in samples:
        sample.info = {name: value for name, value in sample.info.items() if name in common}
    return samples


class MicroBatches:
    """OpenRLHF's micro-batches of a rollout batch.

    Args:
        experiences: each padded to its own width, in any order; ``index`` has each response's row in the batch.
    """

    def __init__(self, experiences: Sequence[Experience]) -> None:
        self.experiences = experiences
        self._rows = [torch.tensor(experience.index) for experience in experiences]
        self._widths = [experience.action_mask.shape[1] for experience in experiences]

    def read(self, name: str) -> torch.Tensor:
        """A field of all micro-batches in float32: (N, T) if it has a value for each token, else (N,)."""
        n, is_of_tokens = sum(map(len, self._rows)), Experience.is_step_tensor_field(name)
        joined = torch.zeros((n, max(self._widths)) if is_of_tokens else n)
        for experience, rows, width in zip(self.experiences, self._rows, self._widths, strict=True):
            part = getattr(experience, name).float()
            joined[(rows, slice(width)) if is_of_tokens else rows] = part if is_of_tokens else part.flatten()
        return joined

    def split(self, values: torch.Tensor) -> list[torch.Tensor]:
        """An (N, T) or (N,) tensor as that of each micro-batch, (B, A) or (B,)."""
        if values.dim() == 1:
            return [values[rows] for rows in self._rows]
        return [values[rows, :width] for rows, width in zip(self._rows, self._widths, strict=True)]

    def write(self, name: str, values: torch.Tensor) -> None:
        """Set a field of every micro-batch."""
        for experience, part in zip(self.experiences, self.split(values), strict=True):
            setattr(experience, name, part)

    def log(self, name: str, values: torch.Tensor) -> None:
        """Have OpenRLHF log the mean of (N,) values."""
        for experience, part in zip(self.experiences, self.split(values), strict=True):
            experience.info[name] = part
