"""openrlhf-gtpo eval: Mean@n and Pass@k of a policy on benchmarks, with 95 % intervals over prompts. vLLM samples,
the reward service grades."""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from math_reward.client import Client
from openrlhf_gtpo import sampling
from openrlhf_gtpo.algorithms.pass_at_k import bootstrap, pass_at_k
from openrlhf_gtpo.data.table import Row, first_rows
from openrlhf_gtpo.data.tokenizer import end_of_turn
from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.flags import COUNT, MODE_HELP, MODES, SECONDS, WEIGHT, Parser, number
from openrlhf_gtpo.sampling import say
from openrlhf_gtpo.seeds import derived
from openrlhf_gtpo.vllm_entropy import entropies, sampling_kwargs

AT_ONCE = 4096
"""Responses that are sampled before they are graded and written: what is lost, at most, and what is in memory."""


@dataclass(frozen=True)
class Response:
    """One graded response, a line of eval.jsonl."""

    benchmark: str
    prompt: int
    """Its row in the benchmark's file, from 0."""
    index: int
    """Among the responses to the prompt, from 0."""
    text: str
    tokens: int
    entropy: float
    """Mean over its tokens, nats; 0 for an empty response."""
    truncated: bool
    reward: float
    correct: bool
    verdict: str | None


