"""Groups of graded rollouts for the instruments: of any model and data, or of a finished run's; sampled by vLLM with
exact entropies, graded as training does."""

import argparse
import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from math_reward.nearest import beside
from openrlhf_gtpo import sampling
from openrlhf_gtpo.algorithms.estimators import functions_of
from openrlhf_gtpo.batch import Group, Response
from openrlhf_gtpo.data.table import Row, first_rows
from openrlhf_gtpo.data.tokenizer import end_of_turn, rendered, tokens_within, without_end
from openrlhf_gtpo.errors import SettingsError, UserError
from openrlhf_gtpo.flags import COUNT, MODE_HELP, MODES, SECONDS, number
from openrlhf_gtpo.sampling import question, say
from openrlhf_gtpo.seeds import derived
from openrlhf_gtpo.vllm_entropy import entropies_and_logprobs, sampling_kwargs

AT_ONCE = 512
"""Responses that are sampled before they are graded and progress is shown."""
OF_A_RUN = {
    "model": "ckpt.output_dir",
    "data": "data.prompt_dataset",
    "input_key": "data.input_key",
    "label_key": "data.label_key",
    "split": "data.prompt_split",
    "template": "data.input_template",
    "chat": "data.apply_chat_template",
    "n": "rollout.n_samples_per_prompt",
    "batch": "rollout.batch_size",
    "max_new_tokens": "rollout.max_new_tokens",
    "temperature": "rollout.temperature",
    "reward.mode": "reward.mode",
    "reward.remote_url": "reward.remote_url",
}
"""What ``--run`` fills in -> the run's setting."""
DEFAULTS = {"input_key": "input", "label_key": "label", "chat": True, "n": 8, "batch": 16, "max_new_tokens": 1024}
DEFAULTS |= {"temperature": 1.0, "split": "train"}


def add_flags(parser: argparse.ArgumentParser, prompts: int, what: str) -> None:
    """The flags that both instruments have."""
    add = parser.add_argument
    add("--run", type=Path, help="a finished run's folder: its policy, data and settings, where no flag names others")
    add("--model", help="the policy: a folder or a hub id")
    add("--data", help="prompts and labels: a file, a folder or a hub id")
    add("--out", type=Path, help="folder for what is written (compare or credit, in the run's folder or here)")
    add("--prompts", type=COUNT, default=prompts, help=what)
    add("--n", type=number(2, int), help="responses to each prompt (8)")
    add("--max_new_tokens", type=COUNT, help="most tokens of a response (1024)")
    add("--temperature", type=number(0, above=True), help="sampling temperature (1)")
    add("--input_key", help="column of the prompt, a text or chat messages (input)")
    add("--label_key", help="column of the reference answer (label)")
    add("--reward.mode", choices=MODES, help=MODE_HELP)
    add("--reward.remote_url", help="reward services, or FILE.py with a reward_func; without it a service is started")
    add("--reward.deadline", type=SECONDS, default=300.0, help="seconds of retries for one reward")
    add("--device", choices=["auto", "cpu", "gpu"], default="auto", help="where vLLM and the gradients are computed")
    add("--seed", type=int, default=0, help="of the sampling")


def complete(args: argparse.Namespace, command: str) -> None:
    """Fill in what the command line leaves open, from ``--run`` or the defaults; ``args`` is changed.

    Raises:
        SettingsError: there is no model, no data or no such run.
    """
    named, settings, model = vars(args), _settings(args.run) if args.run else {}, args.model
    for name, setting in OF_A_RUN.items():
        if named.get(name) is None:
            named[name] = settings.get(setting, DEFAULTS.get(name))
    if args.run and not model and not Path(str(args.model)).is_dir():  # a run that was moved
        named["model"] = str(args.run / "model")
    missing = [f"--{name}" for name in ("model", "data") if not named[name]]
    if missing:
        raise SettingsError(f"No {' and no '.join(missing)}: name it, or a finished run by --run.")
    named["out"] = args.out or (args.run or Path()) / command


def _settings(run: Path) -> dict[str, Any]:
    for path in (run / "run.json", run / "model" / "run.json"):
        if path.is_file():
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["settings"]
            return found
    raise SettingsError(f"--run {run} is no run: it has no run.json{beside(run)}.")


