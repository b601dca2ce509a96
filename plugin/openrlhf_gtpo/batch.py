"""The batch of a step, from the rollout actors' responses to advantages: groups of responses, cut or filled to whole
updates here alone, and the (N, T) tensors that estimators, metrics and files read.

OpenRLHF's `Experience` is made of it at the end (`openrlhf_gtpo.controller.micro_batches`)."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from openrlhf_gtpo.errors import UserError


class NotBinary(UserError):
    """A score is neither that of a correct nor that of a wrong response."""


@dataclass(frozen=True, eq=False)
class Response:
    """One response, of L tokens with its prompt."""

    returned: dict[str, Any]
    """What the rollout actor returned, see `openrlhf_gtpo.rollout.actor`."""
    max_len: int
    """Tokens that are kept; OpenRLHF cuts off the others."""
    place: tuple[int, int] = (0, 0)
    """The batch for which its prompt was drawn, and the prompt's place there: the same in a whole group, the guide's
    responses included, and in no other."""

    @property
    def scores(self) -> torch.Tensor | None:
        """(1,), as OpenRLHF's dynamic filtering reads it; None where its reward failed or comes later."""
        score = self.returned.get("scores")
        return None if score is None else torch.tensor([score])

    @property
    def is_correct(self) -> bool:
        return self.returned["scores"] == 1

    @property
    def has_reward(self) -> bool:
        return self.returned["reward"] is not None

    @cached_property
    def mask(self) -> torch.Tensor:
        """(L - 1,) bool, of the tokens after the first: the policy's own."""
        mask = torch.zeros(len(self.returned["observation_tokens"]), dtype=torch.bool)
        for start, end in self.returned["action_ranges"]:
            mask[start:end] = True
        return mask[1 : self.max_len]

    def of_tokens(self, name: str) -> torch.Tensor:
        """(L - 1,) an entry that has a value for each token, without the first's."""
        return torch.tensor(self.returned[name][1 : self.max_len])  # a copy, since Ray's arrays are read-only

    def beginning(self) -> "Response":
        """It, cut after its first token."""
        end = int(self.mask.long().argmax()) + 2
        changes: dict[str, Any] = {"action_ranges": [(end - 1, end)] if self.mask.any() else []}
        for name in ("observation_tokens", "entropy", "logprob", "rollout_log_probs"):
            changes[name] = None if self.returned[name] is None else self.returned[name][:end]
        return dataclasses.replace(self, returned={**self.returned, **changes})


@dataclass(eq=False)
class Group:
    """The responses to one prompt."""

    policy: list[Response]
    guide: list[Response] = field(default_factory=list)
    is_second: bool = False
    """Whether it is of a guide's second batch (`openrlhf_gtpo.algorithms.mixed_policy`)."""

    @property
    def responses(self) -> list[Response]:
        return [*self.policy, *self.guide]


