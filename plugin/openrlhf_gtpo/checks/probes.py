"""Probes that the doctor runs in their own processes (`openrlhf_gtpo.checks.isolated`).

As a program, ``python -m openrlhf_gtpo.checks.probes NAME FILE``, it reads keyword arguments as JSON from standard
input, calls the function NAME, and writes ``{"value": ...}`` or ``{"error": sentence}`` to FILE.
"""

import importlib
import importlib.util
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from openrlhf_gtpo.errors import UserError, reason

TEMPERATURE = 0.7
"""Not 1, so that entropies of the raw logits differ from those of the distribution that was sampled from."""

PROMPTS = ("What is 6 times 7?", "Name a prime number above 100.")
NEW_TOKENS = 16


def openrlhf() -> str:
    """The version of OpenRLHF, once every internal that the plugin uses was found."""
    from openrlhf_gtpo import openrlhf_internals

    return openrlhf_internals.check()


def ray_cluster(address: str | None) -> dict[str, float] | None:
    """Nodes, CPUs and GPUs of a Ray cluster. Without an address it only imports Ray and returns None."""
    import ray

    if address is None:
        return None
    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    have, free = ray.cluster_resources(), ray.available_resources()
    return {
        "nodes": sum(bool(node["Alive"]) for node in ray.nodes()),
        "cpus": have.get("CPU", 0.0),
        "gpus": have.get("GPU", 0.0),
        "free_gpus": free.get("GPU", 0.0),
    }


def samplers() -> list[dict[str, Any]]:
    """Every class named Sampler in the installed vLLM, and whether the hook covers it.

    Returns:
        One mapping each: ``name``; ``hooked``, None if it cannot be imported; ``problem``, why not.
    """
    from openrlhf_gtpo.engine import hook as vllm_hook

    vllm_hook.install()
    entries = []
    for module in _modules_with_a_sampler():
        entry: dict[str, Any] = {"name": f"{module}.Sampler", "hooked": None, "problem": None}
        try:
            sampler = importlib.import_module(module).Sampler
        except Exception as error:  # a module for other hardware may raise anything
            entry["problem"] = reason(error)
        else:
            entry["hooked"] = vllm_hook.is_hooked(object.__new__(sampler))
        entries.append(entry)
    return entries


def _modules_with_a_sampler() -> list[str]:
    """Dotted names of the modules below ``vllm.v1`` that define a class named Sampler, the name its workers use."""
    spec = importlib.util.find_spec("vllm.v1")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    (folder,) = spec.submodule_search_locations
    root = Path(folder)
    defines = re.compile(r"^class Sampler\b", re.MULTILINE)
    files = (path for path in root.rglob("*.py") if defines.search(path.read_text(encoding="utf-8")))
    return sorted(".".join(("vllm", "v1", *path.relative_to(root).with_suffix("").parts)) for path in files)


def sample(model: str, device: str, graphs: bool = False) -> dict[str, Any]:
    """A few tokens sampled by a vLLM engine with the hook.

    Args:
        model: folder or hub id.
        device: ``cpu`` or ``gpu``.
        graphs: whether to capture CUDA graphs, which takes minutes.

    Returns:
        ``prompts`` and ``tokens``: lists of token ids; ``entropies``: nats, one per sampled token.
    """
    # The engine in this process: in one of its own it would fail with "see root cause above", and not say the cause.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    import vllm

    from openrlhf_gtpo.data.tokenizer import prompt_ids
    from openrlhf_gtpo.vllm_entropy import check_hook, engine_kwargs, entropies, sampling_kwargs

    prompts = prompt_ids(model, PROMPTS)
    # On a CPU the precision of the comparison; on a GPU that of training.
    engine: dict[str, Any] = {"dtype": "bfloat16"}
    if device == "cpu":
        engine = {"dtype": "float32", "gpu_memory_utilization": 0.1}
    llm = vllm.LLM(
        model=model,
        skip_tokenizer_init=True,
        trust_remote_code=True,
        enforce_eager=not graphs,
        max_model_len=max(map(len, prompts)) + NEW_TOKENS,
        **engine,
        **engine_kwargs(),
    )
    check_hook(llm.collective_rpc("entropy_hook_report"))
    wanted = vllm.SamplingParams(
        temperature=TEMPERATURE, max_tokens=NEW_TOKENS, ignore_eos=True, detokenize=False, **sampling_kwargs()
    )
    outputs = llm.generate([{"prompt_token_ids": ids} for ids in prompts], wanted, use_tqdm=False)
    return {
        "prompts": prompts,
        "tokens": [list(output.outputs[0].token_ids) for output in outputs],
        "entropies": [entropies(output.outputs[0]) for output in outputs],
    }


def forward(model: str, device: str, prompts: list[list[int]], tokens: list[list[int]]) -> list[list[float]]:
    """The entropies that the tokens of `sample` should have, by transformers in float32; nats."""
    import torch
    from transformers import AutoModelForCausalLM

    place = "cuda" if device == "gpu" else "cpu"
    policy = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32, trust_remote_code=True).to(place)
    expected = []
    for prompt, response in zip(prompts, tokens, strict=True):
        with torch.no_grad():
            logits = policy(torch.tensor([prompt + response], device=place)).logits[0, len(prompt) - 1 : -1]
        distribution = torch.distributions.Categorical(logits=logits.double() / TEMPERATURE)
        expected.append(distribution.entropy().tolist())
    return expected


def main(name: str, answer: Path) -> None:
    arguments = json.load(sys.stdin)
    result: dict[str, Any]
    try:
        result = {"value": globals()[name](**arguments)}
    except UserError as error:
        result = {"error": str(error).rstrip("."), "has_fix": True}
    except Exception as error:  # the doctor shows its text
        result = {"error": f"{type(error).__name__}: {reason(error)}", "has_fix": False}
    # Renamed at the end, so that a process killed while it writes leaves no partial answer.
    part = answer.with_suffix(".part")
    part.write_text(json.dumps(result), encoding="utf-8")
    part.rename(answer)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
