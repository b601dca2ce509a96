"""What is in the files that a command line names, as far as this machine has them: rows, the policy's tokenizer and
chat template, the estimator's function, the guide's vocabulary."""

import functools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from openrlhf_gtpo.checks import Finding, named, places
from openrlhf_gtpo.checks.rules import in_a_file
from openrlhf_gtpo.data import tokenizer
from openrlhf_gtpo.data.table import DataUnusable, Row, is_lines, rows
from openrlhf_gtpo.errors import reason
from openrlhf_gtpo.flags import embedded, service_urls
from openrlhf_gtpo.model_size import positions_of

Flags = Mapping[str, Any]

SAMPLE = 2000
"""Most rows that are tokenized."""
QUESTION = "What is 6 times 7?"


def check(flags: Flags) -> Iterator[Finding]:
    """Whether everything that is named is there, then what is in it."""
    missing = [Finding("files", "fault", sentence) for sentence in named.faults(flags)]
    yield from missing
    if missing:
        return
    yield from _rows(flags)
    for name, sentences in (
        ("estimator", _function(flags)),
        ("positions", _positions(flags)),
        ("guide", _vocabulary(flags)),
        ("wandb", _wandb(flags)),
    ):
        for sentence in sentences:
            yield Finding(name, "fault", sentence)


def _files(flags: Flags) -> list[Path]:
    """The files of JSON lines among the data sets; OpenRLHF itself reads other sources, such as a hub id."""
    listed = [flags[flag] for flag in ("data.prompt_dataset", "eval.dataset") if flags[flag]]
    paths = [Path(name.strip()) for name in ",".join(listed).split(",")]
    return [path for path in paths if path.is_file() and is_lines(path)]


def _rows(flags: Flags) -> Iterator[Finding]:
    """The first bad line of each file, prompts that leave no room for a response, and a chat template that cannot
    render them."""
    model = str(flags["actor.model_name_or_path"])
    loaded = _tokenizer(model)
    if loaded is not None and flags["data.apply_chat_template"] and (sentence := _template(loaded, model)):
        yield Finding("chat template", "fault", sentence)
        return
    for path in _files(flags):
        try:
            found = _sampled(path, flags["data.input_key"], flags["data.label_key"])
        except DataUnusable as error:
            yield Finding("data", "fault", str(error))
            continue
        asks = any("boxed" in str(row.prompt) for row in found)
        if not asks and (embedded(flags) or service_urls(flags)):
            yield Finding(
                "data",
                "warning",
                rf"{path}: no prompt asks for \boxed{{}}, where the grader reads an answer most surely: "
                rf"`openrlhf-gtpo "
                "data` writes prompts that do. Leave it as it is if the policy has learned how to answer.",
            )
        if loaded is None or not flags["data.apply_chat_template"]:
            yield Finding("data", "ok", f"{path}: every row has a prompt and what it is compared with.")
        else:
            yield _lengths(path, found, loaded, flags)