@dataclass(eq=False)
class RolloutBatch:
    """The responses of a step: N rows, group after group, and T columns for the tokens after the first of a sequence.

    It may be cut or filled until a first tensor is asked for. All but what the policy's ranks and an estimator compute
    follows from the responses.
    """

    groups: list[Group]
    fillers: list[Response] = field(default_factory=list)
    """Responses of one token, of no group and off the mask, that make updates whole."""
    step: int = 0
    """The global step that it is of."""
    seed: int = 0
    """Of whatever is drawn for this batch: another one at each step of a run, the same one when a step is repeated."""
    reward_clip: tuple[float, float] = (-torch.inf, torch.inf)
    """OpenRLHF's bounds of a normalised reward (``--reward.clip_range``), for GRPO, which is OpenRLHF's."""
    metrics: dict[str, float] = field(default_factory=dict)
    """What was measured of this batch, by names that docs/metrics.md describes."""
    actor_logprob: torch.Tensor = field(init=False)
    """(N, T) float, by the policy's ranks."""
    advantages: torch.Tensor = field(init=False)
    """(N, T) float, by an estimator."""
    shaped_rewards: torch.Tensor | None = None
    """(N, T) float, where the estimator shapes rewards token by token."""

    def __len__(self) -> int:
        return len(self.responses)

    def cut(self, whole: int) -> int:
        """Leave out the last groups, so that the others fill whole updates of every rank.

        Args:
            whole: the number of responses that has to divide the batch (`openrlhf_gtpo.flags.whole_updates`).

        Returns:
            How many responses were left out.
        """
        before = len(self)
        while len(self) % whole:
            self.groups.pop()
        return before - len(self)

    def fill(self, whole: int) -> None:
        """Add fillers up to whole updates of every rank: copies of a response that is cut after its first token.

        Their advantage is 0, and our metrics leave them out. OpenRLHF's own means over the trained responses include
        them, and so do KL and entropy terms of the loss, with one token each.
        """
        # A filler counts as one token, so it has to come from a response with tokens, if there is one.
        spoken = [response for response in self.responses if response.mask.any()] or self.responses
        beginnings = [response.beginning() for response in spoken]
        beginnings.sort(key=lambda response: len(response.returned["observation_tokens"]))
        self.fillers = beginnings[:1] * (-len(self) % whole)

    def free(self) -> None:
        """Let go of all but the metrics, which is gigabytes that OpenRLHF would hold until it has the next batch."""
        metrics = self.metrics
        vars(self).clear()
        self.metrics = metrics

    @property
    def responses(self) -> list[Response]:
        """(N,) in the order of the rows."""
        return [*(response for group in self.groups for response in group.responses), *self.fillers]

    @cached_property
    def group(self) -> torch.Tensor:
        """(N,) int from 0, which prompt each response answers. A group may have any size; fillers are the last."""
        sizes = [*(len(group.responses) for group in self.groups), len(self.fillers)]
        return torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))

    @cached_property
    def filler(self) -> torch.Tensor:
        """(N,) bool."""
        return self.group == len(self.groups)

    @cached_property
    def second(self) -> torch.Tensor:
        """(N,) bool, the responses of a guide's second batch."""
        return torch.tensor([*(group.is_second for group in self.groups), False])[self.group]

    @cached_property
    def guide(self) -> torch.Tensor:
        """(N,) bool, the guide's responses."""
        whose = [[False] * len(group.policy) + [True] * len(group.guide) for group in self.groups]
        return torch.tensor([*(one for group in whose for one in group), *([False] * len(self.fillers))])

    @property
    def counted(self) -> torch.Tensor | slice:
        """An index of the responses that metrics are of: the policy's own in the first batch, or in the second if the
        first has none. A slice copies nothing."""
        own = ~self.guide & ~self.filler
        first = own & ~self.second
        counted = first if first.any() else own
        return slice(None) if counted.all() else counted

    @cached_property
    def mask(self) -> torch.Tensor:
        """(N, T) bool, the responses' tokens."""
        return self._table(lambda response: response.mask)

    @cached_property
    def entropy(self) -> torch.Tensor:
        """(N, T) float, nats, of the distribution that each token was sampled from; 0 off the mask."""
        return self._table(lambda response: response.of_tokens("entropy"))

    @cached_property
    def logprob(self) -> torch.Tensor:
        """(N, T) float, of each token in that distribution: the policy's own, or the guide's; 0 off the mask."""
        return self._table(lambda response: response.of_tokens("logprob"))

    def _table(self, of: Callable[[Response], torch.Tensor]) -> torch.Tensor:
        table = pad_sequence([of(response) for response in self.responses], batch_first=True)
        return table.masked_fill_(self.filler[:, None], 0)

    @cached_property
    def after_answer(self) -> torch.Tensor:
        """(N, T) bool, the tokens after the answer that was graded; none where nobody says where it stands."""
        ends = torch.tensor([response.returned["answer_end"] for response in self.responses])
        return self.mask & (torch.arange(1, self.mask.shape[1] + 1) >= ends[:, None])

    @cached_property
    def scores(self) -> torch.Tensor | None:
        """(N,) float, or None if one is missing."""
        scores = [response.returned.get("scores") for response in self.responses]
        return None if None in scores else torch.tensor(scores, dtype=torch.float32)

    @cached_property
    def correct(self) -> torch.Tensor | None:
        """(N,) bool, verified correctness; None where scores are not binary."""
        try:
            return correctness(self.scores)
        except NotBinary:
            return None

    @cached_property
    def given_reward(self) -> torch.Tensor:
        """(N,) float, before any penalty."""
        return torch.tensor([response.returned["reward"] for response in self.responses], dtype=torch.float32)

    @cached_property
    def reward(self) -> torch.Tensor:
        """(N,) float, with every penalty."""
        return self.given_reward

    @property
    def penalty(self) -> torch.Tensor:
        """(N,) float, the part of the reward that is penalties."""
        return self.reward - self.given_reward


def correctness(scores: torch.Tensor | None) -> torch.Tensor:
    """Which responses are verified as correct, (N,) bool.

    Args:
        scores: (N,), 1 for correct, and 0 or -1 for wrong.

    Raises:
        NotBinary: there are no scores, or other values.
    """
    fix = "make the reward function or service return 'scores' of 0 or 1 beside 'rewards'"
    if scores is None:
        raise NotBinary(f"GTPO and GRPO-S need verified correctness, but the rewards came without scores: {fix}.")
    strange = scores[(scores != 0) & (scores != 1) & (scores != -1)]
    if strange.numel():
        raise NotBinary(f"GTPO and GRPO-S need verified correctness, but a score is {strange[0].item():g}: {fix}.")
    return scores == 1
