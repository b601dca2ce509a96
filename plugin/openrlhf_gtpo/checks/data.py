"""What is in the files that a command line names, as far as this machine has them: rows, the policy's tokenizer and
chat template, the estimator's function, the guide's vocabulary."""

import functools
import glob
import hashlib
import itertools
import math
import os
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from math_reward.nearest import did_you_mean
from openrlhf_gtpo.checks import Finding, named
from openrlhf_gtpo.checks.rules import in_a_file
from openrlhf_gtpo.data import tokenizer
from openrlhf_gtpo.data.formats import left_out
from openrlhf_gtpo.data.references import ungradable
from openrlhf_gtpo.data.sources import DataUnusable, Place, is_local, names_of, prepared_by
from openrlhf_gtpo.data.table import Row, rows
from openrlhf_gtpo.data.tokenizer import Lengths
from openrlhf_gtpo.errors import reason
from openrlhf_gtpo.flags import embedded, service_urls, whole_updates
from openrlhf_gtpo.model_size import positions_of

Flags = Mapping[str, Any]

LIMITS = ("data.max_len", "rollout.max_new_tokens", "data.apply_chat_template", "data.input_template")
"""What `Lengths` takes."""
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
        ("best metric", _metric(flags)),
    ):
        for sentence in sentences:
            yield Finding(name, "fault", sentence)


@dataclass
class Seen:
    """What was found in a data set, of which every row was read."""

    prepared: str
    """The command that prepares it; empty without a column of labels."""
    lengths: Lengths | None
    """What measured every prompt, if there was a tokenizer."""
    count: int = 0
    asks: bool = False
    """Whether a prompt has the word ``boxed``."""
    left_out: str = ""
    """What the first prompt lacks that does."""
    sample: list[Any] = field(default_factory=list)
    """Prompts, drawn from all over it."""
    digests: list[bytes] = field(default_factory=list)
    """Of every prompt and label."""
    labels: dict[str, tuple[Place, int]] = field(default_factory=dict)
    """Each reference answer, where it stands first, and how often it is there."""
    first: dict[int, float | str | None] = field(default_factory=dict)
    """The first label of each prompt."""
    echoes: int = 0
    """How many labels are their row's prompt."""
    contradicted: int = 0
    """How many rows have another label than the first with their prompt."""
    sources: set[str] = field(default_factory=set)
    """Under which evaluations are logged."""
    drawn: random.Random = field(default_factory=lambda: random.Random(0))

    def add(self, row: Row) -> None:
        self.count += 1
        text = str(row.prompt)
        self.digests.append(hashlib.blake2b(ascii((row.prompt, row.label)).encode(), digest_size=8).digest())
        number = _number(row.label)
        self.contradicted += self.first.setdefault(hash(text), number) != number
        self.asks = self.asks or "boxed" in text
        self.sources.add(str(row.values.get("datasource") or "default"))
        if row.label is not None:
            where, times = self.labels.get(row.label, (row.place, 0))
            self.labels[row.label] = where, times + 1
            self.echoes += row.label == row.prompt
        place = self.count - 1 if self.count <= SAMPLE else self.drawn.randrange(self.count)
        self.sample[place : place + 1] = [row.prompt] * (place < SAMPLE)


def _data_sets(flags: Flags) -> Iterator[tuple[str, bool, Callable[[], Seen] | None]]:
    """Each data set, whether it is trained on, and what reads it; None where that is not done now."""
    limits = tuple(flags[name] for name in LIMITS)
    columns, most = tuple(flags[f"data.{name}_key"] for name in ("input", "label", "image")), flags["data.max_samples"]
    loaded = _tokenizer(str(flags["actor.model_name_or_path"]))
    for flag, split in (("data.prompt_dataset", "data.prompt_split"), ("eval.dataset", "eval.split")):
        for name in names_of(flags[flag]):
            later = (flags["use_ms"] or flags["dry_run"]) and not is_local(name)
            read = None if later else functools.partial(_seen, name, flags[split], loaded, limits, columns, most)
            yield name, flag == "data.prompt_dataset", read


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
    by_service = bool(embedded(flags) or service_urls(flags))
    counts: list[int | None] = []
    for name, training, read in _data_sets(flags):
        seen = None
        if read is None:
            yield Finding("data", "ok", f"{name} is read when training starts.")
        else:
            try:
                seen = read()
            except DataUnusable as error:
                yield Finding("data", "fault", str(error))
        counts += [None if seen is None else seen.count] * training
        if seen is None:
            continue
        references = [*_references(name, seen)] if by_service else []
        yield from references
        if any(finding.state == "fault" for finding in references):
            continue
        warnings = [Finding("data", "warning", said) for said in _warnings(name, seen, by_service, model)]
        fine = Finding("data", "ok", f"{name}: each of {seen.count:,} rows has what training needs.")
        yield from warnings or [fine] * (not references)
    yield from _too_few(flags, counts)


