"""What a command line names: taken where OpenRLHF would find it, and refused in one sentence where it would not."""

import os
from collections.abc import Callable
from pathlib import Path

import huggingface_hub.constants
import pytest
from huggingface_hub.utils import HFValidationError, validate_repo_id
from hypothesis import given
from hypothesis import strategies as st

from openrlhf_gtpo.data.named_files import data_faults, is_offline, model_fault, python_fault


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with one of everything, and an empty cache of the hub."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HF_DATASETS_CACHE", raising=False)
    for name in ("model/config.json", "data/train.jsonl", "data/more.json", "data/part-1.parquet", "data/sub/a.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "rows.txt").write_text("1\n")
    (tmp_path / "rows.JSONL").write_text("{}\n")
    (tmp_path / "agent.py").write_text("")
    return tmp_path


def model(name: str, offline: bool = True) -> str | None:
    return model_fault("--actor.model_name_or_path", name, offline=offline)


def test_a_folder_with_a_model_is_taken_by_its_relative_and_its_absolute_path(here: Path) -> None:
    assert model("model") is None
    assert model("./model/") is None
    assert model(str(here / "model")) is None


@pytest.mark.parametrize("name", ["./nothing", "/no/such/model", "runs/a/model", "../model ", "a b", "-x", "a/", ""])
@pytest.mark.parametrize("offline", [True, False])
def test_a_name_that_is_neither_a_folder_nor_a_hub_id_is_refused_online_too(
    here: Path, name: str, offline: bool
) -> None:
    found = model(name, offline)
    assert found is not None
    assert found.startswith(f"--actor.model_name_or_path: There is no folder {name}")
    assert f"and {name!r} is not a hub id (NAME or OWNER/NAME)." in found


def test_a_folder_without_a_model_and_a_file_are_refused(here: Path) -> None:
    assert f"There is no folder a/b/c in {here}, and " in str(model("a/b/c"))
    assert "There is no folder /a/b, and " in str(model("/a/b"))
    assert "the folder empty has no config.json" in str(model("empty"))
    assert "rows.txt is a file, but a model is a folder" in str(model("rows.txt"))


def test_a_hub_id_is_believed_online_and_looked_for_in_the_cache_offline(here: Path) -> None:
    assert model("Qwen/Qwen2.5-7B", offline=False) is None
    found = str(model("Qwen/Qwen2.5-7B"))
    assert "the hub is switched off (HF_HUB_OFFLINE) without a model Qwen/Qwen2.5-7B in its cache" in found

    folder = here / "cache" / "models--Qwen--Qwen2.5-7B"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("c0ffee")
    (folder / "snapshots" / "c0ffee").mkdir(parents=True)
    (folder / "snapshots" / "c0ffee" / "config.json").write_text("{}")
    assert model("Qwen/Qwen2.5-7B") is None


@given(st.text(alphabet="ab-._/ @é\n", min_size=1, max_size=12))
def test_online_a_model_that_is_not_here_is_taken_exactly_where_the_hub_takes_its_name(name: str) -> None:
    if os.path.exists(name):
        return
    try:
        validate_repo_id(name)
    except HFValidationError:
        assert model(name, offline=False) is not None
    else:
        assert model(name, offline=False) is None


@pytest.mark.parametrize(
    "listed",
    [
        "data/train.jsonl",
        "data/train.jsonl, data/more.json",
        "data/train.jsonl@default",  # OpenRLHF hands what follows @ on for folders and hub ids alone
        "data/*.parquet",
        "data/**/*.csv",
        "data",
        "data@sub",
        "data @ sub",
        "https://example.com/x.jsonl",
        "hf://datasets/a/b/x.parquet",
    ],
)
def test_data_is_taken_as_openrlhf_reads_it(here: Path, listed: str) -> None:
    assert data_faults("--data.prompt_dataset", listed, offline=True) == []


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ("data/nothing.jsonl", "There is no file data/nothing.jsonl in {here}."),
        ("data/*.csv", "There is no file data/*.csv in {here}."),
        ("/x/y.parquet@sub", "There is no file /x/y.parquet."),
        ("nowhere/a/b", "There is no file or folder nowhere/a/b in {here}, and 'nowhere/a/b' is not a hub id"),
        ("owner/name@sub", "without a data set owner/name in its cache: give a file, or set HF_HUB_OFFLINE=0."),
        ("data@nothing", "There is no folder data/nothing in {here}."),
        ("empty", "the folder empty has no files."),
        ("folder.json", "folder.json is a folder, but OpenRLHF reads names with .json as files: rename it."),
        ("rows.txt", "rows.txt is a file that OpenRLHF does not read: its name has to end with one of .json .jsonl "),
        ("rows.JSONL", "rows.JSONL is a file that OpenRLHF does not read"),
        ("agent.py", "agent.py is a script, which `datasets` no longer runs"),
        ("", "--data.prompt_dataset names an empty data set"),
        ("data/train.jsonl,", "--data.prompt_dataset names an empty data set"),
    ],
)
def test_data_that_is_not_there_has_one_sentence(here: Path, listed: str, said: str) -> None:
    (found,) = data_faults("--data.prompt_dataset", listed, offline=True)
    assert found.startswith("--data.prompt_dataset")
    assert said.format(here=here) in found


