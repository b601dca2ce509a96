"""Command lines, a policy with a tokenizer whose tokens are characters, and the real reward
service."""

import copy
import json
import shutil
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from openrlhf_gtpo import flags
from openrlhf_gtpo.cpu import platform
from openrlhf_gtpo.openrlhf_script import Script
from openrlhf_gtpo.rewards.embedded import EmbeddedService, start_embedded_service


@pytest.fixture(scope="session")
def parse() -> Callable[..., dict[str, Any]]:
    """The flat flags of a command line on a CPU, as the driver reads them: ``parse("--data.max_len", 96)``."""
    return lambda *words: vars(flags.parse([str(word) for word in ("--device=cpu", *words)]))


def nested(*words: Any) -> Any:
    """OpenRLHF's nested ``args`` of a command line on a CPU, as every process of a run has them."""
    given = vars(flags.parse([str(word) for word in ("--device=cpu", *words)]))
    platform.prepare(given)
    given["logger.metrics_path"] = given["logger.metrics_path"] or "metrics.jsonl"
    given |= {"whole_updates": flags.whole_updates(given), "settings": dict(given)}
    return Script().completed(Namespace(**copy.deepcopy(given)))


@pytest.fixture(scope="session")
def args() -> Callable[..., Any]:
    return nested


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
