"""Checks that guide and policy have the same vocabulary, since the policy trains on the guide's tokens."""

from pathlib import Path
from typing import Any

from openrlhf_gtpo.data.tokenizer import load
from openrlhf_gtpo.errors import reason


def vocabulary_fault(policy: str, guide: str) -> str | None:
    """One sentence if the two models' tokenizers differ in a token, or in the one that ends a response; None if they
    agree, or if a model is not a folder on this machine, since nothing is downloaded for this check."""
    if not (Path(policy).is_dir() and Path(guide).is_dir()):
        return None
    tokenizers: list[Any] = []
    for model in (policy, guide):
        try:
            tokenizers.append(load(model))
        except Exception as error:  # whatever transformers raises for a folder that holds no tokenizer
            return (
                f"--guide.model: the tokenizers cannot be compared: {model} has no tokenizer that can be loaded "
                f"({reason(error)})."
            )
    ours, theirs = (tokenizer.get_vocab() for tokenizer in tokenizers)  # special tokens included
    if ours != theirs:
        other = sorted(token for token in ours.keys() | theirs.keys() if ours.get(token) != theirs.get(token))
        return (
            f"--guide.model {guide} has another vocabulary than {policy} ({len(other):,} tokens differ, {other[0]!r} "
            "for one), so its tokens mean something else to the policy: take a guide of the same family, or write its "
            "answers to a file for --guide.solutions."
        )
    end, other_end = (tokenizer.eos_token for tokenizer in tokenizers)
    if end != other_end:
        return (
            f"--guide.model {guide} ends its responses with {other_end!r}, but the policy with {end!r}, so the policy "
            "would learn an end that does not end its own responses: give both the same eos_token in their "
            "tokenizer_config.json."
        )
    return None
