"""OpenRLHF's own function that makes the prompts of a run, on files whose labels its loader rewrites."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import openrlhf.trainer.ppo_trainer as ppo_trainer
import openrlhf.trainer.ppo_trainer_async as ppo_trainer_async
import pytest

from openrlhf_gtpo.controller import trainers
from openrlhf_gtpo.data.prompts import Prompts
from openrlhf_gtpo.data.sources import DataUnusable

from ...refusals import assert_refusal


class Strategy:
    """What `prepare_datasets` asks of DeepSpeed's strategy."""

    def __init__(self, prompts: str, probabilities: str | None = None, evaluation: str | None = None) -> None:
        self.args = SimpleNamespace(
            data=SimpleNamespace(
                prompt_dataset=prompts,
                prompt_probs=probabilities,
                prompt_split="train",
                input_template=None,
                input_key="input",
                label_key="label",
                image_key="images",
                apply_chat_template=False,
                max_samples=1000,
                max_len=64,
                dataloader_num_workers=0,
            ),
            eval=SimpleNamespace(dataset=evaluation, split="train"),
            train=SimpleNamespace(seed=0, batch_size=1, num_episodes=1, max_epochs=1),
            rollout=SimpleNamespace(n_samples_per_prompt=1, max_new_tokens=20),
            use_ms=False,
        )

    def print(self, *_: Any) -> None:
        pass

    def is_rank_0(self) -> bool:
        return False

    def setup_dataloader(self, dataset: Any, *_: Any, **__: Any) -> Any:
        return dataset


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
def test_training_grades_against_what_stands_in_the_file(module: Any, labels: list[Any], tmp_path: Path) -> None:
    assert trainers  # which rebinds the function in both modules
    strategy = Strategy(write(tmp_path / "train.jsonl", *labels), evaluation=write(tmp_path / "eval.jsonl", *labels))
    before = ppo_trainer.blending_datasets
    train, evaluation, _ = module.prepare_datasets(strategy, letters)
    for dataset in (train, evaluation):
        assert dataset.labels == [str(label) for label in labels]
        assert dataset.prompts == [f"{n}?" for n in range(len(labels))]
        assert set(dataset.datasources) == {"default"}
    assert ppo_trainer.blending_datasets is before


def test_openrlhfs_own_loader_rewrites_them(tmp_path: Path) -> None:
    """Why we have our own reader; with a release that does not, it may go."""
    import datasets

    path = write(tmp_path / "train.jsonl", *LABELS[0])
    found = datasets.load_dataset("json", data_files=path, split="train", cache_dir=str(tmp_path))["label"][:]
    assert list(map(str, found)) == ["2024-01-01 00:00:00", "2024-01-02 00:00:00"]


def test_files_are_mixed_by_their_probabilities_as_ever(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{name}.jsonl", *[name] * 50) for name in ("one", "two")]
    train, _, _ = ppo_trainer.prepare_datasets(Strategy(",".join(paths), "0.5,0.5"), letters)
    assert set(train.labels) == {"one", "two"}


def test_a_prompt_without_room_for_its_response_stops_the_run(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"input": "x" * n, "label": "1"}) + "\n" for n in (44, 45, 50)))
    strategy = Strategy(str(path))
    with pytest.raises(DataUnusable) as refused:
        ppo_trainer.prepare_datasets(strategy, letters)
    assert_refusal(str(refused.value), str(path), "2 of 3", "lines 2 and 3", "50 in line 3")
    strategy.args.data.max_samples = 2
    with pytest.raises(DataUnusable, match=r"1 of 2 .* in line 2"):
        ppo_trainer.prepare_datasets(strategy, letters)


def test_modelscope_is_openrlhfs_own_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def theirs(names: str, *_: Any, **__: Any) -> Any:
        asked.append(names)
        return Prompts([])

    monkeypatch.setattr(ppo_trainer, "blending_datasets", theirs)
    strategy = Strategy("owner/prompts")
    strategy.args.use_ms = True
    ppo_trainer.prepare_datasets(strategy, letters)
    assert asked == ["owner/prompts"]


def test_pictures_reach_openrlhf_as_paths_or_as_bytes(tmp_path: Path) -> None:
    import datasets

    image = {"bytes": b"\x89PNG", "path": None}
    rows = [{"input": "<image>?", "label": "1", "images": [image]}, {"input": "?", "label": "2", "images": None}]
    datasets.Dataset.from_list(rows).to_parquet(str(tmp_path / "rows.parquet"))
    train, _, _ = ppo_trainer.prepare_datasets(Strategy(str(tmp_path / "rows.parquet")), letters)
    assert train.images == [[b"\x89PNG"], None]