def _warnings(name: str, seen: Seen, by_service: bool, model: str) -> Iterator[str]:
    """What may be meant."""
    if seen.lengths and (marked := seen.lengths.warning()):
        yield marked
    if seen.left_out:
        yield seen.left_out
    if seen.count >= OFTEN * len(seen.first):
        once = f"{seen.prepared} keeps each once" if seen.prepared else "keep each once"
        yield (
            f"{name}: its {seen.count:,} rows have only {len(seen.first):,} prompts that differ: {once}, and "
            "--train.num_episodes repeats them."
        )
    if seen.contradicted and by_service:
        yield (
            f"{name}: {seen.contradicted:,} rows have the prompt of an earlier row and another reference answer: "
            f"{seen.prepared} leaves such prompts out."
        )
    if not seen.asks and by_service and seen.prepared:
        yield (
            rf"{name}: no prompt asks for \boxed{{}}, where the grader reads an answer most surely: {seen.prepared} "
            "writes prompts that do. Leave it as it is if the policy has learned to answer."
        )
    if seen.lengths is None:
        yield (
            f"{name}: each of {seen.count:,} rows has a prompt{' and a label' * bool(seen.labels)}, but whether the "
            f"prompts fit --data.max_len is not known, since the tokenizer of {model} is not on this machine, or does "
            "not load: training looks again when it has it."
        )


def _references(name: str, seen: Seen) -> Iterator[Finding]:
    """Reference answers that the reward service will refuse, or that say nothing of their prompts."""
    column = "name the column of answers by --data.label_key"
    if seen.echoes == seen.count > 0:
        said = f"{name}: the reference answer of each row is its prompt: {column}."
        yield Finding("references", "fault", said)
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
            f"{seen.prepared} leaves such rows out.",
        )
    if len(seen.labels) == 1 and seen.count >= SAME:
        (label,) = seen.labels
        said = (
            f"{name}: all {seen.count:,} rows have the reference answer {label[:60]!r}, which a policy learns to give"
        )
        yield Finding("references", "warning", f"{said} without reading its prompt: {column}.")


def _too_few(flags: Flags, counts: list[int | None]) -> Iterator[Finding]:
    """Fewer prompts than updates of all ranks take: the only batch would be left out. A guide's is filled."""
    if None in counts or flags["data.prompt_probs"] or flags["guide.model"]:
        return
    prompts = min(sum(count for count in counts if count), flags["data.max_samples"])
    samples, whole = flags["rollout.n_samples_per_prompt"], whole_updates(flags)
    needed = whole // math.gcd(whole, samples)
    if prompts < needed:
        lower = "--train.batch_size" + " or --rollout.micro_batch_size" * (whole != flags["train.batch_size"])
        few = f"{prompts:,} prompts with {samples} responses each are fewer than the {needed:,} of an update on all"
        said = f"{few} ranks, so that no step could be made: give more prompts, or lower {lower}."
        yield Finding("data", "fault", said)


@functools.cache
def _seen(name: str, split: str, loaded: Any, limits: tuple[Any, ...], columns: tuple[Any, ...], most: int) -> Seen:
    input_key, label_key, image_key = columns
    prepared = prepared_by(name, split, input_key, label_key) if label_key else ""
    seen = Seen(prepared, None if loaded is None else Lengths(loaded, *limits))
    for row in itertools.islice(rows(name, input_key, label_key, (image_key, "datasource"), split), most):
        if seen.lengths is not None:
            seen.lengths.add(row.place, row.prompt)
        seen.add(row)
        if not seen.left_out and (why := left_out(row.values, input_key, row.prompt, row.label)):
            seen.left_out = f"{row.place}: {why}."
            if input_key == "input" and label_key:  # a part of the prompt, which `data prepare` finds whole
                seen.prepared = prepared_by(name, split, None, label_key)
    if seen.lengths is not None:
        seen.lengths.end()
    return seen


