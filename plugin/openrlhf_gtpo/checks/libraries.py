"""What vLLM, transformers, peft, datasets, DeepSpeed, torch and OpenRLHF's loss say of the flags that they are given:
each thing is built as OpenRLHF builds it, on nothing, and a refusal is the library's own sentence.

A flag at its default is hardly ever asked about, so that a usual command line loads no library for it; nor is one
whose library is not on this machine. Where a library takes nonsense, `Nonsense` says what would come of it."""

import contextlib
import copy
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from math_reward.nearest import did_you_mean, nearest
from openrlhf_gtpo.checks import Finding
from openrlhf_gtpo.flags import defaults
from openrlhf_gtpo.model_size import config_of

Flags = Mapping[str, Any]
Ask = Callable[[Any, Flags], object]

ALWAYS = ("ds.attn_implementation",)
"""Flags whose default not every policy takes."""
STEPS = 100
"""Of a schedule that is tried. Any number would do."""


class Nonsense(ValueError):
    """A value that a library takes. The message is the end of a sentence: what would come of it, and the fix."""


def check(flags: Flags) -> Iterator[Finding]:
    """A fault for each flag that its library would refuse, or take without sense."""
    for flag, ask in ASKED.items():
        value = flags[flag]
        if (value == defaults()[flag] and flag not in ALWAYS) or (
            flag.startswith("critic.") and flags["algo.advantage.estimator"] != "gae"
        ):
            continue
        try:
            with _silence():
                ask(value, flags)
        except ImportError:  # not installed, or another machine's
            continue
        except Nonsense as nonsense:
            shown = " ".join(map(str, value)) if isinstance(value, list) else value
            yield Finding("flags", "fault", f"--{flag} is {shown}, {nonsense}")
        except Exception as error:  # each library has its own kinds
            yield Finding("flags", "fault", f"--{flag}: {_words(error, str(value))}")


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Libraries greet whoever imports them, and their loggers keep the streams: so those stay, and lead nowhere."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        yield
    finally:
        for stream, before in enumerate(kept, 1):
            os.dup2(before, stream)
        for opened in (*kept, nowhere):
            os.close(opened)


def _words(error: Exception, value: str) -> str:
    """A library's sentence on one line; of a list of choices the nearest ones, if any is near."""
    details: Any = getattr(error, "errors", list)()  # Pydantic's
    text = " ".join(str(details[0]["msg"] if details else error or type(error).__name__).split())
    text = text.partition(" (parameter=")[0].rstrip(".")  # of vLLM, which says it twice
    choices = {*re.findall(r"[\"'](\w+)[\"']", text)} - {value}
    return f"{text.partition(',')[0]}{did_you_mean(value, choices, '')}" if nearest(value, choices) else f"{text}."


def _made(where: str, name: str, *nothing: Any) -> Ask:
    """Makes an object of ``module:class`` with the value under this name."""

    def ask(value: Any, flags: Flags) -> Any:
        module, _, kind = where.partition(":")
        return getattr(importlib.import_module(module), kind)(*nothing, **{name: value})

    return ask


def _optimiser(kind: str, name: str) -> Ask:
    def ask(value: Any, flags: Flags) -> Any:
        import torch

        parameters = [torch.nn.Parameter(torch.zeros(1, 1))]
        return _made(f"torch.optim:{kind}", name, parameters)(value, flags)

    return ask


def _temperature(value: float, flags: Flags) -> None:
    """Of rollouts, by which the policy's logits are divided too."""
    made: Any = _made("vllm.sampling_params:SamplingParams", "temperature")(value, flags)
    if made.sampling_type.name != "RANDOM":
        raise Nonsense("so that vLLM draws no tokens, and logits are divided by 0: give one above 0, such as 1.")
    if made.temperature != value:
        raise Nonsense(f"but vLLM would sample at {made.temperature}: give at least that.")


def _greedy(value: Any, flags: Flags) -> None:
    """Of an evaluation."""
    from vllm.sampling_params import SamplingParams

    samples = flags["eval.n_samples_per_prompt"]
    if not SamplingParams(temperature=value).temperature and samples > 1 and flags["eval.dataset"]:
        raise Nonsense(
            f"so that the --eval.n_samples_per_prompt {samples} responses of a prompt are all one: set it to 1."
        )


def _dropout(value: float, flags: Flags) -> None:
    _made("torch.nn:Dropout", "p")(value, flags)
    if value == 1:
        raise Nonsense("so that nothing passes the adapter, which learns nothing: give less than 1.")


def _schedule(role: str) -> Ask:
    """Of learning rates, as far as its second step: DeepSpeed gives none of the metrics that some ask for then."""

    def ask(value: str, flags: Flags) -> None:
        from transformers.optimization import get_scheduler

        rate = flags[f"{role}.adam.lr"]
        optimiser: Any = _optimiser("AdamW", "lr")(rate if rate > 0 else 1, flags)
        more = {"min_lr_rate": 0.1} if value in ("cosine_with_min_lr", "cosine_warmup_with_min_lr") else {}
        schedule: Any = get_scheduler(value, optimiser, 1, STEPS, scheduler_specific_kwargs=more)
        optimiser.step()
        schedule.step()

    return ask


