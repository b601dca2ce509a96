"""OpenRLHF's own function that makes the prompts of a run, on files whose labels its loader rewrites."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import openrlhf.trainer.ppo_trainer as ppo_trainer
import openrlhf.trainer.ppo_trainer_async as ppo_trainer_async
import pytest

from openrlhf_gtpo.controller import trainers
from openrlhf_gtpo.data.sources import DataUnusable
from openrlhf_gtpo.data.tokenizer import load, rendered

from ...refusals import assert_refusal


@pytest.fixture
def strategy(args: Callable[..., Any]) -> Callable[..., Any]:
    """What `prepare_datasets` asks of DeepSpeed's strategy, with a command line's arguments."""

    def made(prompts: str, *words: str) -> Any:
        flags = "--data.label_key label --data.max_len 64 --rollout.max_new_tokens 20"
        flags += " --algo.advantage.estimator gtpo --reward.remote_url http://127.0.0.1:1"
        return SimpleNamespace(
            args=args("--data.prompt_dataset", prompts, *flags.split(), *words),
            print=lambda *_: None,
            is_rank_0=lambda: False,
            setup_dataloader=lambda dataset, *_, **__: dataset,
        )

    return made


def write(path: Path, *labels: Any) -> str:
    rows = [json.dumps({"input": f"{n}?", "label": label}) for n, label in enumerate(labels)]
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(rows).encode())
    return str(path)


def letters(texts: Any, **_: Any) -> dict[str, list[list[int]]]:
    """A tokenizer with a token for each letter."""
    return {"input_ids": [list(text.encode()) for text in texts]}


LABELS = [
    ["2024-01-01", "2024-01-02"],  # dates to Arrow
    [42, 0.5],
    ["0.50", 7],
    ["true", "[1, 2]", 3],
    ["12:30:00", "1e3"],
]


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("module", [ppo_trainer, ppo_trainer_async])
def test_training_grades_against_what_stands_in_the_file(
    strategy: Callable[..., Any], module: Any, labels: list[Any], tmp_path: Path
) -> None:
    assert trainers  # which rebinds the function in both modules
    files = [write(tmp_path / f"{name}.jsonl", *labels) for name in ("train", "eval")]
    before = ppo_trainer.blending_datasets
    train, evaluation, _ = module.prepare_datasets(strategy(files[0], "--eval.dataset", files[1]), letters)
    for dataset in (train, evaluation):
        assert dataset.labels == [str(label) for label in labels]
        assert dataset.prompts == [f"{n}?" for n in range(len(labels))]
        assert set(dataset.datasources) == {"default"}
    assert ppo_trainer.blending_datasets is before


def test_a_prompt_without_room_for_its_response_stops_the_run(
    strategy: Callable[..., Any], written: Callable[..., Path]
) -> None:
    path = str(written(*({"input": "x" * n, "label": "1"} for n in (44, 45, 50))))
    for most, named in (("9", ["2 of 3", "lines 2 and 3", "50 in line 3"]), ("2", ["1 of 2 ", " in line 2"])):
        with pytest.raises(DataUnusable) as refused:
            ppo_trainer.prepare_datasets(strategy(path, "--data.max_samples", most), letters)
        assert_refusal(str(refused.value), path, *named)


def test_pictures_reach_openrlhf_as_paths_or_as_bytes(strategy: Callable[..., Any], tmp_path: Path) -> None:
    image = {"bytes": b"\x89PNG", "path": None}
    rows = [{"input": "<image>?", "label": "1", "images": [image]}, {"input": "?", "label": "2", "images": None}]
    datasets.Dataset.from_list(rows).to_parquet(str(tmp_path / "rows.parquet"))
    train, _, _ = ppo_trainer.prepare_datasets(strategy(str(tmp_path / "rows.parquet")), letters)
    assert train.images == [[b"\x89PNG"], None]


def test_for_a_model_without_pictures_image_is_a_word_like_others(
    strategy: Callable[..., Any], written: Callable[..., Path], policy: Path
) -> None:
    tokens = load(str(policy))
    prompts = ["<image>What is 6 * 7?", [{"role": "user", "content": "Write <image> twice."}]]
    path = str(written(*({"input": prompt, "label": "1"} for prompt in prompts)))
    train, _, _ = ppo_trainer.prepare_datasets(strategy(path, "--data.apply_chat_template"), tokens)
    assert train.prompts == [rendered(tokens, prompt) for prompt in prompts]
    assert all("<image>" in prompt for prompt in train.prompts)
