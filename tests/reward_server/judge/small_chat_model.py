"""A small model with a tokenizer and a chat template, as a judge for the protocol: it understands nothing."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from ...small_models import small_qwen2

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
VOCABULARY = 512


def save_chat_model(folder: Path, says: str | None) -> None:
    """Saves a model that begins every reply with the word ``says``, or a random one.

    Its layers add nothing, so what it says depends on the last token of the prompt alone, which ends every prompt of
    the template.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(["yes no yes no Question First answer Second answer"] * 50, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    end, ids = fast.convert_tokens_to_ids("<|im_end|>"), fast.encode("assistant\n")
    model = small_qwen2(vocab_size=VOCABULARY, max_position_embeddings=8192, eos_token_id=end, bos_token_id=None)
    if says is not None:
        (word,) = fast.encode(says)
        with torch.no_grad():
            for layer in model.model.layers:
                layer.self_attn.o_proj.weight.zero_()
                layer.mlp.down_proj.weight.zero_()
            last = model.model.embed_tokens.weight[ids[-1]]
            model.lm_head.weight[word] = 64 * last / last.norm()
    model.save_pretrained(folder)
