"""Checks of the training data and the guide, before anything starts: the doctor's checks of a data set, for files that
the driver can read, and whether the guide's vocabulary or solutions fit the policy."""

import re
from pathlib import Path
from typing import Any

from openrlhf_gtpo.data.checks import check_labels, check_lengths, check_repeats, check_rows, sample
from openrlhf_gtpo.data.findings import Finding
from openrlhf_gtpo.data.json_lines import is_lines
from openrlhf_gtpo.data.tokenizer import load
from openrlhf_gtpo.guide.solutions import SolutionsUnusable, read_solutions
from openrlhf_gtpo.guide.vocabulary import ending_fault, vocabulary_fault

__all__ = ["check_training_data", "guide_faults"]

DOCTORS_FLAGS = {
    "--input_key": "--data.input_key",
    "--label_key": "--data.label_key",
    "--max_len": "--data.max_len",
    "--max_new_tokens": "--rollout.max_new_tokens",
}
"""Flag of the doctor -> flag of training."""


def check_training_data(flags: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Faults in the JSON-lines files of ``--data.prompt_dataset`` and ``--eval.dataset``. Other sources, such as a hub
    id, are not checked.

    Args:
        flags: OpenRLHF's flat flags.

    Returns:
        Sentences for which the run is refused: lines that are not an object or lack a prompt or label, empty labels,
        labels that are neither text nor number, prompts that leave no room for a response. And warnings: repeated
        prompts.
    """
    faults: list[str] = []
    warnings: list[str] = []
    for flag in ("data.prompt_dataset", "eval.dataset"):
        for part in str(flags.get(flag) or "").split(","):
            path = Path(part.strip())
            if path.suffix in (".jsonl", ".json") and path.is_file() and is_lines(path):
                found = _findings(path, flags)
                faults += [_in_trainings_words(one.sentence) for one in found if one.state == "fault"]
                warnings += [_in_trainings_words(one.sentence) for one in found if one.state == "warning"]
    return faults, warnings


def _findings(path: Path, flags: dict[str, Any]) -> list[Finding]:
    """The doctor's findings on one file."""
    rows, found = check_rows(path, flags["data.input_key"], flags["data.label_key"] or "")
    findings = [rows]
    if found is not None and rows.state != "fault":
        if flags["data.label_key"]:
            findings.append(check_labels(path, found, flags["data.label_key"]))
        findings.append(check_repeats(path, found))
        model = Path(str(flags["actor.model_name_or_path"]))
        # A model that is not on this machine is not downloaded for this check; the doctor does that on request.
        if model.is_dir() and flags["data.apply_chat_template"] and flags["data.label_key"]:
            shown = sample(path, found, flags["data.input_key"], flags["data.label_key"])
            if shown:
                longest, response = flags["data.max_len"], flags["rollout.max_new_tokens"]
                findings.append(check_lengths(path, found, shown, load(str(model)), longest, response))
    return findings


def _in_trainings_words(sentence: str) -> str:
    """A sentence of the doctor with training's names of the flags. File names in it are not changed."""
    return re.sub(rf"(?<=[ (])({'|'.join(DOCTORS_FLAGS)})\b", lambda found: DOCTORS_FLAGS[found[1]], sentence)


def guide_faults(flags: dict[str, Any]) -> list[str]:
    """Faults of the guide that the flags name: in its vocabulary, or in its file of solutions.

    Args:
        flags: OpenRLHF's flat flags.
    """
    if flags["guide.model"]:
        policy, guide = str(flags["actor.model_name_or_path"]), flags["guide.model"]
        found = vocabulary_fault(policy, guide) or ending_fault(policy, guide)
        return [found] if found else []
    if flags["guide.solutions"]:
        try:
            read_solutions(flags["guide.solutions"], flags["data.input_key"])
        except SolutionsUnusable as error:
            return [str(error)]
    return []