def main(argv: Sequence[str]) -> int:
    """Sample, grade and write eval.json and eval.jsonl.

    Raises:
        SettingsError: the command line or a file is refused.
        UserError: a response has no reward or no entropy.
    """
    args = _parser().parse_args(argv)
    ks = _ks(args.k, args.n)
    benchmarks = {Path(name).stem: first_rows(name, args, None, args.max_prompts) for name in args.data}
    if len(benchmarks) < len(args.data):
        raise SettingsError("--data names two files of the same name, which names the benchmark: rename one.")
    args.out.mkdir(parents=True, exist_ok=True)
    args.model, results = sampling.merged(args.model, args.out), {}
    url, deadline = (vars(args)[f"reward.{name}"] for name in ("remote_url", "deadline"))
    with (
        sampling.reward_client(url, "--reward.remote_url", deadline, args.out) as client,
        sampling.engine(args.model, args.device, args.seed, tensor_parallel_size=args.tensor_parallel_size) as llm,
        (args.out / "eval.jsonl").open("w", encoding="utf-8") as file,
    ):
        for name, table in benchmarks.items():
            responses = []
            at_once = max(1, AT_ONCE // args.n)
            for first in range(0, len(table), at_once):
                part = list(_sampled_and_graded(llm, client, name, table[first : first + at_once], args, first))
                file.writelines(json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in part)
                responses += [replace(one, text="") for one in part]
                say(f"{name}: {len(responses):,} responses graded")
            results[name] = figures(responses, args.n, ks)
    path = args.out / "eval.json"
    path.write_text(json.dumps({"model": args.model, "benchmarks": results}, indent=2) + "\n", encoding="utf-8")
    for name, found in results.items():
        print(f"{name}, {found['prompts']} prompts x {found['n']} responses, 95 % intervals over prompts:")
        for key, one in found.items():
            if isinstance(one, dict):
                print(f"{key:<24} {one['mean']:.3f} ({one['low']:.3f} to {one['high']:.3f})")
    print(f"Written to {path} and {args.out / 'eval.jsonl'}.")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="openrlhf-gtpo eval", description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = parser.add_argument
    add("--model", required=True, help="the policy: a folder or a hub id")
    add("--data", nargs="+", required=True, help="the benchmarks: a file, a folder or a hub id each")
    add("--out", type=Path, required=True, help="folder for eval.json and eval.jsonl")
    add("--n", type=COUNT, default=32, help="responses to each prompt")
    add("--k", default="1,2,4,8,16,32", help="the k of Pass@k, each at most n")
    add("--temperature", type=WEIGHT, default=1.0, help="sampling temperature; 0 is greedy")
    add("--top_p", type=number(0, float, 1, above=True), default=1.0, help="sample from this share of the probability")
    add("--max_new_tokens", type=COUNT, default=4096, help="most tokens of a response")
    add("--max_prompts", type=COUNT, help="first N prompts of each benchmark")
    add("--input_key", default="input", help="column of the prompt, a text or chat messages")
    add("--label_key", default="label", help="column of the reference answer")
    add("--reward.mode", choices=MODES, help=MODE_HELP)
    add("--reward.remote_url", help="reward services, whose token is MATH_REWARD_TOKEN; without a URL one is started")
    add("--reward.deadline", type=SECONDS, default=300.0, help="seconds of retries for one reward")
    add("--tensor_parallel_size", type=COUNT, default=1, help="GPUs of the engine")
    add("--device", choices=["auto", "cpu", "gpu"], default="auto", help="where vLLM runs")
    add("--seed", type=int, default=0, help="of the sampling")
    return parser


def _ks(text: str, n: int) -> list[int]:
    try:
        ks = sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise SettingsError(f"--k is {text!r}, but needs whole numbers with commas between them.") from None
    if not 1 <= ks[0] <= ks[-1] <= n:
        raise SettingsError(f"--k is {text}, but Pass@k needs 1 <= k <= n, and --n is {n}.")
    return ks


def _sampled_and_graded(
    llm: Any, client: Client, benchmark: str, table: Sequence[Row], args: argparse.Namespace, first: int
) -> Iterator[Response]:
    """n responses to each prompt of a part of a benchmark, by the model's chat template. Each prompt has its own seed,
    by its place in the whole, where the part's first has the place ``first``."""
    import vllm

    end = end_of_turn(llm.get_tokenizer())
    chats = [[{"role": "user", "content": p}] if isinstance(p, str) else p for p in (row.prompt for row in table)]
    parameters = [
        vllm.SamplingParams(
            n=args.n,
            temperature=args.temperature,
            top_p=args.top_p,
            max_tokens=args.max_new_tokens,
            stop_token_ids=None if end is None else [end],
            seed=derived(args.seed, "eval", first + place),  # vLLM adds a response's place in its group
            **sampling_kwargs(),
        )
        for place in range(len(table))
    ]
    outputs = llm.chat(chats, parameters)
    sampled = [(place, i, one) for place, output in enumerate(outputs) for i, one in enumerate(output.outputs)]
    results = sampling.graded(
        client, [one.text for *_, one in sampled], [table[place] for place, *_ in sampled], vars(args)["reward.mode"]
    )
    for (place, i, one), result in zip(sampled, results, strict=True):
        nats = entropies(one)
        yield Response(
            benchmark,
            prompt=first + place,
            index=i,
            text=one.text,
            tokens=len(nats),
            entropy=sum(nats) / max(1, len(nats)),
            truncated=one.finish_reason == "length",
            reward=result.reward,
            correct=result.score == 1,
            verdict=result.verdict or None,
        )


def figures(responses: Sequence[Response], n: int, ks: Sequence[int]) -> dict[str, Any]:
    """The figures of one benchmark, each with its 95 % interval over prompts: of n responses to each prompt, prompt
    after prompt, with Pass@k for each of ``ks``; entropies in nats."""
    groups = [responses[first : first + n] for first in range(0, len(responses), n)]
    correct = [sum(response.correct for response in group) for group in groups]
    values = {
        f"mean@{n}": [c / n for c in correct],
        **{f"pass@{k}": [pass_at_k(n, c, k) for c in correct] for k in ks},
        "response_length": [sum(response.tokens for response in group) / n for group in groups],
        "truncated": [sum(response.truncated for response in group) / n for group in groups],
    }
    # Of tokens alike, as training logs it; and of responses alike, in which a short one weighs as much as a long one.
    spoken = [own for group in groups if (own := [response for response in group if response.tokens])]
    values["entropy_response_mean"] = [sum(r.entropy for r in own) / len(own) for own in spoken] or [0.0]
    tokens = [sum(r.tokens for r in own) for own in spoken]
    per_token = [sum(r.entropy * r.tokens for r in own) / count for own, count in zip(spoken, tokens, strict=True)]
    found: dict[str, Any] = {name: asdict(bootstrap(of)) for name, of in values.items()}
    found["entropy_token_mean"] = asdict(bootstrap(per_token or [0.0], tokens or None))
    return {**found, "prompts": len(groups), "n": n}
