import random
from pathlib import Path

import pytest

from openrlhf_gtpo.batch import Group, Response

from ...small_models import small_qwen2


@pytest.fixture(scope="session")
def smallest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Qwen2 of 32 tokens, which has fewer parameters than gradients keep."""
    folder = tmp_path_factory.mktemp("smallest")
    small_qwen2(vocab_size=32, hidden_size=16, intermediate_size=32).save_pretrained(folder)
    return folder


def group(*responses: tuple[bool, list[float]], prompt: int = 1) -> Group:
    """Responses, right or wrong, with an entropy for each token, to a prompt of so many; drawn from 2 to 31."""
    draw, made = random.Random(prompt), []
    asked = draw.choices(range(2, 32), k=prompt)
    for right, entropy in responses:
        tokens, score = asked + draw.choices(range(2, 32), k=len(entropy)), float(right)
        end = len(tokens)
        returned = {"observation_tokens": tokens, "action_ranges": [(prompt, end)], "answer_end": end}
        returned |= {"entropy": [0.0] * prompt + entropy, "logprob": [-0.5] * end, "scores": score, "reward": score}
        made.append(Response(returned, end))
    return Group(made)
