"""OpenRLHF's parser with our flags, a policy with a tokenizer whose tokens are characters, and the real reward
service."""

import argparse
import copy
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from openrlhf_gtpo.driver import command_line
from openrlhf_gtpo.rewards.embedded import EmbeddedService, start_embedded_service
from openrlhf_gtpo.settings import Settings

from .. import preloaded


@pytest.fixture(scope="session")
def parser() -> argparse.ArgumentParser:
    """OpenRLHF's own flags with ours, as the driver reads them; test_command_line.py holds it against the parser in
    OpenRLHF's script."""
    return command_line.parser()


@pytest.fixture(scope="session")
def settings(parser: argparse.ArgumentParser) -> Callable[..., Settings]:
    """The settings of a command line: ``settings("--data.max_len", 96)``."""
    return lambda *flags: Settings(vars(parser.parse_args([str(word) for word in flags])))


@pytest.fixture
def preloaded_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks that run in a process of their own run in a fork of one that has imported everything."""
    monkeypatch.setattr(sys, "executable", preloaded.python())


TEMPLATE = (
    "{% for message in messages %}<user>{{ message['content'] }}<end>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


@pytest.fixture
def tokenizer(characters: Any) -> Any:
    """A copy that a test may change."""
    return copy.deepcopy(characters)


def characters_and(*words: str, backwards: bool = False, **special: str) -> Any:
    """A tokenizer whose tokens are characters, and these words. A prompt of n ASCII characters has n + 3 tokens:
    <user>, <end> and <assistant>. Backwards, token 0 is a byte that is no text by itself, and many others with it.

    Byte-level, because for the architecture of the tiny model transformers loads no other kind from a folder.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet(), reverse=backwards)
    found = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(alphabet)}, merges=[]))
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    found.decoder = decoders.ByteLevel()
    found.add_special_tokens(["<end>", "<user>", "<assistant>"])  # 256, 257 and 258
    found.add_tokens(list(words))
    return PreTrainedTokenizerFast(tokenizer_object=found, eos_token="<end>", chat_template=TEMPLATE, **special)


@pytest.fixture(scope="session")
def characters() -> Any:
    return characters_and()


@pytest.fixture
def policy(tiny_model: Path, tokenizer: Any, tmp_path: Path) -> Path:
    """A folder with weights and a tokenizer."""
    folder = tmp_path / "policy"
    shutil.copytree(tiny_model, folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def service() -> Iterator[EmbeddedService]:
    with start_embedded_service(workers=1) as service:
        yield service


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Writes a data set: a row each, a text as it is and anything else as JSON."""

    def write(*rows: Any) -> Path:
        path = tmp_path / "data.jsonl"
        path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
        return path

    return write
