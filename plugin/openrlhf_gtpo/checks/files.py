"""Checks of the models, data sets and programs that a command line names: whether they are there, and whether those
that this machine has can be used."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from math_reward.nearest import did_you_mean
from openrlhf_gtpo.algorithms.table import in_a_file, line_of
from openrlhf_gtpo.algorithms.user_file import FileUnusable
from openrlhf_gtpo.checks.data import check_data
from openrlhf_gtpo.checks.findings import Finding, fault, ok, skipped
from openrlhf_gtpo.controller.updates_file import UpdatesUnusable, read_updates
from openrlhf_gtpo.data import tokenizer
from openrlhf_gtpo.data.named_files import data_faults, is_offline, model_fault, python_fault
from openrlhf_gtpo.driver.model_size import positions_of, too_few_positions
from openrlhf_gtpo.errors import reason
from openrlhf_gtpo.guide.solutions import SolutionsUnusable, read_solutions
from openrlhf_gtpo.guide.vocabulary import vocabulary_fault
from openrlhf_gtpo.settings import Settings

NAME, TEMPLATE = "files", "chat template"
QUESTION = "What is 6 times 7?"


def in_the_files(settings: Settings) -> Iterator[Finding]:
    """What is in the files that the command line names, as far as this machine has them: nothing is downloaded."""
    model = settings.flags["actor.model_name_or_path"]
    yield from check_data(settings, lambda: tokenizer.load(model) if Path(model).is_dir() else None)
    yield from check_contents(settings)
    yield from check_positions(settings)


def check_contents(settings: Settings) -> Iterator[Finding]:
    """Faults of the schedules, of the user's own estimator, of wandb, of the guide and of another run's updates."""
    yield from _check_schedules(settings)
    yield from _check_wandb(settings)
    yield from _check_function(settings)
    yield from check_guide(settings)
    yield from check_updates(settings)


def check_named(settings: Settings, whole: bool = True) -> list[Finding]:
    """Models, data sets and Python files that this run would use and that do not exist.

    Args:
        settings: of the command line.
        whole: whether it has to name a policy and prompts, as every run does.
    """
    flags, guide = settings.flags, settings.guide
    needed = {
        "actor.model_name_or_path": "name the policy, a folder or a hub id",
        "data.prompt_dataset": "name the prompts, such as a .jsonl file",
    }
    sentences = [f"No --{flag}: {fix}." for flag, fix in needed.items() if whole and not flags[flag]]
    offline = is_offline() and not flags["use_ms"]  # ModelScope has a cache of its own
    models = {"--actor.model_name_or_path": flags["actor.model_name_or_path"]}
    if settings.estimator == "gae":
        models["--critic.model_name_or_path"] = flags["critic.model_name_or_path"]
    if not (flags["reward.remote_url"] or flags["train.agent_func_path"]):
        models["--reward.model_name_or_path"] = flags["reward.model_name_or_path"]
    if guide:
        models["--guide.model"] = guide.model
    # The platform for CPUs switches the hub off; a plan for GPUs does not need it.
    plans_for_cpu = flags["dry_run"] and settings.device == "cpu"
    otherwise = "; --device gpu plans a run on GPUs without it" if plans_for_cpu else ""
    sentences += [
        sentence
        for flag, name in models.items()
        if name and (sentence := model_fault(flag, name, offline=offline, otherwise=otherwise))
    ]
    for flag in ("data.prompt_dataset", "eval.dataset"):
        if flags[flag]:
            shares = flags["data.prompt_probs"] if flag == "data.prompt_dataset" else None
            sentences += data_faults(f"--{flag}", flags[flag], offline=offline, probabilities=shares)
    programs = {"--train.agent_func_path": flags["train.agent_func_path"]}
    first = (flags["reward.remote_url"] or "").split(",")[0]  # OpenRLHF looks at the first only
    if first.endswith(".py"):
        programs["--reward.remote_url"] = first
    sentences += [said for flag, name in programs.items() if name and (said := python_fault(flag, name))]
    return [fault(NAME, sentence) for sentence in sentences]


def check_positions(settings: Settings) -> list[Finding]:
    """Whether the models have a position for each token of a prompt and its response. If not, vLLM would refuse them
    when its engines start."""
    name, length, guide = "positions", settings.flags["data.max_len"], settings.guide
    if os.environ.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN") == "1":
        return [skipped(name, "Not checked: VLLM_ALLOW_LONG_MAX_MODEL_LEN is 1.")]
    findings = []
    for model in filter(None, (settings.flags["actor.model_name_or_path"], guide and guide.model)):
        most = positions_of(model)
        if most is None:
            findings.append(skipped(name, f"Not checked: {model} has no config.json here, or scales its positions."))
        elif most < length:
            findings.append(fault(name, f"--data.max_len is {length:,}, but {too_few_positions(model, most)}."))
        else:
            findings.append(ok(name, f"{model} has {most:,} positions for {length:,} tokens."))
    return findings or [skipped(name, "Not checked: give --actor.model_name_or_path.")]


def _check_schedules(settings: Settings) -> list[Finding]:
    """Learning rate schedules that transformers does not have. Imports transformers, which takes seconds, only for a
    name other than the default."""
    named = {f"--{role}.lr_scheduler": settings.flags[f"{role}.lr_scheduler"] for role in ("actor", "critic")}
    others = {flag: name for flag, name in named.items() if name != "cosine_with_min_lr"}
    if not others:
        return []
    from transformers import SchedulerType

    known = [str(member.value) for member in SchedulerType]
    listed = f"it has {', '.join(known)}"
    return [
        fault(NAME, f"{flag} is {name}, which transformers does not have{did_you_mean(name, known, listed)}")
        for flag, name in others.items()
        if name not in known
    ]


def _check_wandb(settings: Settings) -> list[Finding]:
    """Whether wandb is there and has a key, by the question that OpenRLHF asks it when training starts."""
    if not settings.flags["logger.wandb.enable"]:
        return []
    try:
        import wandb
    except ImportError as error:
        return [fault(NAME, f"--logger.wandb.enable needs wandb, which cannot be imported ({error}): install it.")]
    if os.environ.get("WANDB_MODE", "online") == "online" and not wandb.api.api_key:
        sentence = "finds no key: set WANDB_API_KEY, run `wandb login`, or set WANDB_MODE=offline to keep the log here"
        return [fault(NAME, f"--logger.wandb.enable {sentence}.")]
    return []


def _check_function(settings: Settings) -> list[Finding]:
    """A function or an estimator of the user's own that does not work on a small batch. Imports torch and runs the
    user's file only if there is one."""
    name = settings.estimator
    if not in_a_file(name):
        return []
    from openrlhf_gtpo.algorithms.user_function import try_out

    try:
        if line := line_of(name):
            try_out(name, line, settings.options(line.flags), settings.flags["rollout.n_samples_per_prompt"])
    except FileUnusable as error:
        return [fault(NAME, f"--algo.advantage.estimator: {error}.")]
    return []


