"""What a command line names: taken where OpenRLHF would find it, and refused in one sentence where it would not."""

from pathlib import Path

import huggingface_hub.constants
import pytest

from openrlhf_gtpo.checks import named

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


def faults(offline: bool, **changes: str | None) -> list[str]:
    """What is missing of a command line with a model and data that are there, but for some flags."""
    unused = "guide.model reward.model_name_or_path reward.remote_url train.agent_func_path eval.dataset"
    flags = dict.fromkeys([*unused.split(), "data.prompt_probs"])
    flags |= {"actor.model_name_or_path": "model", "data.prompt_dataset": "data/train.jsonl"}
    flags |= {"algo.advantage.estimator": "gtpo", "use_ms": False, "dry_run": False, "device": "cpu"}
    flags["ckpt.best_metric_key"] = ""
    flags |= {name.replace("__", "."): value for name, value in changes.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", str(int(offline)))
        return list(named.faults(flags))


def model(name: str, offline: bool = True) -> str | None:
    found = faults(offline, actor__model_name_or_path=name)
    return next((fault for fault in found if fault.startswith("--actor.")), None)


@pytest.mark.parametrize(
    ("name", "what"),
    [("a/b/c", "a/b/c in {here}"), ("/a/b", "/a/b, "), ("empty", "config.json"), ("rows.txt", "is a file")],
)
def test_a_folder_without_a_model_and_a_file_are_refused(here: Path, name: str, what: str) -> None:
    assert_refusal(str(model(name)), "--actor.model_name_or_path", name, what.format(here=here))


INDEX = '{"weight_map": {"a": "1.safetensors", "b": "2.safetensors", "c": "3.safetensors"}}'


@pytest.mark.parametrize(
    ("files", "lacks"),
    [
        ({"model.safetensors.index.json": INDEX, "2.safetensors": "{}"}, "1.safetensors and 1 more, "),
        ({"model.safetensors": "version https://git-lfs.github.com/spec/v1\n"}, "model.safetensors, "),
        ({"tokenizer.json": "version https://git-lfs.github.com/spec/v1\n"}, "tokenizer.json, "),
        ({"model.safetensors.index.json": INDEX, "1.safetensors": "", "2.safetensors": "", "3.safetensors": ""}, None),
        ({"model.safetensors": "weights", "odd.index.json": "[1]", "cut.index.json": "{"}, None),
    ],
)
def test_a_model_that_is_half_there_is_refused(here: Path, files: dict[str, str], lacks: str | None) -> None:
    for name, content in files.items():
        (here / "model" / name).write_text(content)
    if lacks is None:
        assert model("model") is None
    else:
        assert_refusal(str(model("model")), "--actor.model_name_or_path", f"model lacks {lacks}")


def test_a_hub_id_is_believed_online_and_looked_for_in_the_cache_offline(here: Path) -> None:
    assert model("Qwen/Qwen2.5-7B", offline=False) is None
    assert_refusal(str(model("Qwen/Qwen2.5-7B")), "--actor.model_name_or_path", "HF_HUB_OFFLINE", "Qwen/Qwen2.5-7B")

    folder = here / "cache" / "models--Qwen--Qwen2.5-7B"
    for name, text in (("refs/main", "c0ffee"), ("snapshots/c0ffee/config.json", "{}")):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text)
    assert model("Qwen/Qwen2.5-7B") is None


@pytest.mark.parametrize(
    "listed",
    [
        "data/train.jsonl, data/more.json",
        "data/train.jsonl@default",  # OpenRLHF hands what follows @ on for folders and hub ids alone
        "data/*.parquet",
        "data/**/*.csv",
        "data",
        "data @ sub",
        "https://example.com/x.jsonl",
    ],
)
def test_data_is_taken_as_openrlhf_reads_it(here: Path, listed: str) -> None:
    assert faults(True, data__prompt_dataset=listed) == []


REFUSED: list[tuple[str, ...]] = [
    ("data/nothing.jsonl", "data/nothing.jsonl in {here}."),
    ("/x/y.parquet@sub", "/x/y.parquet."),
    ("nowhere/a/b", "nowhere/a/b in {here}, ", "hub id"),
    ("data@nothing", "data/nothing in {here}.", "comma separates", "@ a folder"),
    ("rows.txt", "rows.txt", ".jsonl .json "),
    ("/x/a@b.jsonl,c", "comma separates", "@ a folder"),
    ("data/train.jsonl,", "empty"),
]


@pytest.mark.parametrize(("listed", "named"), [(listed, named) for listed, *named in REFUSED])
def test_data_that_is_not_there_has_one_sentence(here: Path, listed: str, named: list[str]) -> None:
    (found,) = faults(True, data__prompt_dataset=listed)
    assert_refusal(found, "--data.prompt_dataset", *(name.format(here=here) for name in named))


def test_a_file_of_python_has_to_be_there_and_to_be_named_so(here: Path) -> None:
    assert faults(True, train__agent_func_path="agent.py") == []
    for name, named_part in (("x.py", f"x.py in {here}"), ("rows.txt", "end with .py")):
        (fault,) = faults(True, train__agent_func_path=name)
        assert_refusal(fault, "--train.agent_func_path", name, named_part)


def test_what_the_run_would_not_use_need_not_be_there(here: Path) -> None:
    rewards = {"reward__model_name_or_path": "./no", "reward__remote_url": "agent.py"}
    assert faults(True, critic__model_name_or_path="./no", **rewards) == []
    (fault,) = faults(True, critic__model_name_or_path="./no", algo__advantage__estimator="gae")
    assert_refusal(fault, "--critic.model_name_or_path", "./no")
