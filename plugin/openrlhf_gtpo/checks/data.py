"""What is in the files that a command line names, as far as this machine has them: rows, the policy's tokenizer and
chat template, the estimator's function, the guide's vocabulary."""

import functools
import glob
import hashlib
import itertools
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from openrlhf_gtpo.checks import Finding, named
from openrlhf_gtpo.checks.rules import in_a_file
from openrlhf_gtpo.data import tokenizer
from openrlhf_gtpo.data.references import ungradable
from openrlhf_gtpo.data.sources import DataUnusable, Place, is_local, names_of
from openrlhf_gtpo.data.table import rows
from openrlhf_gtpo.data.tokenizer import Lengths
from openrlhf_gtpo.errors import reason
from openrlhf_gtpo.flags import embedded, service_urls, whole_updates
from openrlhf_gtpo.model_size import positions_of

Flags = Mapping[str, Any]

SAMPLE = 2000
"""Most prompts whose lengths a dry run tells."""
SAME = 8
"""From so many rows on, the same label in all is a mistake."""
OFTEN = 10
"""From so many rows a prompt on, they are there by mistake, as in DAPO-Math-17k."""
QUESTION = "What is 6 times 7?"
_OPENS_THOUGHT = re.compile(r"(<(?:\w+:)?(?:think|thinking|thought|reasoning)>|\[THINK\])\s*\Z", re.IGNORECASE)


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


@dataclass(frozen=True)
class Reading:
    """A data set, and all that decides what is found in it."""

    name: str
    training: bool
    tokenizer: Any
    """The policy's; None where this machine does not have it."""
    split: str
    max_new_tokens: int | None
    max_len: int
    apply_chat_template: bool
    input_template: str | None
    input_key: str
    label_key: str | None
    image_key: str
    max_samples: int


@dataclass(frozen=True)
class Seen:
    """What was found in a data set, of which every row was read."""

    count: int
    asks: bool
    """Whether a prompt has the word ``boxed``."""
    sample: list[Any]
    """Prompts from all over it."""
    lengths: Lengths | None
    """What measured every prompt, if there was a tokenizer."""
    digests: list[bytes]
    """Of every prompt and label."""
    labels: dict[str, tuple[Place, int]]
    """Each reference answer, where it stands first, and how often it is there."""
    echoes: int
    """How many labels are their row's prompt."""
    prompts: int
    """How many prompts differ."""
    contradicted: int
    """How many rows have another label than the first with their prompt."""


def _readings(flags: Flags) -> Iterator[Reading]:
    """Of each data set."""
    loaded = _tokenizer(str(flags["actor.model_name_or_path"]))
    names = ("max_len", "apply_chat_template", "input_template", "input_key", "label_key", "image_key", "max_samples")
    same = {"max_new_tokens": flags["rollout.max_new_tokens"], **{name: flags[f"data.{name}"] for name in names}}
    for flag, split in (("data.prompt_dataset", "data.prompt_split"), ("eval.dataset", "eval.split")):
        for name in names_of(flags[flag]):
            yield Reading(name, flag == "data.prompt_dataset", loaded, flags[split], **same)