def table_of(args: argparse.Namespace, count: int | None = None) -> list[Row]:
    """The first rows of ``--data``; all without a count."""
    return first_rows(args.data, args, args.split, count)


@dataclass(frozen=True)
class Grade:
    """What a response is worth."""

    reward: float
    score: float
    """1 where it is right."""
    answer_end: int | None = None
    """Characters up to the end of the answer, where the grader says so."""


Grader = Callable[[Sequence[str], Sequence[Row]], list[Grade]]
"""Grades completions of the rows' prompts."""


@contextlib.contextmanager
def grader(args: argparse.Namespace) -> Iterator[Grader]:
    """What grades as training with the same ``--reward.*`` would: a service, or a function of one's own.

    Raises:
        SettingsError: the file has no reward_func, or a URL cannot be used.
    """
    url = getattr(args, "reward.remote_url")
    if url and url.endswith(".py"):
        yield _own(url)
        return
    out, deadline = args.out, getattr(args, "reward.deadline")
    with sampling.reward_client(url, "--reward.remote_url", deadline, out) as client:
        mode = getattr(args, "reward.mode")

        def grade(texts: Sequence[str], table: Sequence[Row]) -> list[Grade]:
            results = sampling.graded(client, texts, table, mode)
            return [Grade(one.reward, one.score, None if one.span is None else one.span[1]) for one in results]

        yield grade


def _own(path: str) -> Grader:
    try:
        function = functions_of(os.path.abspath(path)).get("reward_func")
    except Exception as error:  # a user's file may raise anything
        raise SettingsError(f"--reward.remote_url {path} cannot be run: {type(error).__name__}: {error}.") from error
    if not callable(function):
        raise SettingsError(f"--reward.remote_url {path} has no function reward_func: write one, or name a service.")

    def grade(texts: Sequence[str], table: Sequence[Row]) -> list[Grade]:
        prompts = [question(row) for row in table]
        queries = [prompt + text for prompt, text in zip(prompts, texts, strict=True)]
        grades = []
        for query, prompt, row in zip(queries, prompts, table, strict=True):
            try:
                returned = function([query], [prompt], [str(row.label)])
                reward = np.asarray(returned["rewards"], dtype=float).item()
                scores = returned.get("scores")
                score = reward if scores is None else np.asarray(scores, dtype=float).item()
            except Exception as error:  # a user's function may raise anything
                raise UserError(f"--reward.remote_url {path} failed: {type(error).__name__}: {error}.") from error
            grades.append(Grade(reward, score))
        return grades

    return grade


def engine(args: argparse.Namespace, device: str) -> contextlib.AbstractContextManager[Any]:
    """An engine that computes a prompt once for all of its responses."""
    return sampling.engine(args.model, device, args.seed, enable_prefix_caching=True)