def test_each_of_several_data_sets_has_a_sentence_of_its_own(here: Path) -> None:
    found = data_faults("--eval.dataset", "a.jsonl, data/train.jsonl ,b.csv", offline=True)
    assert [sentence.split(" in ")[0] for sentence in found] == [
        "--eval.dataset: There is no file a.jsonl",
        "--eval.dataset: There is no file b.csv",
    ]


@pytest.mark.parametrize(
    ("probabilities", "faults"),
    [
        (None, []),
        ("0.5,0.5", []),
        ("1", ["--data.prompt_probs has 1 numbers, but --data.prompt_dataset names 2 data sets."]),
        ("0.5,half", ["--data.prompt_probs is 0.5,half, but needs numbers with commas between them."]),
    ],
)
def test_there_is_a_probability_for_each_data_set(here: Path, probabilities: str | None, faults: list[str]) -> None:
    listed = "data/train.jsonl,data/more.json"
    assert data_faults("--data.prompt_dataset", listed, offline=True, probabilities=probabilities) == faults


@pytest.mark.parametrize(
    "cached", ["cache/datasets--openai--gsm8k/snapshots/c0ffee", "home/datasets/openai___gsm8k/main"]
)
def test_data_of_the_hub_is_looked_for_in_its_caches_offline(here: Path, cached: str) -> None:
    assert data_faults("--eval.dataset", "openai/gsm8k@main", offline=False) == []
    assert len(data_faults("--eval.dataset", "openai/gsm8k@main", offline=True)) == 1
    (here / cached).mkdir(parents=True)
    assert data_faults("--eval.dataset", "openai/gsm8k@main", offline=True) == []


def test_a_file_of_python_has_to_be_there_and_to_be_named_so(here: Path) -> None:
    assert python_fault("--train.agent_func_path", "agent.py") is None
    assert f"--train.agent_func_path: There is no file x.py in {here}" in str(
        python_fault("--train.agent_func_path", "x.py")
    )
    assert "its name has to end with .py" in str(python_fault("--train.agent_func_path", "rows.txt"))
    assert "There is no file folder.py" in str(python_fault("--train.agent_func_path", "folder.py"))


@pytest.mark.parametrize(
    ("environ", "offline"),
    [
        ({}, False),
        ({"HF_HUB_OFFLINE": "0"}, False),
        ({"HF_HUB_OFFLINE": "1"}, True),
        ({"HF_HUB_OFFLINE": "yes"}, True),
        ({"TRANSFORMERS_OFFLINE": "1"}, True),
        ({"HF_HUB_OFFLINE": "0", "TRANSFORMERS_OFFLINE": "1"}, False),
        ({"HF_HUB_OFFLINE": "off"}, False),
    ],
)
def test_the_hub_is_switched_off_where_its_own_library_says_so(environ: dict[str, str], offline: bool) -> None:
    assert is_offline(environ) is offline
    is_true: Callable[[str | None], bool] = huggingface_hub.constants._is_true
    assert is_true(environ.get("HF_HUB_OFFLINE") or environ.get("TRANSFORMERS_OFFLINE")) is offline
