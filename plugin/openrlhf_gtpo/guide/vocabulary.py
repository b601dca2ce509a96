"""Checks that guide and policy have the same vocabulary, since the policy trains on the guide's tokens."""

from pathlib import Path
from typing import Any

from openrlhf_gtpo.data.tokenizer import load
from openrlhf_gtpo.errors import reason

__all__ = ["ending_fault", "vocabulary_fault"]


def vocabulary_fault(policy: str, guide: str) -> str | None:
    """One sentence if the two models' tokenizers differ in a token; None if they agree, or if a model is not a folder
    on this machine, since nothing is downloaded for this check."""
    if not (Path(policy).is_dir() and Path(guide).is_dir()):
        return None
    ours, theirs = _tokens(policy), _tokens(guide)
    if isinstance(ours, str) or isinstance(theirs, str):
        return f"--guide.model: the tokenizers cannot be compared: {ours if isinstance(ours, str) else theirs}."
    if ours == theirs:
        return None
    other = sorted(token for token in ours.keys() | theirs.keys() if ours.get(token) != theirs.get(token))
    return (
        f"--guide.model {guide} has another vocabulary than {policy} ({len(other):,} tokens differ, {other[0]!r} for "
        "one), so its tokens mean something else to the policy: take a guide of the same family, or write its answers "
        "to a file for --guide.solutions."
    )


def ending_fault(policy: str, guide: str) -> str | None:
    """One sentence if the guide ends its responses with another token than the policy; models as above."""
    if not (Path(policy).is_dir() and Path(guide).is_dir()):
        return None
    ours, theirs = load(policy).eos_token, load(guide).eos_token
    if ours == theirs:
        return None
    return (
        f"--guide.model {guide} ends its responses with {theirs!r}, but the policy with {ours!r}, so the policy would "
        "learn an end that does not end its own responses: give both the same eos_token in their "
        "tokenizer_config.json."
    )


def _tokens(model: str) -> dict[str, int] | str:
    """The vocabulary, special tokens included, or why there is none."""
    try:
        tokenizer: Any = load(model)
    except Exception as error:  # whatever transformers raises for a folder that holds no tokenizer
        return f"{model} has no tokenizer that can be loaded ({reason(error)})"
    return tokenizer.get_vocab()
