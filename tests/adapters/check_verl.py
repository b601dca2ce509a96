"""The adapters for verl: its own loader and reward worker load and run them on a real DataProto."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import verl
from omegaconf import OmegaConf
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from verl import DataProto
from verl.experimental.reward_loop.reward_loop import RewardLoopWorker

from math_reward.adapters.verl_manager import MathRewardManager
from math_reward.client import NotJudged
from math_reward.grader import grade

WORDS = ["<pad>", "<eos>", "What", "is", "half", "of", "?", "7", "14", "8", "16", "so", r"\boxed{7}"]
ROWS = [
    ("What is half of 14 ?", r"so \boxed{7}", "7"),
    ("What is half of 16 ?", "so 7", "8"),
    ("What is half of 16 ?", "8", np.array(["eight", "8"], dtype=object)),  # as a list comes from a Parquet file
    ("What is half of 14 ?", "so", "7"),
]
COMPUTE_SCORE = {"path": "pkg://math_reward.adapters.verl", "name": "compute_score"}
MANAGER = {
    "source": "importlib",
    "name": "MathRewardManager",
    "module": {"path": "pkg://math_reward.adapters.verl_manager"},
}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="?"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    folder = tmp_path_factory.mktemp("tokenizer")
    PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>").save_pretrained(folder)
    return folder


def worker(tokenizer: Path, **reward: Any) -> RewardLoopWorker:
    """verl's process of rewards, with the settings of its own file and these."""
    own = OmegaConf.load(Path(verl.__file__).parent / "trainer" / "config" / "reward" / "reward.yaml")
    model = {"tokenizer_path": str(tokenizer), "path": str(tokenizer)}
    merged = OmegaConf.merge({"reward": own}, {"reward": reward, "actor_rollout_ref": {"model": model}})
    return RewardLoopWorker(merged)


def batch(tokenizer: Path, rows: list[Any]) -> DataProto:
    """Prompts on the left and responses on the right of their halves, padded, as a rollout gives them."""
    its = PreTrainedTokenizerFast.from_pretrained(tokenizer)
    prompts = its(
        [row[0] for row in rows], padding="max_length", max_length=8, padding_side="left", return_tensors="pt"
    )
    answers = its([row[1] for row in rows], padding="max_length", max_length=5, return_tensors="pt")
    return DataProto.from_dict(
        tensors={
            "prompts": prompts["input_ids"],
            "responses": answers["input_ids"],
            "attention_mask": torch.cat([prompts["attention_mask"], answers["attention_mask"]], dim=1),
        },
        non_tensors={
            "data_source": np.array(["half"] * len(rows), dtype=object),
            "reward_model": np.array([{"ground_truth": row[2], "style": "rule"} for row in rows], dtype=object),
            "extra_info": np.array([{"index": i} for i in range(len(rows))], dtype=object),
            "raw_prompt": np.array([[{"role": "user", "content": row[0]}] for row in rows] + [None], dtype=object)[
                :-1
            ],
        },
    )


def of_grader(rows: list[Any]) -> list[tuple[float, str]]:
    found = [grade(text, list(answer) if isinstance(answer, np.ndarray) else answer) for _, text, answer in rows]
    return [(one.reward, one.verdict.value) for one in found]


@pytest.mark.parametrize("form", ["compute_score", "manager"])
def test_verls_reward_worker_gives_the_graders_verdicts(
    url: str | None, form: str, graded: list[int], tokenizer: Path
) -> None:
    if form == "compute_score":
        works = worker(tokenizer, custom_reward_function={**COMPUTE_SCORE, "reward_kwargs": {"url": url}})
    else:
        works = worker(tokenizer, reward_manager=MANAGER, **({"math_reward_url": url} if url else {}))
        assert isinstance(works.reward_manager, MathRewardManager)
    data = batch(tokenizer, ROWS)
    outputs = works.loop.run_until_complete(works.compute_score_batch(data))
    graded.append(len(ROWS))
    found = [(one["reward_score"], one["reward_extra_info"]["verdict"]) for one in outputs]
    print(found)
    assert found == of_grader(ROWS)
    assert [reward for reward, _ in found] == [1.0, 0.0, 1.0, 0.0]
    scores = type(works.reward_manager).assemble_rm_scores(data, [one["reward_score"] for one in outputs])
    assert scores.nonzero().tolist() == [[0, 1], [2, 0]]  # at the last token of each response that is paid


@pytest.mark.parametrize("form", ["compute_score", "manager"])
def test_a_reference_that_cannot_be_read_is_an_error_and_no_score(form: str, tokenizer: Path) -> None:
    chosen = {"custom_reward_function": COMPUTE_SCORE} if form == "compute_score" else {"reward_manager": MANAGER}
    works = worker(tokenizer, **chosen)
    with pytest.raises(NotJudged, match="fix this row of the data"):
        works.loop.run_until_complete(works.compute_score_batch(batch(tokenizer, [("What ?", "7", "")])))