def _shares(value: str, flags: Flags) -> None:
    from datasets import Dataset, interleave_datasets

    shares = [float(share) for share in value.split(",")]
    rows = [Dataset.from_dict({"row": [0]}) for _ in shares]
    interleave_datasets(rows, probabilities=shares, seed=0, stopping_strategy="all_exhausted")


def _policy(flags: Flags, **more: Any) -> Any:
    """The policy without weights; None where its configuration is not on this machine, or is of a model that sees."""
    config = config_of(flags["actor.model_name_or_path"] or "")
    if config is None or hasattr(config, "vision_config"):
        return None
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(copy.deepcopy(config), trust_remote_code=True, **more)


def _sync(value: str, flags: Flags) -> None:
    """What sends the weights to engines; a CPU's is not chosen."""
    from torch.distributed import Backend

    if flags["vllm.sync_with_ray"]:
        _made("ray.util.collective.types:Backend", "name")(value, flags)
    elif flags["device"] == "gpu" and value not in Backend.backend_list:
        raise Nonsense(f"which torch does not know{did_you_mean(value, Backend.backend_list, 'leave it out')}")


def _attention(value: str, flags: Flags) -> None:
    if "/" in value:  # a kernel of the hub, which nobody has asked to download
        return
    try:
        _policy(flags, attn_implementation=value)
    except ValueError:
        try:
            _policy(flags, attn_implementation="eager")
        except Exception:  # a model's own program may not work on nothing
            return
        raise


def _targets(value: list[str], flags: Flags) -> None:
    """LoRA's, on the policy."""
    policy = _policy(flags) if flags["ds.lora.rank"] else None
    if policy is None:
        return
    modules = [module for module, _ in policy.named_modules()]
    for one in value:
        if not any(f".{module}".endswith(f".{one}") for module in modules):  # which peft takes beside a right one
            known = {module.rpartition(".")[2] for module in modules}
            fix = did_you_mean(one, known, "leave the flag out for all linear layers")
            raise Nonsense(f"but the policy has no {one}{fix}")
    from peft import LoraConfig, TaskType, get_peft_model

    get_peft_model(policy, LoraConfig(task_type=TaskType.CAUSAL_LM, target_modules=value))


def _heads(role: str) -> Ask:
    def ask(value: int, flags: Flags) -> None:
        config = config_of(flags[f"{role}.model{'_name_or_path' * (role == 'actor')}"] or "")
        heads = getattr(config and config.get_text_config(), "num_attention_heads", None)
        if heads and heads % value:
            raise Nonsense(f"but has to divide its model's {heads} attention heads: give less.")

    return ask


def _correction(*names: str) -> Ask:
    def ask(value: Any, flags: Flags) -> None:
        from openrlhf.models.loss import PolicyLoss

        bounds = [0.0, *flags["algo.advantage.is_correction_threshold"]][-2:]  # as OpenRLHF's script completes them
        given = {name: flags[f"algo.advantage.{name}"] for name in ("is_correction_level", *names)}
        PolicyLoss(**given, is_correction_threshold=bounds if "is_correction_mode" not in names else [0.0, 1.0])

    return ask


ADAM, MUON = ("lr", "betas", "eps", "weight_decay"), ("lr", "momentum")
ASKED: dict[str, Ask] = {
    "rollout.temperature": _temperature,
    "rollout.top_p": _made("vllm.sampling_params:SamplingParams", "top_p"),
    "eval.temperature": _greedy,
    **dict.fromkeys(["vllm.tensor_parallel_size", "ds.tensor_parallel_size"], _heads("actor")),
    "guide.tensor_parallel_size": _heads("guide"),
    "vllm.sync_backend": _sync,
    **{f"{role}.lr_scheduler": _schedule(role) for role in ("actor", "critic")},
    **{f"{role}.adam.{name}": _optimiser("AdamW", name) for role in ("actor", "critic") for name in ADAM},
    **{f"{role}.muon.{name}": _optimiser("Muon", name) for role in ("actor", "critic") for name in MUON},
    "actor.dual_clip": _made("openrlhf.models.loss:PolicyLoss", "dual_clip"),
    "algo.advantage.is_correction_mode": _correction("is_correction_mode", "is_correction_gating"),
    "algo.advantage.is_correction_gating": _correction("is_correction_gating"),
    "data.prompt_probs": _shares,
    "data.dataloader_num_workers": _made("torch.utils.data:DataLoader", "num_workers", ()),
    "train.seed": _made("numpy.random:RandomState", "seed"),
    "ds.attn_implementation": _attention,
    "ds.experts_implementation": lambda value, flags: _policy(flags, experts_implementation=value),
    "ds.grad_accum_dtype": _made("deepspeed.runtime.config:DtypeEnum", "value"),
    "ds.zpg": _made("deepspeed.runtime.zero.config:DeepSpeedZeroConfig", "zero_hpz_partition_size"),
    "ds.lora.target_modules": _targets,
    "ds.lora.dropout": _dropout,
}
"""Flag -> what builds, of its value, the thing that it is for."""