def _rows(flags: Flags) -> Iterator[Finding]:
    """The first bad row of each data set, prompts that leave no room for a response, too few rows for a step, and a
    chat template that cannot render them."""
    model = str(flags["actor.model_name_or_path"])
    loaded = _tokenizer(model)
    if loaded is not None and flags["data.apply_chat_template"] and (sentence := _template(loaded, model)):
        yield Finding("chat template", "fault", sentence)
        return
    if loaded is not None:
        yield from (Finding("prompts", "warning", sentence) for sentence in _around(loaded, flags, model))
    counts: list[int | None] = []
    for reading in _readings(flags):
        name = reading.name
        if _unread(flags, name):
            counts += [None] * reading.training
            yield Finding("data", "ok", f"{name} is read when training starts.")
            continue
        try:
            seen = _seen(reading)
        except DataUnusable as error:
            counts += [None] * reading.training
            yield Finding("data", "fault", str(error))
            continue
        counts += [seen.count] * reading.training
        if seen.lengths and (fault := seen.lengths.fault()):
            yield Finding("data", "fault", fault)
            continue
        by_service = bool(embedded(flags) or service_urls(flags))
        references = [*_references(name, seen)] if by_service else []
        yield from references
        if any(finding.state == "fault" for finding in references):
            continue
        warnings = [marked] if seen.lengths and (marked := seen.lengths.warning()) else []
        if seen.count >= OFTEN * seen.prompts:
            warnings.append(
                f"{name}: its {seen.count:,} rows have only {seen.prompts:,} prompts that differ: `openrlhf-gtpo data "
                "prepare` keeps each once, and --train.num_episodes repeats them."
            )
        if seen.contradicted and by_service:
            warnings.append(
                f"{name}: {seen.contradicted:,} rows have the prompt of an earlier row and another reference answer: "
                "`openrlhf-gtpo data prepare other --drop-ungradable` leaves such prompts out."
            )
        if not seen.asks and by_service:
            warnings.append(
                rf"{name}: no prompt asks for \boxed{{}}, where the grader reads an answer most surely: "
                "`openrlhf-gtpo data` writes prompts that do. Leave it as it is if the policy has learned to answer."
            )
        if seen.lengths is None:
            label = " and a label" if reading.label_key else ""
            warnings.append(
                f"{name}: each of {seen.count:,} rows has a prompt{label}, but whether the prompts fit --data.max_len "
                f"is not known, since the tokenizer of {model} is not on this machine, or does not load: training "
                "looks again when it has it."
            )
        if references and not warnings:
            continue
        fine = Finding("data", "ok", f"{name}: each of {seen.count:,} rows has what training needs.")
        yield from [Finding("data", "warning", sentence) for sentence in warnings] or [fine]
    yield from _too_few(flags, counts)


def _references(name: str, seen: Seen) -> Iterator[Finding]:
    """Reference answers that the reward service will refuse, or that say nothing of their prompts."""
    if seen.echoes == seen.count > 0:
        yield Finding(
            "references",
            "fault",
            f"{name}: the reference answer of each row is its prompt: name the column of answers by --data.label_key.",
        )
        return
    bad, left_out = ungradable([*seen.labels])
    lost = sum(seen.labels[label][1] for label in bad)
    count = seen.count - sum(seen.labels[label][1] for label in left_out)
    if lost:
        label, why = next(iter(bad.items()))
        yield Finding(
            "references",
            "fault" if lost == count else "warning",
            f"{name}: {lost:,} of {count:,} reference answers cannot be graded, so that nothing is "
            f"learned from their prompts; the first is {label[:60]!r} ({seen.labels[label][0]}): {why}; "
            "`openrlhf-gtpo data prepare other --drop-ungradable` leaves such rows out.",
        )
    if len(seen.labels) == 1 and seen.count >= SAME:
        (label,) = seen.labels
        yield Finding(
            "references",
            "warning",
            f"{name}: all {seen.count:,} rows have the reference answer {label[:60]!r}, which a policy learns to give "
            "without reading its prompt: name the column of answers by --data.label_key.",
        )


def _too_few(flags: Flags, counts: list[int | None]) -> Iterator[Finding]:
    """Fewer prompts than updates of all ranks take: the only batch would be left out. A guide's is filled."""
    if None in counts or flags["data.prompt_probs"] or flags["guide.model"]:
        return
    prompts = min(sum(count for count in counts if count), flags["data.max_samples"])
    samples, whole = flags["rollout.n_samples_per_prompt"], whole_updates(flags)
    needed = whole // math.gcd(whole, samples)
    if prompts < needed:
        lower = "--train.batch_size" + " or --rollout.micro_batch_size" * (whole != flags["train.batch_size"])
        yield Finding(
            "data",
            "fault",
            f"{prompts:,} prompts with {samples} responses each are fewer than the {needed:,} of an update on all "
            f"ranks, so that no step could be made: give more prompts, or lower {lower}.",
        )