class Sampler:
    """Samples and grades, with an engine that has the entropy hook."""

    def __init__(self, llm: Any, grade: Grader, args: argparse.Namespace) -> None:
        """``args``: of `complete`."""
        self.llm, self.grade, self.args = llm, grade, args
        self.tokenizer = llm.get_tokenizer()
        self.end = end_of_turn(self.tokenizer)
        self.max_len: int = llm.llm_engine.model_config.max_model_len

    def prompt(self, row: Row) -> list[int]:
        """A prompt's tokens, as training has them."""
        if self.args.chat:
            text = rendered(self.tokenizer, row.prompt)
        else:
            text = (self.args.template or "{}").format(question(row))
        ids: list[int] = self.tokenizer(text, add_special_tokens=False).input_ids
        if len(ids) >= self.max_len:
            raise UserError(f"{row.place}: its prompt has {len(ids)} tokens, and the model at most {self.max_len}.")
        return ids

    def sample(self, prefixes: Sequence[list[int]], counts: Sequence[int], room: Sequence[int], seeds: Sequence[int]):  # type: ignore[no-untyped-def]
        """vLLM's outputs: so many continuations of each prefix, of at most ``room`` tokens."""
        import vllm

        parameters = [
            vllm.SamplingParams(
                n=n,
                temperature=self.args.temperature,
                max_tokens=min(most, self.max_len - len(prefix)),
                stop_token_ids=None if self.end is None else [self.end],
                seed=seed,
                **sampling_kwargs(),
            )
            for prefix, n, most, seed in zip(prefixes, counts, room, seeds, strict=True)
        ]
        return self.llm.generate([{"prompt_token_ids": prefix} for prefix in prefixes], parameters, use_tqdm=False)

    def text(self, tokens: Sequence[int]) -> str:
        """What is graded of a response."""
        return str(self.tokenizer.decode(self.spoken(tokens), skip_special_tokens=False))

    def spoken(self, tokens: Sequence[int]) -> list[int]:
        """Without the tokens that end it."""
        return without_end(tokens, self.tokenizer, self.end)

    def groups(self, table: Sequence[Row], purpose: str, first: int = 0) -> list[Group]:
        """n graded responses to each prompt. Each prompt has its own seed, by its place in the data, where the first
        row has the place ``first``."""
        args = self.args
        prompts = [self.prompt(row) for row in table]
        seeds = [derived(args.seed, purpose, first + place) for place in range(len(table))]
        # Responses that begin in one step of the engine would each compute their prompt: now it is there for all.
        self.sample(prompts, [1] * len(prompts), [1] * len(prompts), seeds)
        outputs = self.sample(prompts, [args.n] * len(table), [args.max_new_tokens] * len(table), seeds)
        sampled = [(row, one) for row, output in zip(table, outputs, strict=True) for one in output.outputs]
        texts = [self.text(one.token_ids) for _, one in sampled]
        grades = self.grade(texts, [row for row, _ in sampled])
        responses = [
            self._response(prompts[i // args.n], *drawn, text, grade, first + i // args.n)
            for i, (drawn, text, grade) in enumerate(zip(sampled, texts, grades, strict=True))
        ]
        return [Group(responses[i : i + args.n]) for i in range(0, len(responses), args.n)]

    def _response(self, prompt: list[int], row: Row, one: Any, text: str, grade: Grade, place: int) -> Response:
        tokens, begin = list(one.token_ids), len(prompt)
        entropy, logprob = entropies_and_logprobs(one)
        answer_end = begin + len(tokens)
        if grade.answer_end is not None:
            spoken = self.spoken(tokens)
            answer_end = begin + len(spoken) - tokens_within(len(text) - grade.answer_end, spoken, self.tokenizer)
        returned = {
            "observation_tokens": prompt + tokens,
            "action_ranges": [(begin, begin + len(tokens))],
            "entropy": np.concatenate([np.zeros(begin), entropy]).astype(np.float32),
            "logprob": np.concatenate([np.zeros(begin), logprob]).astype(np.float32),
            "answer_end": answer_end,
            "scores": grade.score,
            "reward": grade.reward,
            "text": text,
            "prompt": question(row),
            "label": row.label,
        }
        return Response(returned, begin + len(tokens), (0, place))


def is_mixed(group: Group) -> bool:
    """Whether it has right and wrong responses."""
    return 0 < sum(response.is_correct for response in group.policy) < len(group.policy)


def sampled(sampler: Sampler, table: Sequence[Row], purpose: str) -> Iterator[Group]:
    """Groups in the order of the data, with a line of progress now and then."""
    begin, step = time.monotonic(), max(1, AT_ONCE // sampler.args.n)
    right = mixed = 0
    for first in range(0, len(table), step):
        part = sampler.groups(table[first : first + step], purpose, first)
        right += sum(response.is_correct for group in part for response in group.policy)
        mixed += sum(map(is_mixed, part))
        done = first + len(part)
        say(
            f"{done:,} of {len(table):,} prompts graded, {mixed} of them with right and wrong responses, pass rate "
            f"{right / done / sampler.args.n:.2f}, {time.monotonic() - begin:.0f} s"
        )
        yield from part


def none_mixed(prompts: int, rate: float) -> UserError:
    """What to say where no prompt has right and wrong responses."""
    which = "easier" if rate < 0.5 else "harder"
    return UserError(
        f"None of {prompts} prompts has right and wrong responses (pass rate {rate:.2f}), so there is nothing to "
        f"compare: take {which} prompts, more responses to each (--n), more prompts, or another checkpoint."
    )