def check_guide(settings: Settings) -> list[Finding]:
    """Faults in the guide's vocabulary, or in its file of solutions."""
    model, solutions = settings.flags["guide.model"], settings.flags["guide.solutions"]
    if model:
        policy = str(settings.flags["actor.model_name_or_path"])
        sentence = vocabulary_fault(policy, model)
        return [fault("guide", sentence)] if sentence else []
    if solutions:
        try:
            read_solutions(solutions, settings.flags["data.input_key"])
        except SolutionsUnusable as error:
            return [fault("guide", str(error))]
    return []


def check_updates(settings: Settings) -> list[Finding]:
    """Faults in the file with another run's numbers of updates."""
    if settings.updates_from is None or settings.max_steps is None:
        return []
    try:
        read_updates(settings.updates_from, settings.max_steps)
    except UpdatesUnusable as error:
        return [fault("updates", str(error))]
    return []


def check_template(settings: Settings) -> Finding:
    """Check that the policy's chat template renders a question so that the model answers it and its response can end.
    A tokenizer that is not on this machine is downloaded."""
    model = settings.flags["actor.model_name_or_path"]
    if model is None:
        return skipped(TEMPLATE, "Not checked: give --actor.model_name_or_path.")
    try:
        loaded = tokenizer.load(model)
    except Exception as error:  # transformers raises many kinds
        return fault(
            TEMPLATE,
            f"The tokenizer of {model} cannot be loaded ({reason(error)}): give a folder with the model and its "
            "tokenizer, or the id of a model in the Hugging Face cache.",
        )
    return _check_template(loaded, model)


def _check_template(tokenizer: Any, model: str) -> Finding:
    if tokenizer.eos_token_id is None:
        return fault(
            TEMPLATE,
            f"The tokenizer of {model} has no end-of-sequence token, so responses never end and cannot be padded: "
            "set eos_token in its tokenizer_config.json.",
        )
    if tokenizer.chat_template is None:
        return fault(
            TEMPLATE,
            f"The tokenizer of {model} has no chat template, which --data.apply_chat_template and `openrlhf-gtpo "
            "eval` need: put the chat_template.jinja of a model of the same family into the folder.",
        )
    try:
        chat = [{"role": "user", "content": QUESTION}]
        prompt = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        closed = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=False)
    except Exception as error:  # a template is a program, which may raise anything
        return fault(
            TEMPLATE, f"The chat template of {model} cannot render a question ({reason(error)}): fix the template."
        )
    if QUESTION not in prompt:
        return fault(
            TEMPLATE, f"The chat template of {model} leaves the question out of the prompt: fix the template."
        )
    back = tokenizer.decode(tokenizer(prompt, add_special_tokens=False)["input_ids"])
    if "".join(QUESTION.split()) not in "".join(back.split()):
        return fault(
            TEMPLATE,
            f"The tokenizer of {model} turns a question into tokens that decode to another text ({back[:60]!r}): "
            "check that the folder has the tokenizer files and the tokenizer_class that belong to the model.",
        )
    opening = prompt[len(closed) :]
    if not prompt.startswith(closed) or not opening:
        return fault(
            TEMPLATE,
            f"The chat template of {model} does not end a prompt with the opening of the model's answer: make it use "
            "add_generation_prompt.",
        )
    return ok(
        TEMPLATE,
        f"It renders a question, opens the answer with {opening!r}, and the end-of-sequence token is "
        f"{tokenizer.eos_token}.",
    )
