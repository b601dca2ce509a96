"""``openrlhf-gtpo eval``: Mean@n and Pass@k of a policy on benchmarks, with confidence intervals.

vLLM samples, the reward service grades. Results are saved after every few prompts, so the same command continues
where an interrupted one stopped."""

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tqdm import tqdm

from math_reward.client import Client, ClientError, Item, Result
from math_reward.client.settings import TOKEN_VARIABLE
from openrlhf_gtpo.cpu.environment import cpu_environment
from openrlhf_gtpo.data.named_files import is_offline, model_fault
from openrlhf_gtpo.driver.device import torch_finds_gpu
from openrlhf_gtpo.errors import SettingsError, UserError
from openrlhf_gtpo.evaluation.benchmark import Benchmark, Prompt, load
from openrlhf_gtpo.evaluation.engines import Engines, shares_of_gpus
from openrlhf_gtpo.evaluation.record import Record, Response, figures, table
from openrlhf_gtpo.evaluation.sampling import Sample, Sampler, SamplingSettings
from openrlhf_gtpo.parsing import Parser
from openrlhf_gtpo.rewards.embedded import start_embedded_service

PROGRAM = "openrlhf-gtpo eval"
RESPONSES_AT_ONCE = 1024
"""Responses of an engine that are sampled, graded and saved together; an interruption loses at most these."""


