"""The policy's tokenizer and its chat template, as OpenRLHF uses them."""

import os
import re
from collections.abc import Sequence
from typing import Any

from openrlhf_gtpo.data.sources import DataUnusable, Place
from openrlhf_gtpo.errors import reason

NAMED = 5
"""Most rows in a sentence."""


def load(model: str, *, local_files_only: bool = False) -> Any:
    """The tokenizer of a folder or a hub id. Raises whatever transformers raises if there is none."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from transformers import AutoTokenizer

    # As OpenRLHF loads it.
    return AutoTokenizer.from_pretrained(model, trust_remote_code=True, local_files_only=local_files_only)


def reads_text_alone(tokenizer: Any) -> bool:
    """Whether it is no processor that reads images too."""
    return not hasattr(tokenizer, "image_processor")


def begins_with_bos(tokenizer: Any) -> bool:
    """Whether it puts a beginning-of-sequence token before each text that is asked for as it is."""
    return tokenizer.bos_token_id is not None and tokenizer("x")["input_ids"][:1] == [tokenizer.bos_token_id]


def rendered(tokenizer: Any, prompt: Any) -> str:
    """A prompt, a text or a chat, as OpenRLHF passes it to the engine: rendered by the chat template, if any."""
    if tokenizer.chat_template is None:
        return prompt if isinstance(prompt, str) else "\n".join(str(message["content"]) for message in prompt)
    chat = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    return tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)


def end_of_turn(tokenizer: Any) -> int | None:
    """The token with which the chat template ends the model's turn; None where it is the end of a sequence, or none.

    A base model's template is often that of its chat sibling: Qwen2.5-7B ends a turn with ``<|im_end|>``, a text with
    ``<|endoftext|>``. A policy that answers as the template does would never stop at the latter.
    """
    answer = "The answer is 42"
    chat = [{"role": "user", "content": "6 * 7?"}, {"role": "assistant", "content": answer}]
    try:
        text = tokenizer.apply_chat_template(chat, tokenize=False)
    except Exception:  # a template is a program, which may raise anything; another check says so
        return None
    for token in tokenizer(text.rpartition(answer)[2], add_special_tokens=False)["input_ids"]:
        if token in tokenizer.all_special_ids or token in tokenizer.added_tokens_decoder:
            return None if token == tokenizer.eos_token_id else token
        if tokenizer.decode([token]).strip():
            return None
    return None


def without_end(tokens: Sequence[int], tokenizer: Any, end: int | None) -> list[int]:
    """Tokens without the end-of-sequence, end-of-turn (``end``) and padding tokens at their end."""
    own = list(tokens)
    while own and own[-1] in (tokenizer.eos_token_id, tokenizer.pad_token_id, end):
        own.pop()
    return own


def tokens_within(characters: int, tokens: list[int], tokenizer: Any) -> int:
    """How many of the last tokens have a text of so many characters or fewer. Most answers stand near the end, so few
    are looked at."""
    low, high = 0, 1

    def fit(count: int) -> bool:
        return len(tokenizer.decode(tokens[len(tokens) - count :], skip_special_tokens=False)) <= characters

    while characters and high <= len(tokens) and fit(high):
        low, high = high, 2 * high
    high = min(high, len(tokens) + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fit(middle) else (low, middle)
    return low


class Lengths:
    """Finds prompts that leave no room for their response; OpenRLHF would cut off their beginning."""

    def __init__(self, tokenizer: Any, max_len: int, new_tokens: int | None, chat: bool, template: str | None) -> None:
        """A tokenizer that also reads images finds nothing. Without ``new_tokens`` a response has room for one. The
        template is ``--data.input_template``, used where the chat template is not."""
        self._tokenizer, self._chat, self._template = tokenizer, chat, template
        self._text_only = reads_text_alone(tokenizer)
        self._room = max_len - (new_tokens or 1)
        self._limits = f"--data.max_len {max_len} less --rollout.max_new_tokens {new_tokens or 1}"
        self._roles: set[tuple[str, ...]] = set()
        self._long: list[tuple[int, Place]] = []
        self._count = 0
        self._around = self.tokens("x") if self._text_only else 0
        frame = rendered(tokenizer, "x") if chat and self._text_only else ""
        special = [one.content for one in tokenizer.added_tokens_decoder.values() if one.special] if frame else []
        self._markers = re.compile("|".join(re.escape(one) for one in special if one in frame) or r"(?!)")
        self._marked: list[tuple[Place, str]] = []

    def add(self, place: Place, prompt: Any) -> None:
        """Look at one more prompt.

        Raises:
            DataUnusable: the chat template refuses it, or needs to be applied and is not.
        """
        self._count += 1
        messages = prompt if isinstance(prompt, list) else [{"role": "user", "content": prompt}]
        if messages is prompt and not self._chat:
            raise DataUnusable(f"{place}: its prompt is a list of chat messages: add --data.apply_chat_template.")
        if not self._text_only:
            return
        if marker := self._markers.search(str(prompt)):
            self._marked.append((place, marker[0]))
        # A token has a byte of the text or more, so that few prompts have to be cut into tokens.
        most = sum(len(str(one["content"]).encode()) + self._around for one in messages)
        roles = tuple(str(one["role"]) for one in messages)
        if most <= self._room and roles in self._roles and all(type(one["content"]) is str for one in messages):
            return
        try:
            tokens = self.tokens(prompt)
        except Exception as error:  # a chat template is a program, which may raise anything
            why = f"the chat template cannot render its prompt ({reason(error)}): fix it"
            raise DataUnusable(f"{place}: {why}.") from None
        self._roles.add(roles)
        parts = [str(one["content"]) for one in messages if isinstance(one["content"], list)]
        if parts and any(one in rendered(self._tokenizer, prompt) for one in parts):
            why = "the chat template prints its message of several parts as a list: write one text"
            raise DataUnusable(f"{place}: {why}.")
        if tokens > self._room:
            self._long.append((tokens, place))

    def end(self) -> None:
        """After the last prompt.

        Raises:
            DataUnusable: there are too long ones.
        """
        if self._long:
            most, longest = max(self._long)
            raise DataUnusable(
                f"{longest.source}: {len(self._long):,} of {self._count:,} prompts have more than {self._room:,} "
                f"tokens ({self._limits}), in {places([place for _, place in self._long])}, the longest {most:,} in "
                f"{longest.kind} {longest.number}; OpenRLHF would cut off their beginning: raise --data.max_len or "
                "leave them out."
            )

    def warning(self) -> str | None:
        """The sentence about all prompts that seem to be rendered before."""
        if not self._marked:
            return None
        place, marker = self._marked[0]
        return (
            f"{place.source}: {len(self._marked):,} of {self._count:,} prompts, in "
            f"{places([place for place, _ in self._marked])}, have {marker}, which the chat template writes too, as "
            "if they were rendered before: give the questions alone, or leave --data.apply_chat_template out."
        )

    def tokens(self, prompt: Any) -> int:
        """How many tokens a prompt has as the policy gets it."""
        text = rendered(self._tokenizer, prompt) if self._chat else (self._template or "{}").format(prompt)
        return len(self._tokenizer([text], add_special_tokens=False, verbose=False)["input_ids"][0])


def places(found: Sequence[Place]) -> str:
    """``line 7``, ``lines 7 and 9`` or ``rows 1, 2, 3, 4, 5 and 12 more``."""
    kind, named = found[0].kind, [str(place.number) for place in found[:NAMED]]
    if len(found) == 1:
        return f"{kind} {named[0]}"
    last = f"{len(found) - NAMED:,} more" if len(found) > NAMED else named.pop()
    return f"{kind}s {', '.join(named)} and {last}"


def difference(policy: str, ours: Any, guide: str, theirs: Any) -> str | None:
    """Why a policy with our tokenizer cannot train on the tokens of a guide with theirs, and the fix; else None."""
    if ours.get_vocab() != theirs.get_vocab():  # special tokens included
        return f"--guide.model {guide} has another vocabulary than the policy {policy}: choose one of its family."
    if ours.eos_token != theirs.eos_token:
        ends = f"{theirs.eos_token!r}, but the policy {policy} with {ours.eos_token!r}"
        return f"--guide.model {guide} ends its responses with {ends}: give both one eos_token."
    return None
