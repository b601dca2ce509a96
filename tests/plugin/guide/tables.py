"""A policy and a guide that answer from tables: engines as OpenRLHF's loop sees them, in one process and without Ray.

Everything between the engines and the policy's loss is the real thing."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator

from openrlhf_gtpo.batch import Group, RolloutBatch
from openrlhf_gtpo.controller.generator import Generator

from ..controller.batches import arguments, response

G = 4
MAX_LEN = 64


@dataclass
class Reference:
    """Stands in for Ray's: the value is there already."""

    value: Any


def without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ray.get` and `ray.wait` of `Reference`s."""

    def get(references: Any) -> Any:
        return [get(one) for one in references] if isinstance(references, list) else references.value

    def wait(references: list[Any], num_returns: int = 1, timeout: float | None = None) -> Any:
        return references[:num_returns], references[num_returns:]

    monkeypatch.setattr(ray, "get", get)
    monkeypatch.setattr(ray, "wait", wait)


class Engine:
    """A rollout actor: prompt -> its responses. Keeps what it is told to do in ``log``, which engines may share."""

    def __init__(self, answers: dict[str, list[dict[str, Any]]], name: str = "policy", log: Any = None) -> None:
        self.answers = answers
        self.name = name
        self.log: list[tuple[str, str]] = [] if log is None else log
        self.arguments: list[dict[str, Any]] = []

    def __getattr__(self, method: str) -> Any:
        def remote(**arguments: Any) -> Reference:
            if method == "get_num_unfinished_requests":
                return Reference(0)
            self.log.append((self.name, f"{method} {arguments['prompt']}" if arguments else method))
            if not arguments:
                return Reference(None)
            self.arguments.append(arguments)
            place = arguments.get("place")  # of a prompt of the policy
            return Reference([{**one, "place": place} for one in self.responses(arguments)])

        return SimpleNamespace(remote=remote)

    def responses(self, arguments: dict[str, Any]) -> list[dict[str, Any]]:
        return self.answers[arguments["prompt"]]

    @property
    def asked(self) -> list[str]:
        """The prompts."""
        return [arguments["prompt"] for arguments in self.arguments]


def said(prompt: str, scores: Sequence[float | None], who: str = "policy", *, truncated: bool = False) -> list[Any]:
    """Responses of a rollout actor to one prompt, of different lengths, whose labels tell them apart.

    A score of None is a reward that failed. ``old`` and ``new``: log-probabilities of the tokens by the policy before
    and in an update.
    """
    rng = random.Random(f"{prompt} {who}")
    found = []
    prompt_length = rng.randint(2, 7)
    for i, score in enumerate(scores):
        tokens = rng.randint(2, 9)
        entropy = [rng.uniform(0.01, 2.0) for _ in range(tokens)]
        error = None if score is not None else "http://127.0.0.1:1 is gone."
        one = response(prompt, prompt_length, entropy, score, truncated=truncated, error=error)
        one["label"] = f"{prompt} {who} {i}"
        one["logprob"] = [0.0] * prompt_length + [rng.uniform(-1.5, -0.1) for _ in range(tokens)]
        one["old"] = [value + rng.uniform(-0.1, 0.1) for value in one["logprob"][prompt_length:]]
        one["new"] = [value + rng.uniform(-0.5, 0.5) for value in one["logprob"][prompt_length:]]
        found.append(one)
    return found


def guided(model: str | None = "guide", **changes: Any) -> SimpleNamespace:
    """OpenRLHF's nested arguments with a guide, on one rank and with updates of single responses: no fillers."""
    defaults = {
        "guide__model": model,
        "guide__when": ["all"],
        "train__batch_size": 1,
        "actor__num_gpus_per_node": 1,
        "algo__dynamic_filtering_range": (0, 1),
        "rollout__batch_size": 2,
    }
    return arguments(**{**defaults, **changes})


def generator(
    args: SimpleNamespace, guide: Sequence[Engine], engines: Sequence[Engine] = (), prompts: Sequence[str] = ()
) -> Any:
    """Our generator over OpenRLHF's, with a guide where the arguments name one.

    Args:
        args: of the run.
        guide: the guide's engines.
        engines: the policy's.
        prompts: of the data set.
    """
    data = [(None, [prompt], ["7"], [None]) for prompt in prompts]
    tokenizer = SimpleNamespace(decode=lambda tokens, **_: f"{len(tokens)} tokens")
    new = Generator.like(SamplesGenerator(SimpleNamespace(args=args), data, None, tokenizer, list(engines)))
    if new.guide is not None:
        new.guide.engines, new.guide.tokenizer = guide, "the policy's tokenizer"
    return new


def joined(args: SimpleNamespace, groups: Sequence[list[Any]], guide: dict[str, Any]) -> tuple[RolloutBatch, Any]:
    """The rollout batch of these groups, with what a guide says to their prompts, and the guide, if there is one."""
    generate = generator(args, [Engine(guide, "guide")])
    kept = []
    for place, group in enumerate(groups):
        own = [generate._process_response_into_experience({**one, "place": place}, max_len=MAX_LEN) for one in group]
        scores = [one["scores"] for one in group]
        if not args.algo.dynamic_filtering_enable or 0 < sum(scores) < len(scores):
            kept.append(Group(own))
    return generate._batch(kept), generate.guide


def marks(batch: RolloutBatch) -> list[tuple[int, bool, bool, bool]]:
    """Of each response: its group, and whether it is of the second batch, a filler, the guide's."""
    columns = (batch.group, batch.second, batch.filler, batch.guide)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def labels(batch: RolloutBatch) -> list[str]:
    return [response.returned["label"] for response in batch.responses]


def names(prompt: str, who: str, count: int) -> list[str]:
    """Of what `said` makes."""
    return [f"{prompt} {who} {i}" for i in range(count)]


RIGHT, LOST, NONE = [1.0] * G, [1.0, 1.0, None, 1.0], [None] * G


def over(prompts: str, lost: str = "", answers: Any = None, **changes: Any) -> Generator:
    """A generator over prompts of one letter each, of which some lost a reward, those in capitals all of them."""
    fates = {prompt: NONE if prompt.isupper() else LOST if prompt in lost else RIGHT for prompt in prompts}
    told = {prompt: said(prompt, scores) for prompt, scores in fates.items()}
    changes = {"rollout__batch_size": len(prompts), **changes}
    return generator(guided(model=None, **changes), None, [Engine(told | (answers or {}))], prompts)