def main(argv: Sequence[str]) -> int:
    """Run the evaluation.

    Returns:
        Exit status 0.

    Raises:
        SettingsError: the command line is refused.
        UserError: a response has no reward or no entropy.
    """
    args = _parser().parse_args(argv)
    try:
        _evaluate(args)
    except ClientError as error:
        raise UserError(str(error)) from None
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog=PROGRAM, description=__doc__)
    parser.add_argument("--model", required=True, help="the policy: a folder or a hub id")
    parser.add_argument(
        "--data", type=Path, nargs="+", required=True, help="a JSON-lines file for each benchmark: prompts and answers"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for eval.json and eval.jsonl")
    parser.add_argument("--n", type=int, default=32, help="responses to each prompt (32)")
    parser.add_argument("--k", default="1,2,4,8,16,32", help="the k of Pass@k, each at most n (1,2,4,8,16,32)")
    parser.add_argument("--temperature", type=float, default=1.0, help="sampling temperature; 0 is greedy (1.0)")
    parser.add_argument("--top_p", type=float, default=1.0, help="sample from this share of the probability (1.0)")
    parser.add_argument("--max_new_tokens", type=int, default=4096, help="most tokens of a response (4096)")
    parser.add_argument("--max_prompts", type=int, default=None, help="first N prompts of each benchmark (all)")
    parser.add_argument("--input_key", default="input", help="column of the prompt, a text or chat messages (input)")
    parser.add_argument("--label_key", default="label", help="column of the reference answer (label)")
    parser.add_argument(
        "--reward_url",
        default=None,
        help=f"reward service; its token is read from {TOKEN_VARIABLE} (without a URL one is started)",
    )
    parser.add_argument("--tensor_parallel_size", type=int, default=1, help="GPUs of an engine (1)")
    parser.add_argument("--engines", type=int, help="engines side by side (as many as there are GPUs for; on a CPU 1)")
    parser.add_argument("--device", choices=["auto", "cpu", "gpu"], default="auto", help="where vLLM runs (auto)")
    parser.add_argument(
        "--param_dtype",
        choices=["auto", "bf16", "fp32"],
        default="auto",
        help="precision: auto is the model's own, on a CPU bf16 where it has that, else fp32 (auto)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the sampling (0)")
    return parser


def _evaluate(args: argparse.Namespace) -> None:
    ks = _ks(args.k, args.n)
    _check(args)
    benchmarks = [load(path, args.input_key, args.label_key) for path in args.data]
    if len({benchmark.name for benchmark in benchmarks}) < len(benchmarks):
        raise SettingsError("--data names two files of the same name, which names the benchmark: rename one.")
    device = args.device
    if device == "auto":
        device = "gpu" if torch_finds_gpu() else "cpu"
    environment = cpu_environment() if device == "cpu" else os.environ
    if fault := model_fault("--model", args.model, offline=is_offline(environment)):
        raise SettingsError(fault)
    sampling = SamplingSettings(args.n, args.temperature, args.top_p, args.max_new_tokens, args.seed, args.param_dtype)
    record = Record(args.out, {"model": args.model, **vars(sampling)})
    todo = {benchmark.name: _left(benchmark, record, args.max_prompts) for benchmark in benchmarks}
    left = sum(len(prompts) for prompts in todo.values())
    if record.responses:
        print(
            f"{PROGRAM}: {len(record.responses) // args.n} prompts are done already, {left} are left", file=sys.stderr
        )
    if left:
        with (
            _rewards(args.reward_url) as client,
            _engines(args, sampling, device) as (sampler, count),
            tqdm(total=left, unit="prompt", desc="sampling and grading") as bar,
        ):
            for name, prompts in todo.items():
                _fill(record, name, prompts, sampler, client, max(1, count * RESPONSES_AT_ONCE // args.n), bar)
    results = {}
    for benchmark in benchmarks:
        kept = set(range(len(benchmark.prompts))[: args.max_prompts])
        mine = [r for r in record.responses if r.benchmark == benchmark.name and r.prompt in kept]
        results[benchmark.name] = figures(mine, args.n, ks)
    path = args.out / "eval.json"
    path.write_text(json.dumps({"model": args.model, "benchmarks": results}, indent=2) + "\n", encoding="utf-8")
    print(table(results))
    print(f"\n95 % intervals over prompts. Written to {path} and {args.out / 'eval.jsonl'}.")


def _ks(text: str, n: int) -> list[int]:
    try:
        ks = [int(part) for part in text.split(",")]
    except ValueError:
        raise SettingsError(f"--k is {text!r}, but needs whole numbers with commas between them.") from None
    for k in ks:
        if not 1 <= k <= n:
            raise SettingsError(f"--k has {k}, but Pass@k needs 1 <= k <= n, and --n is {n}.")
    return sorted(set(ks))


def _check(args: argparse.Namespace) -> None:
    if args.temperature < 0:
        raise SettingsError(f"--temperature is {args.temperature}, but needs to be 0 or more.")
    if not 0 < args.top_p <= 1:
        raise SettingsError(f"--top_p is {args.top_p}, but needs to be above 0 and at most 1.")
    for name in ("n", "max_new_tokens", "tensor_parallel_size", "engines"):
        if (getattr(args, name) or 0) < 1 and (name != "engines" or args.engines is not None):
            raise SettingsError(f"--{name} is {getattr(args, name)}, but needs to be at least 1.")
    if args.max_prompts is not None and args.max_prompts < 1:
        raise SettingsError(f"--max_prompts is {args.max_prompts}, but needs to be at least 1.")


@contextlib.contextmanager
def _engines(
    args: argparse.Namespace, sampling: SamplingSettings, device: str
) -> Iterator[tuple[Sampler | Engines, int]]:
    """One engine in this process, or several beside it; and their number.

    Raises:
        SettingsError: there are not GPUs enough for them.
    """
    size = args.tensor_parallel_size
    shares = shares_of_gpus(size) if device == "gpu" else [""]
    count = args.engines or max(1, len(shares))
    if count > max(1, len(shares)):
        what = f"{size} GPU(s) each, and there are GPUs for {len(shares)}" if device == "gpu" else "a GPU each"
        raise SettingsError(f"--engines is {count}, but engines side by side need {what}.")
    print(f"{PROGRAM}: starting {'vLLM' if count == 1 else f'{count} engines of vLLM'}", file=sys.stderr, flush=True)
    arguments = (args.model, sampling, device, size)
    with Sampler(*arguments) if count == 1 else Engines(Sampler, arguments, shares[:count]) as sampler:
        yield sampler, count


def _left(benchmark: Benchmark, record: Record, most: int | None) -> list[tuple[int, Prompt]]:
    done = record.done(benchmark.name)
    return [(i, prompt) for i, prompt in enumerate(benchmark.prompts[:most]) if i not in done]


@contextlib.contextmanager
def _rewards(url: str | None) -> Iterator[Client]:
    """The reward client. Without a URL, a built-in service runs as long as the context."""
    with contextlib.ExitStack() as stack:
        if url is None:
            service = stack.enter_context(start_embedded_service())
            client = Client(service.url, token=service.token)
        else:
            try:
                client = Client([part.strip() for part in url.split(",")], reward_models=True)
            except ValueError as error:
                raise SettingsError(f"--reward_url: {error}") from None
        yield stack.enter_context(client)


def _fill(
    record: Record,
    name: str,
    prompts: list[tuple[int, Prompt]],
    sampler: Sampler | Engines,
    client: Client,
    size: int,
    bar: "tqdm[None]",
) -> None:
    """Sample, grade and save the prompts of one benchmark that are not done yet, ``size`` at a time."""
    for start in range(0, len(prompts), size):
        part = prompts[start : start + size]
        samples = sampler.sample([prompt.messages for _, prompt in part], [number for number, _ in part])
        rewards = _graded(client, part, samples)
        record.add(
            Response(
                name, number, i, s.text, s.tokens, s.entropy, s.truncated, r.reward, r.score == 1, r.verdict or None
            )
            for (number, _), group, graded in zip(part, samples, rewards, strict=True)
            for i, (s, r) in enumerate(zip(group, graded, strict=True))
        )
        bar.update(len(part))


def _graded(client: Client, part: list[tuple[int, Prompt]], samples: list[list[Sample]]) -> list[list[Result]]:
    items = [
        Item(sample.text, prompt.reference, "\n".join(message["content"] for message in prompt.messages))
        for (_, prompt), group in zip(part, samples, strict=True)
        for sample in group
    ]
    results = (result for result in client.grade_many(items) if isinstance(result, Result))
    return [[next(results) for _ in group] for group in samples]