@functools.cache
def _sampled(path: Path, input_key: str, label_key: str | None) -> list[Row]:
    """Rows spread over a file, of which every line was read."""
    found = list(rows(path, input_key, label_key))
    return found[:: -(-len(found) // SAMPLE)]


@functools.cache
def _tokenizer(model: str) -> Any:
    """The tokenizer of a folder; None where there is none, which training itself will say. Nothing is downloaded."""
    if not os.path.isdir(model):
        return None
    try:
        return tokenizer.load(model)
    except Exception:  # transformers raises many kinds
        return None


def _room(flags: Flags) -> int:
    """Most tokens of a prompt that leave room for its response."""
    return flags["data.max_len"] - (flags["rollout.max_new_tokens"] or 1)


def _lengths(path: Path, found: list[Row], loaded: Any, flags: Flags) -> Finding:
    """Prompts that leave no room for the response; OpenRLHF would cut off their beginning."""
    try:
        lengths = {row.line: _tokens(loaded, row.prompt) for row in found}
    except Exception as error:  # a chat template is a program, which may raise anything
        return Finding("data", "fault", f"{path}: the chat template cannot render a prompt ({reason(error)}): fix it.")
    longest, room = max(lengths, key=lengths.__getitem__), _room(flags)
    long = [line for line, length in lengths.items() if length > room]
    if not long:
        return Finding("data", "ok", f"{path}: the longest prompt has {lengths[longest]:,} tokens of {room:,}.")
    return Finding(
        "data",
        "fault",
        f"{path}: {len(long):,} of {len(found):,} prompts have more than {room:,} tokens (--data.max_len "
        f"{flags['data.max_len']} less --rollout.max_new_tokens {flags['rollout.max_new_tokens'] or 1}), in "
        f"{places(long)}, the longest {lengths[longest]:,} in line {longest}; OpenRLHF would cut off their beginning: "
        "raise --data.max_len or leave them out.",
    )


def _tokens(loaded: Any, prompt: Any) -> int:
    return len(loaded(tokenizer.rendered(loaded, prompt), add_special_tokens=False)["input_ids"])


def prompt_lengths(flags: Flags) -> Iterator[tuple[str, list[int]]]:
    """Each data set of prompts, and the tokens of its sampled prompts; empty where they are not known here."""
    loaded = _tokenizer(str(flags["actor.model_name_or_path"]))
    lines = [*map(str, _files(flags))]
    for name in str(flags["data.prompt_dataset"]).split(","):
        if loaded is None or name.strip() not in lines:
            yield name.strip(), []
            continue
        found = _sampled(Path(name.strip()), flags["data.input_key"], flags["data.label_key"])
        yield name.strip(), [_tokens(loaded, row.prompt) for row in found]


def _template(loaded: Any, model: str) -> str | None:
    """What is wrong with a chat template: a model that is not asked to answer trains on nonsense without an error."""
    if loaded.eos_token_id is None:
        return (
            f"The tokenizer of {model} has no end-of-sequence token, so responses never end and cannot be padded: set "
            "eos_token in its tokenizer_config.json."
        )
    if loaded.chat_template is None:
        return (
            f"The tokenizer of {model} has no chat template, which --data.apply_chat_template and `openrlhf-gtpo "
            f"eval` "
            "need: put the chat_template.jinja of a model of the same family into the folder."
        )
    chat = [{"role": "user", "content": QUESTION}]
    try:
        prompt, closed = (
            loaded.apply_chat_template(chat, tokenize=False, add_generation_prompt=opens) for opens in (True, False)
        )
    except Exception as error:  # a template is a program, which may raise anything
        return f"The chat template of {model} cannot render a question ({reason(error)}): fix the template."
    if QUESTION not in prompt:
        return f"The chat template of {model} leaves the question out of the prompt: fix the template."
    if not prompt.startswith(closed) or prompt == closed:
        return (
            f"The chat template of {model} does not end a prompt with the opening of the model's answer: make it use "
            "add_generation_prompt."
        )
    back = loaded.decode(loaded(prompt, add_special_tokens=False)["input_ids"])
    if "".join(QUESTION.split()) not in "".join(back.split()):
        return (
            f"The tokenizer of {model} turns a question into tokens that decode to another text ({back[:60]!r}): "
            f"check "
            "that the folder has the tokenizer files and the tokenizer_class that belong to the model."
        )
    return None


def _function(flags: Flags) -> Iterator[str]:
    """A user's own estimator that does not work on a small batch. Imports torch and the file only if there is one."""
    name = flags["algo.advantage.estimator"]
    if not in_a_file(name):
        return
    from openrlhf_gtpo.algorithms.estimators import try_out

    try:
        try_out(name, flags["rollout.n_samples_per_prompt"])
    except ValueError as error:
        yield f"--algo.advantage.estimator: {error}"


def _positions(flags: Flags) -> Iterator[str]:
    """Models with too few positions, which vLLM would refuse when its engines start."""
    if os.environ.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN") == "1":
        return
    for model in filter(None, (flags["actor.model_name_or_path"], flags["guide.model"])):
        most = positions_of(model)
        if most is not None and most < flags["data.max_len"]:
            yield (
                f"--data.max_len is {flags['data.max_len']:,}, but the model {model} has {most:,} positions "
                f"(max_position_embeddings in its config.json): give at most {most}, or a model with more."
            )


def _vocabulary(flags: Flags) -> Iterator[str]:
    """A guide whose tokens are other ones than the policy's."""
    policy, guide = str(flags["actor.model_name_or_path"]), str(flags["guide.model"])
    ours, theirs = _tokenizer(policy), _tokenizer(guide)
    if ours is not None and theirs is not None and (fault := tokenizer.difference(policy, ours, guide, theirs)):
        yield fault


def _wandb(flags: Flags) -> Iterator[str]:
    """wandb without its package or its key, which OpenRLHF would ask for when training starts."""
    if not flags["logger.wandb.enable"]:
        return
    try:
        import wandb
    except ImportError as error:
        yield f"--logger.wandb.enable needs wandb, which cannot be imported ({error}): install it."
        return
    if os.environ.get("WANDB_MODE", "online") == "online" and not wandb.api.api_key:
        yield (
            "--logger.wandb.enable finds no key: set WANDB_API_KEY, run `wandb login`, or set WANDB_MODE=offline to "
            "keep the log here."
        )
