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

from ...refusals import assert_refusal


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
    assert_refusal(
        str(model(name, offline)), "--actor.model_name_or_path", f"no folder {name}", f"{name!r} ", "hub id"
    )


@pytest.mark.parametrize(
    ("name", "what"),
    [("a/b/c", "a/b/c in {here}"), ("/a/b", "/a/b, "), ("empty", "config.json"), ("rows.txt", "is a file")],
)
def test_a_folder_without_a_model_and_a_file_are_refused(here: Path, name: str, what: str) -> None:
    assert_refusal(str(model(name)), "--actor.model_name_or_path", name, what.format(here=here))


def test_a_hub_id_is_believed_online_and_looked_for_in_the_cache_offline(here: Path) -> None:
    assert model("Qwen/Qwen2.5-7B", offline=False) is None
    assert_refusal(str(model("Qwen/Qwen2.5-7B")), "--actor.model_name_or_path", "HF_HUB_OFFLINE", "Qwen/Qwen2.5-7B")

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


REFUSED: list[tuple[str, ...]] = [
    ("data/nothing.jsonl", "data/nothing.jsonl in {here}."),
    ("data/*.csv", "data/*.csv in {here}."),
    ("/x/y.parquet@sub", "/x/y.parquet."),
    ("nowhere/a/b", "nowhere/a/b in {here}, ", "hub id"),
    ("owner/name@sub", "owner/name", "HF_HUB_OFFLINE"),
    ("data@nothing", "data/nothing in {here}."),
    ("empty", "folder empty", "no files"),
    ("folder.json", "folder.json", "a folder"),
    ("rows.txt", "rows.txt", ".json .jsonl "),
    ("rows.JSONL", "rows.JSONL", ".json .jsonl "),
    ("agent.py", "agent.py", "a script", ".jsonl"),
    ("", "empty"),
    ("data/train.jsonl,", "empty"),
]


@pytest.mark.parametrize(("listed", "named"), [(listed, named) for listed, *named in REFUSED])
def test_data_that_is_not_there_has_one_sentence(here: Path, listed: str, named: list[str]) -> None:
    (found,) = data_faults("--data.prompt_dataset", listed, offline=True)
    assert_refusal(found, "--data.prompt_dataset", *(name.format(here=here) for name in named))


def test_each_of_several_data_sets_has_a_sentence_of_its_own(here: Path) -> None:
    first, second = data_faults("--eval.dataset", "a.jsonl, data/train.jsonl ,b.csv", offline=True)
    assert_refusal(first, "--eval.dataset", "a.jsonl")
    assert_refusal(second, "--eval.dataset", "b.csv")


def test_there_is_a_probability_for_each_data_set(here: Path) -> None:
    def found(probabilities: str | None) -> list[str]:
        listed = "data/train.jsonl,data/more.json"
        return data_faults("--data.prompt_dataset", listed, offline=True, probabilities=probabilities)

    assert found(None) == found("0.5,0.5") == []
    for wrong, named in (("1", "1 numbers"), ("0.2,0.3,0.5", "3 numbers"), ("0.5,half", "0.5,half")):
        (fault,) = found(wrong)
        assert_refusal(fault, "--data.prompt_probs", named)


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
    for name, named in (("x.py", f"x.py in {here}"), ("rows.txt", "end with .py"), ("folder.py", "no file folder.py")):
        assert_refusal(str(python_fault("--train.agent_func_path", name)), "--train.agent_func_path", name, named)


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
