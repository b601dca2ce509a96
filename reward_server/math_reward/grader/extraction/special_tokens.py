"""What is no part of a text: the tokens that a chat template writes between messages, and Markdown's emphasis."""

import re

# <|im_start|>, DeepSeek's full-width <｜User｜>, and the angle-bracket tokens of Llama, Gemma and T5.
SPECIAL_TOKEN = (
    r"<\|[^<>|\s]{1,64}\|>|<｜[^<>｜\s]{1,64}｜>|</?s>|<(?:bos|eo[a-z]|pad|unk|start_of_turn|end_of_turn|turn\|)>"
)
EMPHASIS = re.compile(r"(?<![\w)\]}])\*\*([^*\n]{1,200})\*\*(?![\w(])")
