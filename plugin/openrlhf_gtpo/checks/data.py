"""Checks of the data sets that a command line names, where they are files of JSON lines: the form of every line, the
prompts with the tokenizer, the references with the grader. OpenRLHF itself reads other sources, such as a hub id."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from math_reward.client import Client, ClientError, Item, Refused
from math_reward.client import Settings as ClientSettings
from openrlhf_gtpo.checks.findings import Finding, fault, ok, places, skipped, warning
from openrlhf_gtpo.data.json_lines import NotOpened, Unreadable, is_lines
from openrlhf_gtpo.data.survey import Row, Survey, read_rows, survey
from openrlhf_gtpo.data.tokenizer import rendered
from openrlhf_gtpo.errors import reason
from openrlhf_gtpo.settings import Settings

ROWS, LABELS, REPEATS, LENGTHS, ANSWERS, REFERENCES = (
    "data: rows",
    "data: labels",
    "data: repeats",
    "data: lengths",
    "data: answers",
    "data: references",
)

SAMPLE = 2000
"""Most rows that the tokenizer and the grader check."""

GRADING_SECONDS = 120.0


def _files(settings: Settings) -> list[Path]:
    """The files of JSON lines among the data sets."""
    named = [str(settings.flags[flag] or "") for flag in ("data.prompt_dataset", "eval.dataset")]
    paths = [Path(part.strip()) for part in ",".join(named).split(",")]
    return [path for path in paths if path.suffix in (".jsonl", ".json") and path.is_file() and is_lines(path)]


def check_data(settings: Settings, tokenizer: Callable[[], Any]) -> Iterator[Finding]:
    """Lines that are not an object or lack a prompt or label, labels that are neither text nor number, prompts that
    come twice, and prompts that leave no room for a response.

    Args:
        settings: of the command line.
        tokenizer: loads the policy's; gives None where there is none. Called only where it is needed.
    """
    flags = settings.flags
    label_key = flags["data.label_key"] or ""
    paths = _files(settings)
    if not paths:
        yield skipped(ROWS, "Not checked: no data set is a file of JSON lines on this machine.")
    for path in paths:
        form, facts = _check_rows(path, flags["data.input_key"], label_key)
        yield form
        if facts is None or form.state == "fault":
            continue
        if label_key:
            yield _check_labels(path, facts, label_key)
        yield _check_repeats(path, facts)
        rows = _sample(path, facts, flags["data.input_key"], label_key) if label_key else []
        if not rows:
            yield skipped(LENGTHS, f"Not checked: {path} has no row with both a prompt and a label.")
        elif not flags["data.apply_chat_template"]:
            yield skipped(LENGTHS, "Not checked: this is done with --data.apply_chat_template.")
        elif (loaded := tokenizer()) is None:
            yield skipped(LENGTHS, "Not checked: the policy's tokenizer cannot be loaded here.")
        else:
            yield _check_lengths(path, facts, rows, loaded, flags["data.max_len"], flags["rollout.max_new_tokens"])


def _check_rows(path: Path, input_key: str, label_key: str) -> tuple[Finding, Survey | None]:
    """Check the form of every line and its prompt; also returns the survey of the file, None if it is not readable."""
    try:
        facts = survey(path, input_key, label_key)
    except Unreadable as error:
        fix = ": fix the path or its permissions" if isinstance(error, NotOpened) else ""
        return fault(ROWS, f"{path} cannot be read: {error}{fix}."), None
    if not facts.rows:
        return fault(ROWS, f"{path} is empty: give a file with one JSON object per line."), None
    if facts.columns and input_key not in facts.columns and len(facts.bad_rows[f"has no {input_key!r}"]) == facts.rows:
        return fault(ROWS, f"{path} has no {input_key!r} in any line: {_columns(facts, '--data.input_key')}."), facts
    if any(facts.bad_rows.values()):
        return fault(ROWS, f"{path}: {_listed(facts.bad_rows)}: fix or remove these lines."), facts
    return ok(ROWS, f"{path}: each of {facts.rows:,} rows is an object with a prompt in {input_key!r}."), facts


def _check_labels(path: Path, facts: Survey, label_key: str) -> Finding:
    """Check that each row has a reference answer, a text or a number."""
    if len(facts.bad_labels[f"has no {label_key!r}"]) == facts.rows and label_key not in facts.columns:
        return fault(LABELS, f"{path} has no {label_key!r} in any line: {_columns(facts, '--data.label_key')}.")
    if any(facts.bad_labels.values()):
        return fault(LABELS, f"{path}: {_listed(facts.bad_labels)}: give each row its reference answer as a text.")
    return ok(LABELS, f"{path}: every row that could be read has a text or a number in {label_key!r}.")


def _check_repeats(path: Path, facts: Survey) -> Finding:
    """Look for repeated prompts."""
    if not facts.repeated:
        return ok(REPEATS, f"{path}: no prompt occurs twice.")
    count = len(facts.repeated)
    said = f"{path}: {count:,} {'row repeats' if count == 1 else 'rows repeat'} a prompt, in {places(facts.repeated)}"
    if facts.contradictory:
        said += f", with another label in {places(facts.contradictory)}: keep each prompt once, with the right label."
    else:
        said += ": keep each once, as `openrlhf-gtpo data prepare` does, unless some should count more."
    return warning(REPEATS, said)


def _sample(path: Path, facts: Survey, input_key: str, label_key: str) -> list[Row]:
    """The rows that the tokenizer and the grader check."""
    return list(read_rows(path, facts, SAMPLE, input_key, label_key))


def _check_lengths(
    path: Path, facts: Survey, rows: Sequence[Row], tokenizer: Any, max_len: int, max_new_tokens: int | None
) -> Finding:
    """Look for prompts that leave no room for the response; OpenRLHF would cut off their beginning.

    Args:
        path: the file.
        facts: its survey.
        rows: of `_sample`.
        tokenizer: as transformers loads it.
        max_len: tokens of prompt and response together.
        max_new_tokens: of the response; None stands for the rest after the prompt, at least 1.
    """
    most = max_len - (1 if max_new_tokens is None else max_new_tokens)
    lengths: dict[int, int] = {}
    broken: list[int] = []
    why = ""
    for row in rows:
        try:
            text = rendered(tokenizer, row.prompt)
            lengths[row.line] = len(tokenizer(text, add_special_tokens=False)["input_ids"])
        except Exception as error:  # a chat template is a program, which may raise anything
            broken.append(row.line)
            why = why or reason(error)
    if broken:
        return fault(
            LENGTHS, f"{path}: {places(broken)} cannot be rendered by the chat template ({why}): fix these prompts."
        )
    room = f"--data.max_len {max_len}"
    room += f" less --rollout.max_new_tokens {max_new_tokens}" if max_new_tokens else " less 1"
    longest = max(lengths, key=lengths.__getitem__)
    long = [line for line, length in lengths.items() if length > most]
    if long:
        return fault(
            LENGTHS,
            f"{path}: {len(long):,} of {_shown(facts, rows)} prompts have more than {most:,} tokens ({room}), in "
            f"{places(long)}, the longest {lengths[longest]:,} in line {longest}; OpenRLHF would cut off their "
            "beginning: raise --data.max_len or leave them out.",
        )
    return ok(
        LENGTHS,
        f"{path}: the longest of {_shown(facts, rows)} prompts has {lengths[longest]:,} tokens (line {longest}), and "
        f"there is room for {most:,} ({room}).",
    )


def check_answers(settings: Settings) -> list[Finding]:
    r"""Whether prompts ask for the answer in \boxed{}, where the grader of a reward service reads it most surely."""
    keys = settings.flags["data.input_key"], settings.flags["data.label_key"] or ""
    findings = []
    for path in _files(settings) if settings.rewards_are_embedded or settings.service_urls else []:
        try:
            facts = survey(path, *keys)
        except Unreadable:  # of which the check of the rows tells
            continue
        rows = _sample(path, facts, *keys)
        if rows and not any("boxed" in str(row.prompt) for row in rows):
            findings.append(
                warning(
                    ANSWERS,
                    rf"{path}: none of {_shown(facts, rows)} prompts asks for \boxed{{}}, where the grader reads an "
                    "answer most surely: `openrlhf-gtpo data prepare other --from FILE` writes prompts that do. Leave "
                    "it as it is if the policy has learned how to answer.",
                )
            )
        elif rows:
            findings.append(ok(ANSWERS, rf"{path}: prompts ask for the answer in \boxed{{}}."))
    return findings


def check_references(settings: Settings, service: ClientSettings) -> list[Finding]:
    """Check that the grader can read the labels.

    Args:
        settings: of the command line.
        service: settings of a reward service with the project's own protocol.
    """
    keys = settings.flags["data.input_key"], settings.flags["data.label_key"] or ""
    findings = []
    for path in _files(settings):
        try:
            facts = survey(path, *keys)
        except Unreadable:  # of which the check of the rows tells
            continue
        if rows := _sample(path, facts, *keys):
            findings.append(_check_references(path, facts, rows, service))
    return findings or [skipped(REFERENCES, "Not checked: no file has a row with both a prompt and a label.")]


def _check_references(path: Path, facts: Survey, rows: Sequence[Row], service: ClientSettings) -> Finding:
    lines: dict[str, list[int]] = {}
    for row in rows:
        lines.setdefault(row.label, []).append(row.line)
    try:
        bad = _unreadable(list(lines), service)
    except ClientError as error:
        return fault(REFERENCES, f"The references were not all graded ({str(error).rstrip('.')}): fix the service.")
    if not bad:
        return ok(REFERENCES, f"{path}: the grader can read each of {_shown(facts, rows)} references.")
    where = sorted(line for reference in bad for line in lines[reference])
    first = next(reference for reference in lines if reference in bad)
    first = first if len(first) <= 40 else f"{first[:39]}…"
    return fault(
        REFERENCES,
        f"{path}: the grader cannot read {len(where):,} of {_shown(facts, rows)} references, in {places(where)} (such "
        f"as {first!r}), so no response to these prompts would ever count as correct: fix or remove these rows.",
    )


def _unreadable(references: list[str], service: ClientSettings) -> set[str]:
    """The references that the service cannot read; raises ClientError if it does not answer."""
    items = [Item("", reference, prompt="") for reference in references]
    bad = set()
    with Client(**vars(dataclasses.replace(service, deadline=GRADING_SECONDS))) as client:
        for reference, answer in zip(references, client.grade_many(items, return_exceptions=True), strict=True):
            if isinstance(answer, Refused) and not answer.cause.refuses_all:
                bad.add(reference)
            elif isinstance(answer, ClientError):
                raise answer
    return bad


def _listed(faults: dict[str, list[int]]) -> str:
    """``line 3 has no 'label'; lines 5 and 6: has ...``, in the order of the first line."""
    kinds = sorted((lines[0], what, lines) for what, lines in faults.items() if lines)
    return "; ".join(
        f"{places(lines)}: it {what}" if len(lines) > 1 else f"{places(lines)} {what}" for _, what, lines in kinds
    )


def _columns(facts: Survey, flag: str) -> str:
    return f"name the column by {flag} (there are {', '.join(map(repr, facts.columns)) or 'none'})"


def _shown(facts: Survey, rows: Sequence[Row]) -> str:
    """The number of rows, such as ``1,200``; a sample is marked as one."""
    if len(rows) == len(facts.offsets):
        return f"{len(rows):,}"
    return f"{len(rows):,} sampled (of {len(facts.offsets):,})"
