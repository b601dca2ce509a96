"""Hashes of what a run began with: by content, as sha256sum gives them."""

import hashlib
import subprocess
from pathlib import Path

import pytest
import torch
from torchdata.stateful_dataloader import StatefulDataLoader

from openrlhf_gtpo.controller.content import (
    NotHashed,
    data_hash,
    file_hash,
    order_hash,
    order_of_prompts,
    weights_hash,
)


def folder_with(place: Path, **files: str) -> Path:
    place.mkdir()
    for name, text in files.items():
        (place / name.replace("_", ".")).write_text(text)
    return place


def test_a_files_hash_is_that_of_sha256sum_also_where_it_is_read_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(bytes(range(256)) * 2**13 + b"end")  # 2 MiB and three bytes
    said = subprocess.run(["sha256sum", str(path)], capture_output=True, text=True, check=True).stdout
    assert file_hash(path) == said.split()[0]


def test_weights_have_one_hash_that_a_shell_gives_too_and_that_knows_no_path(tmp_path: Path) -> None:
    first = folder_with(tmp_path / "a", one_safetensors="1", two_safetensors="2", config_json="{}")
    second = folder_with(tmp_path / "b", one_safetensors="1", two_safetensors="2", config_json="other")
    shell = subprocess.run(
        "LC_ALL=C sha256sum *.safetensors | sha256sum", shell=True, cwd=first, capture_output=True, text=True
    )
    assert weights_hash(str(first)) == weights_hash(str(second)) == shell.stdout.split()[0]
    (second / "two.safetensors").write_text("3")
    assert weights_hash(str(first)) != weights_hash(str(second))


def test_weights_of_the_old_kind_count_where_there_are_no_others(tmp_path: Path) -> None:
    old = folder_with(tmp_path / "old", model_bin="1")
    only = weights_hash(str(old))
    (old / "training_args.bin").write_text("no weights")
    assert weights_hash(str(old)) == only
    (old / "model.safetensors").write_text("1")
    assert weights_hash(str(old)) == weights_hash(str(folder_with(tmp_path / "new", model_safetensors="1")))


@pytest.mark.parametrize("name", ["nobody/has-this", "/no/such/folder", "no id at all!"])
def test_a_model_that_is_not_on_this_machine_has_no_hash_and_a_reason(name: str) -> None:
    with pytest.raises(NotHashed, match=f"^{name} "):
        weights_hash(name)


def test_a_hub_id_is_its_folder_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = "0" * 40
    for kind in ("models", "datasets"):
        folder = tmp_path / f"{kind}--mine--tiny" / "snapshots" / commit
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_text("1")
        refs = tmp_path / f"{kind}--mine--tiny" / "refs"
        refs.mkdir()
        (refs / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    same = folder_with(tmp_path / "same", model_safetensors="1")
    assert weights_hash("mine/tiny") == weights_hash(str(same))
    assert data_hash("mine/tiny") == data_hash(str(same))


def test_a_data_set_is_a_file_a_folder_a_folder_inside_one_or_a_pattern(tmp_path: Path) -> None:
    inside = folder_with(tmp_path / "inside", a_jsonl="1", b_jsonl="2")
    by_hand = "".join(
        f"{hashlib.sha256(text).hexdigest()}  {name}.jsonl\n" for name, text in [("a", b"1"), ("b", b"2")]
    )
    whole = hashlib.sha256(by_hand.encode()).hexdigest()
    assert data_hash(str(inside / "a.jsonl")) == hashlib.sha256(b"1").hexdigest()
    assert data_hash(str(inside)) == data_hash(f"{tmp_path}@inside") == data_hash(f"{inside}/*.jsonl") == whole
    with pytest.raises(NotHashed, match=r"/\*\.csv "):
        data_hash(f"{inside}/*.csv")


class Prompts(torch.utils.data.Dataset[str]):
    """As OpenRLHF's, as far as the loader and the hash look at it."""

    def __init__(self, count: int) -> None:
        self.prompts = [f"Question {number}?" for number in range(count)]
        self.labels = [str(number) for number in range(count)]

    def __len__(self) -> int:
        return len(self.prompts)

    def __getitem__(self, place: int) -> str:
        return self.prompts[place]

    def __deepcopy__(self, memo: object) -> None:
        raise AssertionError("data sets are large: they are not to be copied")


def loader_of(data: Prompts, shuffle: bool) -> StatefulDataLoader:
    """As OpenRLHF makes it in its controller."""
    torch.manual_seed(7)
    return StatefulDataLoader(data, batch_size=1, shuffle=shuffle, drop_last=True, collate_fn=lambda rows: rows[0])


@pytest.mark.parametrize("shuffle", [True, False])
def test_the_order_is_the_one_in_which_the_loader_then_gives_its_prompts(shuffle: bool) -> None:
    data = Prompts(40)
    asked, untouched = loader_of(data, shuffle), loader_of(data, shuffle)
    state = torch.get_rng_state()
    order = order_of_prompts(asked)
    assert torch.equal(torch.get_rng_state(), state)
    first = list(asked)
    assert first == [data.prompts[place] for place in order]
    assert (order != list(range(40))) is shuffle
    assert first == list(untouched)
    assert list(asked) == list(untouched), "and the second episode is the loader's own too"


def test_the_hash_of_an_order_is_that_of_its_prompts_and_labels() -> None:
    data = Prompts(3)
    text = b'["Question 2?", "2"]\n["Question 0?", "0"]\n'
    assert order_hash(data.prompts, data.labels, [2, 0]) == hashlib.sha256(text).hexdigest()
