"""OpenRLHF's own function that makes the prompts of a run, on files whose labels its loader rewrites."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import openrlhf.trainer.ppo_trainer as ppo_trainer
import openrlhf.trainer.ppo_trainer_async as ppo_trainer_async
import pytest
from openrlhf.datasets import utils

from openrlhf_gtpo.controller import trainers
from openrlhf_gtpo.data.as_written import dataset as table
from openrlhf_gtpo.data.table import DataUnusable

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
                dataloader_num_workers=0,
            ),
            eval=SimpleNamespace(dataset=evaluation, split="train"),
            train=SimpleNamespace(seed=0, batch_size=1, num_episodes=1, max_epochs=1),
            rollout=SimpleNamespace(n_samples_per_prompt=1),
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
    before = utils.load_dataset
    train, evaluation, _ = module.prepare_datasets(strategy, None)
    for dataset in (train, evaluation):
        assert dataset.labels == [str(label) for label in labels]
        assert dataset.prompts == [f"{n}?" for n in range(len(labels))]
        assert set(dataset.datasources) == {"default"}
    assert utils.load_dataset is before


def test_openrlhfs_own_loader_rewrites_them(tmp_path: Path) -> None:
    """Why there is a reader of ours in its place; with a release of it that does not, ours may go."""
    import datasets

    path = write(tmp_path / "train.jsonl", *LABELS[0])
    found = datasets.load_dataset("json", data_files=path, split="train", cache_dir=str(tmp_path))["label"][:]
    assert list(map(str, found)) == ["2024-01-01 00:00:00", "2024-01-02 00:00:00"]


def test_files_are_mixed_by_their_probabilities_as_ever(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{name}.jsonl", *[name] * 50) for name in ("one", "two")]
    train, _, _ = ppo_trainer.prepare_datasets(Strategy(",".join(paths), "0.5,0.5"), None)
    assert set(train.labels) == {"one", "two"}


def test_an_array_and_other_kinds_of_files_are_openrlhfs_own_to_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([{"input": "6*7?", "label": "42", "datasource": "mine"}]))
    train, _, _ = ppo_trainer.prepare_datasets(Strategy(str(path)), None)
    assert (train.labels, train.datasources) == (["42"], ["mine"])


def test_texts_beside_chats_are_chats_and_other_columns_do_not_matter(tmp_path: Path) -> None:
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "6*7?", "name": "a"}]
    path = tmp_path / "rows.jsonl"
    rows = [{"input": "1+1?", "label": 2, "level": 3}, {"input": chat, "label": "42", "level": "hard"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = table(path, "input", "label", "images")["train"]
    first, second = data["input"][:]
    assert [(m["role"], m["content"]) for m in first] == [("user", "1+1?")]
    assert [(m["role"], m["content"]) for m in second] == [("system", "Be brief."), ("user", "6*7?")]
    assert data["label"][:] == ["2", "42"]


REFUSED = [
    (b'{"input": "q", "label": "1"}\noops\n', "line 2", "JSON"),
    (b'{"input": "q", "label": null}\n', "line 1", "'label'", "null"),
    (b'{"label": "1"}\n', "line 1", "'input'"),
    ("{}".encode("utf-16"), "UTF-16", "UTF-8"),
]


@pytest.mark.parametrize(("content", "named"), [(content, named) for content, *named in REFUSED])
def test_what_cannot_be_used_is_one_sentence(content: bytes, named: list[str], tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataUnusable) as refused:
        table(path, "input", "label", None)
    assert_refusal(str(refused.value), str(path), *named)
