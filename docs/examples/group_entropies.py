"""A group of responses to one prompt: entropies from vLLM, verdicts from the reward service, both in one picture."""

import argparse
import json

import httpx
import vllm
from matplotlib import pyplot

from openrlhf_gtpo.vllm_entropy import check_hook, engine_kwargs, entropies, sampling_kwargs


def generate(model, question, n):
    """The tokens' texts and entropies (nats) of n responses."""
    llm = vllm.LLM(model, max_model_len=96, gpu_memory_utilization=0.2, enforce_eager=True, **engine_kwargs())
    check_hook(llm.collective_rpc("entropy_hook_report"))
    params = vllm.SamplingParams(n=n, temperature=1.0, max_tokens=40, **sampling_kwargs())
    (group,) = llm.chat([{"role": "user", "content": question}], params)
    decode = llm.get_tokenizer().decode
    return [([decode([token]) for token in one.token_ids], entropies(one), one.text) for one in group.outputs]


def grade(url, completions, reference):
    """The service's result for each completion: verdict, answer, reward, ..."""
    items = [{"completion": completion, "reference": reference} for completion in completions]
    return httpx.post(f"{url}/v1/grade", json={"items": items}, timeout=60).raise_for_status().json()["results"]


def draw(question, rows, path):
    """A line of tokens for each response, coloured by entropy; correct responses above, wrong ones below."""
    longest = max(len(texts) for texts, _, _ in rows)
    figure, axes = pyplot.subplots(figsize=(0.32 * longest + 3, 0.34 * len(rows) + 1.6))
    top = max(max(entropy) for _, entropy, _ in rows)
    for y, (texts, entropy, result) in enumerate(rows):
        y += 0.6 * (not result["correct"])  # a gap between correct and wrong
        axes.text(-0.8, y, f"{result['verdict']}: {result['answer']}", ha="right", va="center", fontsize=9)
        for x, (text, nats) in enumerate(zip(texts, entropy)):
            axes.barh(y, 1, 0.9, x - 0.5, color=pyplot.cm.YlOrRd(nats / top), edgecolor="white")
            axes.text(x, y, text.replace("\n", "⏎")[:7], ha="center", va="center", fontsize=6)
    axes.invert_yaxis()
    axes.axis("off")
    axes.set_title(f"{question}   Entropy of each token: pale 0, dark red {top:.2f} nats", loc="left", fontsize=10)
    figure.savefig(path, dpi=150, bbox_inches="tight")


if __name__ == "__main__":  # vLLM starts processes, which import this file
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="a folder or a hub id")
    parser.add_argument("--data", required=True, help="JSON lines with input and label")
    parser.add_argument("--row", type=int, default=0, help="which line is the prompt, from 0 (0)")
    parser.add_argument("--url", default="http://localhost:8000", help="the reward service")
    parser.add_argument("--n", type=int, default=8, help="responses in the group (8)")
    parser.add_argument("--out", default="group_entropies.png", help="the picture")
    args = parser.parse_args()

    with open(args.data, encoding="utf-8") as file:
        row = json.loads(file.readlines()[args.row])
    group = generate(args.model, row["input"], args.n)
    results = grade(args.url, [text for _, _, text in group], row["label"])
    rows = [(texts, entropy, result) for (texts, entropy, _), result in zip(group, results)]
    rows.sort(key=lambda row: not row[2]["correct"])
    print("verdict    answer      tokens  mean entropy  highest")
    for texts, entropy, result in rows:
        mean = sum(entropy) / len(entropy)
        print(f"{result['verdict']:<11}{result['answer'] or '-':<12}{len(texts):>6}{mean:>14.3f}{max(entropy):>9.3f}")
    draw(row["input"], rows, args.out)