@functools.cache
def _seen(reading: Reading) -> Seen:
    limits = reading.max_len, reading.max_new_tokens, reading.apply_chat_template, reading.input_template
    lengths = None if reading.tokenizer is None else Lengths(reading.tokenizer, *limits)
    asks, sample, every, count, echoes, contradicted = False, list[Any](), 1, 0, 0, 0
    answered: dict[int, Any] = {}
    labels: dict[str, tuple[Place, int]] = {}
    digests: list[bytes] = []
    found = rows(reading.name, reading.input_key, reading.label_key, (reading.image_key,), reading.split)
    for count, row in enumerate(itertools.islice(found, reading.max_samples), 1):
        if lengths is not None:
            lengths.add(row.place, row.prompt)
        digests.append(hashlib.blake2b(ascii((row.prompt, row.label)).encode(), digest_size=8).digest())
        contradicted += _differ(answered.setdefault(hash(str(row.prompt)), row.label), row.label)
        asks = asks or "boxed" in str(row.prompt)
        if row.label is not None:
            first, times = labels.get(row.label, (row.place, 0))
            labels[row.label] = first, times + 1
            echoes += row.label == row.prompt
        if count % every == 0:
            sample.append(row.prompt)
        if len(sample) > SAMPLE:
            sample, every = sample[1::2], 2 * every
    return Seen(count, asks, sample, lengths, digests, labels, echoes, len(answered), contradicted)


def _differ(one: Any, other: Any) -> bool:
    """Whether two labels are other texts, and not one number in two forms."""
    if one == other:
        return False
    try:
        return float(one) != float(other)
    except (TypeError, ValueError):
        return True


def _unread(flags: Flags, name: str) -> bool:
    return (flags["use_ms"] or flags["dry_run"]) and not is_local(name)


def digests(flags: Flags) -> list[bytes] | None:
    """Of every row that may be trained on, in the data's order; None where they are not read now, or are faulty."""
    readings = [reading for reading in _readings(flags) if reading.training]
    if any(_unread(flags, reading.name) for reading in readings):
        return None
    try:
        return [one for reading in readings for one in _seen(reading).digests][: flags["data.max_samples"]]
    except DataUnusable:
        return None


@functools.cache
def _tokenizer(model: str) -> Any:
    """The tokenizer of a folder, or of a hub id in the cache; None where there is none. Nothing is downloaded."""
    if not os.path.isdir(model):
        from huggingface_hub import try_to_load_from_cache

        cached = try_to_load_from_cache(model, "tokenizer_config.json")
        if not isinstance(cached, str):
            return None
        model = os.path.dirname(cached)
    # Of a config.json alone transformers makes a tokenizer without tokens.
    if not glob.glob(f"{glob.escape(model)}/*token*") and not glob.glob(f"{glob.escape(model)}/*vocab*"):
        return None
    try:
        return tokenizer.load(model, local_files_only=True)
    except Exception:  # transformers raises many kinds
        return None


def prompt_lengths(flags: Flags) -> Iterator[tuple[str, int | None, list[int]]]:
    """Each data set of prompts, how many it has, and the tokens of some from all over it; None and empty where that is
    not known here."""
    for reading in _readings(flags):
        if not reading.training:
            continue
        if not is_local(reading.name):
            yield reading.name, None, []
            continue
        seen = _seen(reading)
        yield reading.name, seen.count, [*map(seen.lengths.tokens, seen.sample)] if seen.lengths else []


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
            "eval` need: put the chat_template.jinja of a model of the same family into the folder."
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
            "check that the folder has the tokenizer files and the tokenizer_class that belong to the model."
        )
    return None


def _around(loaded: Any, flags: Flags, model: str) -> Iterator[str]:
    """What stands before and behind each prompt, where a model may expect something else."""
    chat, template = flags["data.apply_chat_template"], flags["data.input_template"] or ""
    if not chat and tokenizer.begins_with_bos(loaded) and not template.startswith(loaded.bos_token):
        yield (
            f"The tokenizer of {model} puts {loaded.bos_token} before each text, but prompts are sent without it: if "
            f"the model was trained with it, give --data.input_template '{loaded.bos_token}{template or '{}'}'."
        )
    if chat and "strftime_now" in str(loaded.chat_template):
        yield (
            f"The chat template of {model} writes today's date, so that a repeated or resumed run has other prompts: "
            "write one date into the template if they are to be the same."
        )
    if chat and (opened := _OPENS_THOUGHT.search(tokenizer.rendered(loaded, QUESTION))):
        yield (
            f"The chat template of {model} ends a prompt with {opened[1]}: each response begins inside a thought, and "
            "an answer counts only behind its end: give --rollout.max_new_tokens room for both, or change the "
            "template."
        )


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
    policy, guide = flags["actor.model_name_or_path"], flags["guide.model"]
    ours, theirs = (guide and _tokenizer(model) for model in (policy, guide))
    if ours and theirs and (fault := tokenizer.difference(policy, ours, guide, theirs)):
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
