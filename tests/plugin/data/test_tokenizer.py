"""With which token a chat template ends the model's turn."""

from typing import Any

import pytest
from tokenizers.processors import TemplateProcessing

from openrlhf_gtpo.data.tokenizer import end_of_turn

TURN = "{% for message in messages %}<user>{{ message['content'] }}X\n{% endfor %}"


@pytest.mark.parametrize(
    ("template", "eos", "end"),
    [
        (TURN.replace("X", "<end>"), "<assistant>", "<end>"),  # Qwen2.5-7B: <|im_end|>, and <|endoftext|>
        (TURN.replace("X", " <end>"), "<assistant>", "<end>"),
        (TURN.replace("X", "<end>"), "<end>", None),  # Qwen2.5-7B-Instruct
        (TURN.replace("X", ""), "<end>", None),
        (TURN.replace("X", " Bye.<user>"), "<end>", None),  # what follows is a text
        ("{{ raise_exception('no') }}", "<end>", None),
        (None, "<end>", None),
    ],
)
def test_the_end_of_a_turn_is_the_special_token_that_follows_an_answer(
    tokenizer: Any, template: str | None, eos: str, end: str | None
) -> None:
    tokenizer.chat_template, tokenizer.eos_token = template, eos
    assert end_of_turn(tokenizer) == (None if end is None else tokenizer.convert_tokens_to_ids(end))


def test_a_token_before_each_text_is_not_taken_for_the_end_of_a_turn(tokenizer: Any) -> None:
    begin = TemplateProcessing(single="<assistant> $A", special_tokens=[("<assistant>", 258)])
    tokenizer.backend_tokenizer.post_processor = begin
    tokenizer.chat_template = TURN.replace("X", "<end>")
    assert tokenizer("x").input_ids[0] == 258
    assert end_of_turn(tokenizer) is None
