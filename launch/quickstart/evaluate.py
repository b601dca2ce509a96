"""Measures a policy on held-out prompts: pass@1, pass@8, token entropy and response length.

    python launch/quickstart/evaluate.py --model DIR --data heldout.jsonl --out eval.json

Samples with vLLM on the CPU at temperature 1, and takes the exact entropies from the hook that training uses too.
Answers are graded by the reward service's own grader, in processes with a time limit.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from math_reward.grader import Verdict
from math_reward.workers import Item, WorkerPool
from openrlhf_gtpo.evaluation.pass_at_k import pass_at_k

# vLLM, torch and the tokenizer are imported where they are used: the grader's processes import this module.

K = 8
MAX_NEW_TOKENS = 40
GRADING_SECONDS = 10.0


@dataclass(frozen=True)
class Response:
    text: str
    entropies: list[float]  # (T,) nats


def sample(model: Path, questions: list[str], n: int, seed: int) -> list[list[Response]]:
    """n responses to each question, at temperature 1, from the policy in the folder `model`."""
    from openrlhf_gtpo.cpu.environment import cpu_environment

    os.environ.update(cpu_environment())  # read by vLLM and torch when they are imported

    import vllm

    from openrlhf_gtpo.vllm_entropy import check_hook, engine_kwargs, entropies, sampling_kwargs

    # bfloat16 and eager as in OpenRLHF's rollouts, so that what is measured is the policy that was trained.
    print("  starting vLLM", flush=True)
    llm = vllm.LLM(model=str(model), seed=seed, dtype="bfloat16", enforce_eager=True, **engine_kwargs())
    check_hook(llm.collective_rpc("entropy_hook_report"))
    settings = vllm.SamplingParams(n=n, temperature=1.0, max_tokens=MAX_NEW_TOKENS, **sampling_kwargs())
    print(f"  sampling {n} responses to each of {len(questions)} held-out prompts", flush=True)
    chats = [[{"role": "user", "content": question}] for question in questions]
    outputs = llm.chat(chats, settings, use_tqdm=False)
    return [[Response(completion.text, entropies(completion)) for completion in o.outputs] for o in outputs]


def correct_counts(responses: list[list[Response]], labels: list[str]) -> list[int]:
    """How many of each prompt's responses are correct.

    Raises:
        RuntimeError: the grader could not judge a response, so that no count would be right.
    """
    pairs = [
        [Item(response.text, label) for response in group] for group, label in zip(responses, labels, strict=True)
    ]
    with WorkerPool(workers=os.cpu_count() or 1, deadline=GRADING_SECONDS) as pool:
        futures = {item: pool.submit(item) for item in dict.fromkeys(item for group in pairs for item in group)}
        print(f"  grading {len(futures)} different ones", flush=True)
        grades = {item: future.result().grade for item, future in futures.items()}
    for item, grade in grades.items():
        if grade.verdict in (Verdict.ERROR, Verdict.BAD_REFERENCE):
            raise RuntimeError(
                f"the grader could not judge {item.completion!r} against {item.reference!r}: {grade.detail}"
            )
    return [sum(grades[item].correct for item in group) for group in pairs]


def measure(responses: list[list[Response]], correct: list[int], n: int) -> dict[str, float]:
    tokens = [entropy for group in responses for response in group for entropy in response.entropies]
    return {
        "pass@1": sum(pass_at_k(n, c, 1) for c in correct) / len(correct),
        f"pass@{K}": sum(pass_at_k(n, c, K) for c in correct) / len(correct),
        "entropy": sum(tokens) / len(tokens),
        "response_length": len(tokens) / (n * len(responses)),
        "prompts": len(responses),
        "n": n,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="folder with the policy and its tokenizer")
    parser.add_argument("--data", type=Path, required=True, help='JSON lines with "input" and "label"')
    parser.add_argument("--out", type=Path, required=True, help="JSON file for the result")
    parser.add_argument("--prompts", type=int, default=200, help="how many prompts, from the start of the file")
    parser.add_argument("--n", type=int, default=16, help=f"responses for each prompt, at least {K}")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sampling")
    args = parser.parse_args()
    if not (args.model / "config.json").is_file():
        parser.error(f"--model: there is no model in {args.model} (no config.json)")
    if not args.data.is_file():
        parser.error(f"--data: {args.data} does not exist; launch/quickstart/warm_start.py writes it")
    rows = [json.loads(line) for line in args.data.read_text(encoding="utf-8").splitlines()]
    if not 1 <= args.prompts <= len(rows):
        parser.error(f"--prompts: {args.data} has {len(rows)} prompts, so choose 1 to {len(rows)}")
    if args.n < K:
        parser.error(f"--n: pass@{K} needs at least {K} responses for each prompt")

    rows = rows[: args.prompts]
    responses = sample(args.model, [row["input"] for row in rows], args.n, args.seed)
    result = measure(responses, correct_counts(responses, [row["label"] for row in rows]), args.n)
    args.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(
        f"  pass@1 {result['pass@1']:.3f}   pass@{K} {result[f'pass@{K}']:.3f}   entropy {result['entropy']:.3f} nats"
    )


if __name__ == "__main__":
    try:
        main()
    except RuntimeError as error:
        sys.exit(f"evaluate.py: {error}")