def _number(label: str | None) -> float | str | None:
    """A label, of which one number in two forms is one."""
    try:
        return label if math.isnan(number := float(label or "")) else number
    except ValueError:
        return label


def digests(flags: Flags) -> list[bytes] | None:
    """Of every row that may be trained on, in the data's order; None where they are not read now, or are faulty."""
    readers = [read for _, training, read in _data_sets(flags) if training]
    try:
        found = [one for read in readers if read for one in read().digests]
    except DataUnusable:
        return None
    return None if None in readers else found[: flags["data.max_samples"]]


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
    for name, training, read in _data_sets(flags):
        if training and not (is_local(name) and read):
            yield name, None, []
        elif training and read:
            seen = read()
            yield name, seen.count, [*map(seen.lengths.tokens, seen.sample)] if seen.lengths else []


def _template(loaded: Any, model: str) -> str | None:
    """What is wrong with a chat template: a model that is not asked to answer trains on nonsense without an error."""
    if loaded.eos_token_id is None:
        return f"The tokenizer of {model} has no end-of-sequence token: set eos_token in its tokenizer_config.json."
    if loaded.chat_template is None:
        fix = "put the chat_template.jinja of a model of the same family into the folder"
        return f"The tokenizer of {model} has no chat template, for --data.apply_chat_template: {fix}."
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
        fix = "make it use add_generation_prompt"
        return f"The chat template of {model} does not end a prompt with the opening of the model's answer: {fix}."
    back = loaded.decode(loaded(prompt, add_special_tokens=False)["input_ids"])
    if "".join(QUESTION.split()) not in "".join(back.split()):
        fix = "look at the tokenizer's files, and at its tokenizer_class"
        return f"The tokenizer of {model} makes tokens of a question that decode to {back[:60]!r}: {fix}."
    return None


def _around(loaded: Any, flags: Flags, model: str) -> Iterator[str]:
    """What stands before and behind each prompt, where a model may expect something else."""
    chat, template = flags["data.apply_chat_template"], flags["data.input_template"] or ""
    if not chat and tokenizer.begins_with_bos(loaded) and not template.startswith(loaded.bos_token):
        with_it = f"--data.input_template '{loaded.bos_token}{template or '{}'}' sends it"
        yield f"The tokenizer of {model} puts {loaded.bos_token} before each text, but prompts lack it: {with_it}."
    if chat and "strftime_now" in str(loaded.chat_template):
        yield f"The chat template of {model} writes today's date, which a resumed run has not: write one into it."
    if chat and (opened := _OPENS_THOUGHT.search(tokenizer.rendered(loaded, QUESTION))):
        room = "give --rollout.max_new_tokens room for it and the answer behind it, or change the template"
        yield f"The chat template of {model} ends a prompt with {opened[1]}, so that a thought comes first: {room}."


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
            has = f"{most:,} positions (max_position_embeddings)"
            yield f"--data.max_len is {flags['data.max_len']:,}, but {model} has {has}: give at most {most}."


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
        yield "--logger.wandb.enable finds no key: set WANDB_API_KEY, run `wandb login`, or set WANDB_MODE=offline."


def _metric(flags: Flags) -> Iterator[str]:
    """A metric for the best checkpoint that no evaluation logs, so that there would be none."""
    key, names = flags["ckpt.best_metric_key"], names_of(flags["eval.dataset"])
    if key in ("", "none"):
        return
    if not names or flags["eval.steps"] == -1:
        yield f"--ckpt.best_metric_key {key} is never logged without --eval.dataset and --eval.steps: give both."
    readers = [read for _, training, read in _data_sets(flags) if not training]
    try:
        sources = {source for read in readers if read for source in read().sources}
    except DataUnusable:  # which is said elsewhere
        return
    samples = flags["eval.n_samples_per_prompt"]
    measures = [f"pass{k}" for k in sorted({1, samples, *(2**power for power in range(samples.bit_length()))})]
    measures += ["response_length_mean", "truncated_rate", "entropy_token_mean", "entropy_response_mean"]
    known = [f"eval_{source}_{measure}" for source in sorted(sources) for measure in measures]
    totals = ["eval_response_length_mean", "eval_truncated_rate", "eval_num_samples"]
    if known and None not in readers and key not in (*known, *totals):
        fix = did_you_mean(key, known, f"the first is {known[0]}")
        yield f"--ckpt.best_metric_key {key} is no metric of --eval.dataset{fix}"
