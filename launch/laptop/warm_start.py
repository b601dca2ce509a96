"""Writes a task's data and trains its policy to the point where reinforcement learning can take over.

    python launch/laptop/warm_start.py --out runs/quickstart/warm_start --seed 0 --prompts 960
    python launch/laptop/warm_start.py --out runs/mine --task docs/examples/counting.py

Writes train.jsonl, heldout.jsonl and model/. The policy is trained once for each task, seed and version of the code,
and kept under runs/cache: every run of the quickstart takes it from there. The demonstrations are of mixed quality on
purpose: they plant the habit of taking the leftmost pair, and reinforcement learning removes it.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import os
import random
import shutil
from pathlib import Path

# Read when torch is imported. Threads sleep while they wait: spinning makes a step ten times slower where other work
# shares the cores.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("DS_ACCELERATOR", "cpu")  # else DeepSpeed, which saving imports, looks for GPUs and warns

import torch
import transformers
from filelock import FileLock, Timeout
from tqdm import tqdm

import policy
from check import check
from task import HELD_OUT_PROMPTS, QUICKSTART, SPLIT_SEEDS, Task, load

CACHE = Path(__file__).resolve().parents[2] / "runs" / "cache"
LEARNING_RATE = 2e-3
IGNORED = -100  # the label that the cross-entropy skips
THREADS = 2  # on every machine: sums come out differently with another number


def write_prompts(task: Task, path: Path, count: int, seed: int, held_out: bool) -> None:
    rows = (
        {"input": task.question(expression), "label": task.answer(expression), "datasource": task.name}
        for expression in task.expressions(count, seed, held_out)
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def batch(task: Task, tokenizer: transformers.PreTrainedTokenizerFast, rng: random.Random) -> dict[str, torch.Tensor]:
    """Demonstrations packed into rows: `input_ids`, `labels`, `position_ids`, each (N, T) int64.

    Positions begin at 0 with every demonstration, by which transformers keeps them from attending to each other; only
    responses have labels. Without padding a step takes a quarter less time, and its loss is the same.
    """
    expressions = [task.sample(rng, held_out=False) for _ in range(task.warm_start_batch)]
    prompts = tokenizer([policy.chat(task, tokenizer, expression) for expression in expressions]).input_ids
    responses = tokenizer([task.demonstration(expression, rng) + policy.END for expression in expressions]).input_ids
    rows: list[list[tuple[list[int], list[int]]]] = []
    lengths: list[int] = []
    # First fit, longest first.
    for prompt, response in sorted(zip(prompts, responses, strict=True), key=lambda pair: -len(pair[0] + pair[1])):
        length = len(prompt) + len(response)
        fitting = [n for n, taken in enumerate(lengths) if taken + length <= task.max_length]
        if not fitting:
            rows.append([])
            lengths.append(0)
        n = fitting[0] if fitting else -1
        rows[n].append((prompt, response))
        lengths[n] += length
    shape = (len(rows), max(lengths))
    input_ids, labels = torch.full(shape, tokenizer.pad_token_id), torch.full(shape, IGNORED)
    position_ids = torch.zeros(shape, dtype=torch.long)
    for n, row in enumerate(rows):
        begin = 0
        for prompt, response in row:
            middle, end = begin + len(prompt), begin + len(prompt) + len(response)
            input_ids[n, begin:end] = torch.tensor(prompt + response)
            labels[n, middle:end] = input_ids[n, middle:end]
            position_ids[n, begin:end] = torch.arange(end - begin)
            begin = end
        position_ids[n, begin:] = torch.arange(shape[1] - begin)
    return {"input_ids": input_ids, "labels": labels, "position_ids": position_ids}


def train(
    task: Task, tokenizer: transformers.PreTrainedTokenizerFast, steps: int, seed: int
) -> transformers.Qwen2ForCausalLM:
    torch.set_num_threads(THREADS)
    torch.manual_seed(seed)
    rng = random.Random(seed)
    config = policy.build_config(task, tokenizer)
    config._attn_implementation = "eager"  # at this size quicker than torch's fused attention
    model = transformers.Qwen2ForCausalLM(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=steps, pct_start=0.1)
    progress = tqdm(range(steps), desc="  warm start on mixed demonstrations", unit="step", mininterval=1.0)
    for _ in progress:
        loss = model(**batch(task, tokenizer, rng), use_cache=False).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        progress.set_postfix(loss=f"{loss.item():.3f}", refresh=False)
    return model.eval()


def fingerprint(task: Task, seed: int) -> str:
    """A hash of all that decides what model/ holds: the settings, the libraries and the modules that make it."""
    settings = [seed, task.name, task.warm_start_steps, task.warm_start_batch]
    digest = hashlib.sha256(json.dumps([*settings, torch.__version__, transformers.__version__]).encode())
    bases = [base for base in type(task).__mro__ if issubclass(base, Task)]
    for path in (*map(inspect.getfile, bases), policy.__file__, __file__):
        digest.update(Path(path).read_bytes())
    return digest.hexdigest()


def kept(cache: Path, task: Task, seed: int) -> Path:
    """The folder with the policy's files in the cache; trains it where it is not there yet.

    Of several runs that want it at once one trains and the others wait. It is written beside its place and renamed:
    a training that was broken off leaves nothing that could be taken for a policy.
    """
    folder = cache / "warm_start"
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / fingerprint(task, seed)[:16]
    lock = FileLock(place.with_suffix(".lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        print("  another run is training the same policy: waiting for it", flush=True)
        lock.acquire()
    try:
        if place.is_dir():
            print(f"  the warm-started policy is taken from {place}; for a fresh one: rm -r {place}", flush=True)
            return place
        part = place.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        tokenizer = policy.build_tokenizer(task)
        model = train(task, tokenizer, task.warm_start_steps, seed)
        model.save_pretrained(part)
        tokenizer.save_pretrained(part)
        for expression in task.expressions(20, SPLIT_SEEDS["heldout"], held_out=True):
            policy.check_reloaded(task, tokenizer, part, expression)
        part.rename(place)
    finally:
        lock.release()
    print(f"  kept in {place} for the next run")
    return place


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for train.jsonl, heldout.jsonl and model/")
    parser.add_argument("--task", default=QUICKSTART, help=f"{QUICKSTART}, or a .py file with a TASK ({QUICKSTART})")
    parser.add_argument("--seed", type=int, default=0, help="seed of the policy's weights and demonstrations")
    parser.add_argument("--prompts", type=int, default=960, help="training prompts to write: 16 for each step")
    parser.add_argument("--cache", type=Path, default=CACHE, help="where policies are kept (runs/cache)")
    args = parser.parse_args()
    try:
        task = load(args.task)
        print(check(task, args.prompts), flush=True)
    except ValueError as error:
        raise SystemExit(f"{args.task}: {error}.") from None

    args.out.mkdir(parents=True, exist_ok=True)
    write_prompts(task, args.out / "train.jsonl", args.prompts, SPLIT_SEEDS["train"], held_out=False)
    write_prompts(task, args.out / "heldout.jsonl", HELD_OUT_PROMPTS, SPLIT_SEEDS["heldout"], held_out=True)

    limits = {"max_length": task.max_length, "max_new_tokens": task.max_new_tokens}
    (args.out / "task.json").write_text(json.dumps({"task": task.name, **limits}) + "\n", encoding="utf-8")

    transformers.utils.logging.disable_progress_bar()  # of the few files that are saved
    made = kept(args.cache, task, args.seed)
    model_dir, marker = args.out / "model", args.out / "model.source"
    source = f"{made.name} {made.stat().st_mtime_ns}"  # a policy that was trained again has another time
    if marker.is_file() and marker.read_text(encoding="utf-8") == source:
        return  # another run may be reading it
    marker.unlink(missing_ok=True)
    shutil.rmtree(model_dir, ignore_errors=True)
    shutil.copytree(made, model_dir)
    marker.write_text(source, encoding="utf-8")  # last: a copy that was broken off has none


if __name__ == "__main__":
    main()
