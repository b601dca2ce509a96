"""Responses as rollout actors return them, and our generator and experience maker over them, without a model or an
engine."""

import copy
import functools
import random
from types import SimpleNamespace
from typing import Any

import torch
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker
from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator

from openrlhf_gtpo.batch import RolloutBatch
from openrlhf_gtpo.controller.experience import ExperienceMaker
from openrlhf_gtpo.controller.generator import Generator
from openrlhf_gtpo.flags import whole_updates

from ..conftest import nested

G = 4


FLAGS = "--algo.kl.init_coef 0 --actor.num_gpus_per_node 2 --actor.eps_clip_low_high 0.2 0.28 --data.max_len 64"


FLAGS += f" --rollout.n_samples_per_prompt {G} --rollout.max_new_tokens 12 --rollout.max_tokens_per_gpu 64"


FLAGS += f" --rollout.micro_batch_size 1 --train.batch_size {G} --reward.remote_url http://127.0.0.1:1"


given = functools.cache(lambda: nested("--algo.advantage.estimator", "gtpo", *FLAGS.split()))


def flat(args: Any, group: str = "") -> dict[str, Any]:
    """The flags of nested arguments."""
    found: dict[str, Any] = {}
    for name, value in vars(args).items():
        found |= flat(value, f"{group}{name}.") if isinstance(value, SimpleNamespace) else {f"{group}{name}": value}
    return found


def arguments(estimator: str = "gtpo", **changes: Any) -> Any:
    """OpenRLHF's nested arguments. ``reward__overlong_buffer_len=2`` sets one."""
    args = copy.deepcopy(given())
    unset = dict.fromkeys(("logger__metrics_path", "rollout__vllm_generate_batch_size"))
    for path, value in {**unset, "algo__advantage__estimator": estimator, **changes}.items():
        *groups, name = path.split("__")
        setattr(functools.reduce(getattr, groups, args), name, value)
    args.whole_updates = whole_updates(flat(args))
    return args


def maker(args: SimpleNamespace, decoded: list[int] | None = None) -> ExperienceMaker:
    """Ours, whose tokenizer notes in ``decoded`` what it is asked for."""

    def decode(tokens: list[int]) -> str:
        (token,) = tokens
        if decoded is not None:
            decoded.append(token)
        return f"<{token}>"

    tokenizer = SimpleNamespace(pad_token_id=0, decode=decode)
    controller = SimpleNamespace(value=0.0)
    return ExperienceMaker.like(
        RemoteExperienceMaker(None, None, None, None, controller, SimpleNamespace(args=args), tokenizer)
    )


def generator(args: SimpleNamespace) -> Generator:
    return Generator.like(SamplesGenerator(SimpleNamespace(args=args), None, None, None, []))


def response(
    prompt: str,
    prompt_length: int,
    entropy: list[float],
    score: float | None,
    *,
    truncated: bool = False,
    gap: int = 0,
    error: str | None = None,
    answer_end: int | None = None,
) -> dict[str, Any]:
    """What a rollout actor returns. ``gap`` tokens of a tool's answer stand after the first two response tokens;
    ``answer_end`` counts the response's tokens up to its answer."""
    n, first = len(entropy), prompt_length
    ranges = [(first, first + n)] if not gap else [(first, first + 2), (first + 2 + gap, first + n + gap)]
    total = prompt_length + n + gap
    entropy_T = [0.0] * total
    values = iter(entropy)
    for start, end in ranges:
        for t in range(start, end):
            entropy_T[t] = next(values)
    return {
        "prompt": prompt,
        "label": "7",
        "images": None,
        "observation_tokens": list(range(1, total + 1)),
        "action_ranges": ranges,
        "rollout_log_probs": None,
        "truncated": truncated,
        "reward": score,
        "scores": score,
        "extra_logs": {},
        "entropy": entropy_T,
        "logprob": [-0.5] * total,
        "answer_end": total if answer_end is None else prompt_length + answer_end,
        "reward_error": error,
        "reward_refused": False,
        "verdict": "no_answer",
        "reward_seconds": 0.25,
        "generated_at": 1000.0 + len(entropy),
        "place": 0,
    }


def rollout(seed: int = 0, groups: int = 6) -> list[dict[str, Any]]:
    """Groups of different prompt lengths, response lengths and pass rates; one response has a gap, one is empty."""
    rng = random.Random(seed)
    found = []
    for g in range(groups):
        prompt_length = rng.randint(2, 9)
        for i in range(G):
            entropy = [rng.uniform(0.01, 2.0) for _ in range(rng.randint(3, 12))]
            score = float(i < g % (G + 1))
            gap = 3 if (g, i) == (1, 0) else 0
            found.append(response(f"prompt {g}", prompt_length, [] if (g, i) == (3, 3) else entropy, score, gap=gap))
    return found


class Step:
    """Responses through OpenRLHF's splitting and our maker, up to the policy's updates."""

    def __init__(
        self,
        args: SimpleNamespace,
        responses: list[dict[str, Any]],
        actor_logprob: float = -0.5,
        decoded: list[int] | None = None,
        step: int = 0,
    ) -> None:
        self.generator, self.maker = generator(args), maker(args, decoded)
        answers = [self.generator._process_response_into_experience(r, max_len=64) for r in responses]
        batch = RolloutBatch(self.generator._groups(answers, G), step=step)
        self.experiences = self.maker.split_rollout_samples(batch)
        for experience in self.experiences:
            experience.action_log_probs = torch.full(experience.action_mask.shape, actor_logprob)
            experience.kl = torch.zeros(experience.action_mask.shape)
        self.experiences = self.maker.compute_advantages_and_returns(self.experiences)
        self.metrics = batch.metrics


def advantages_by_response(
    args: SimpleNamespace, responses: list[dict[str, Any]], **options: Any
) -> list[torch.Tensor]:
    """Each response's advantages on its own tokens, in rollout order; ``options`` as for `Step`."""
    found: dict[int, torch.Tensor] = {}
    for experience in Step(args, responses, **options).experiences:
        assert experience.advantages.shape == experience.action_mask.shape
        assert experience.returns is None, "a critic alone reads them, and there is none"
        assert not {"entropy", "logprob"} & set(experience.info), "per-token tensors would break the actor's logging"
        if args.algo.advantage.estimator != "group_norm":
            assert (experience.advantages[~experience.action_mask.bool()] == 0).all()
        for i, row in enumerate(experience.index):
            found[row] = experience.advantages[i][experience.action_mask[i].bool()]
    return [found[row] for row in range(len(responses))]


def made(cls: type, **attributes: Any) -> Any:
    """An instance without its constructor."""
    new = object.__new__(cls)
    vars(new).update(attributes)
    return new
