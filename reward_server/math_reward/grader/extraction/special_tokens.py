"""What is no part of a text: the tokens that a chat template writes between messages, and Markdown's emphasis."""

import re

# <|im_start|>, DeepSeek's full-width <｜User｜>, and the angle-bracket tokens of Llama, Gemma and T5.
SPECIAL_TOKEN = r"<\|[^<>|\s]{1,64}\|>|<｜[^<>｜\s]{1,64}｜>|</?s>|<(?:bos|eo[a-z]|pad|unk|start_of_turn|end_of_turn)>"
EMPHASIS = re.compile(r"(?<![\w)\]}])\*\*([^*\n]{1,200})\*\*(?![\w(])")

_NEXT_TURN = re.compile(
    r"<\|(?:im_start|start_header_id)\|>\s*(?:user|system|human)|<\|(?:user|User|Human)\|>|<｜User｜>|<start_of_turn>\s*user"
)


def before_next_turn(text: str) -> str:
    """The text before the first token that begins a message of the user: the rest is not the model's answer."""
    match = _NEXT_TURN.search(text)
    if match is None or not text[: match.start()].strip() or "assistant" in text[match.end() :].lower():
        return text  # It is a whole conversation, with the model's answer after the user's message.
    return text[: match.start()]
