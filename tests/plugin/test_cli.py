"""The command ``openrlhf-gtpo``: its sub-commands, and what it says of one that does not exist."""

import importlib
import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from openrlhf_gtpo.cli import COMMANDS, main

from ..refusals import assert_refusal


def ended(words: str, capsys: pytest.CaptureFixture[str]) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as left:
        main(words.split())
    return left.value.code, *capsys.readouterr()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("trian", ["no command trian", "train?"]),
        ("xyz", ["xyz", "--help"]),
        ("--verison", ["no flag --verison", "--version?"]),
        ("", ["COMMAND"]),
    ],
)
def test_a_command_that_does_not_exist_or_is_missing_is_named_after_the_usage(
    words: str, named: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, said = ended(words, capsys)
    assert status == 2
    assert said.startswith("usage: ")
    assert [name for name in ("openrlhf-gtpo: error: ", *named) if name not in said.splitlines()[-1]] == []


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("eval --modle m", ["--modle", "--model?"]),
        ("eval --model m --data d.jsonl --out o --temprature=1", ["--temprature", "--temperature?"]),
        ("eval --model m --data d.jsonl --out o --device gpuu", ["--device", "'gpuu'", "gpu?"]),
        ("eval", ["--model, --data, --out"]),
        ("data prepare gsm8kk --out o", ["NAME", "'gsm8kk'", "gsm8k?"]),
        ("data prepare xyz --out o", ["'xyz'", "it is one of aime24, aime25, "]),
        ("data prepar gsm8k --out o", ["'prepar'", "prepare?"]),
        ("data prepare other --ouut o", ["--ouut", "--out?"]),
        ("compare --modle m", ["--modle", "--model?"]),
        ("credit --modle m", ["--modle", "--model?"]),
        ("doctor --modle m", ["--modle", "--model "]),
        ("doctor --rollout.batchsize 3", ["--rollout.batchsize", "batch_size?"]),
        ("report --ouut x runs/gtpo", ["--ouut", "--out?"]),
        ("report", ["RUN"]),
        ("train --device cpu", ["--actor.model_name_or_path", "--data.prompt_dataset", "--data.label_key"]),
        ("report runs/gtop", ["no folder runs/gtop", "did you mean runs/gtpo?", "runs here: runs/gtpo, runs/other"]),
        ("report runs", ["runs is no run", "runs here: runs/gtpo, runs/other"]),
        ("report nowhere/x", ["no folder nowhere/x"]),
        ("compare --run runs/gtop", ["--run", "runs/gtop", "did you mean runs/gtpo?"]),
        ("eval --model m --data trian.jsonl --out o", ["no file trian.jsonl", "did you mean train.jsonl?"]),
        ("data prepare other --out o --from trian.jsonl", ["no file trian.jsonl", "did you mean train.jsonl?"]),
        ("data prepare other --out o --from data/trian.jsonl", ["data/trian.jsonl", "data/train.csv?"]),
        ("eval --model modle --data train.jsonl --out o --device cpu", ["--model modle", "did you mean model?"]),
        ("compare --model modle --data train.jsonl --out o --device cpu", ["--model modle", "did you mean model?"]),
        ("train --config runn.yaml", ["--config runn.yaml", "did you mean run.yaml?"]),
    ],
)
def test_each_command_names_the_nearest_of_what_does_not_exist_and_all_that_is_missing(
    words: str, named: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    row = json.dumps({"input": "6*7?", "label": "42"}) + "\n"
    files = {"train.jsonl": row, "data/train.csv": "", "data/more.txt": "", "model/config.json": "{}", "run.yaml": ""}
    for name, content in (files | {"runs/gtpo/metrics.jsonl": "", "runs/other/model/metrics.jsonl": ""}).items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(content)
    assert main(words.split()) == 2
    said = capsys.readouterr().err.splitlines()
    assert_refusal(said[0], f"openrlhf-gtpo {words.split()[0]}: error: ", *named)
    if words.startswith("train --device"):
        assert "--data.label_key" not in "".join(said[1:])


def test_help_of_the_package_lists_every_command_and_imports_none() -> None:
    modules = sorted(module for module, _ in COMMANDS.values())
    program = (
        "import runpy, sys\n"
        "sys.argv[1:] = ['--help']\n"
        "try:\n    runpy.run_module('openrlhf_gtpo', run_name='__main__')\n"
        f"except SystemExit as end:\n    print('ended', end.code, [m for m in {modules} if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.endswith("ended 0 []\n"), done.stderr
    for command in COMMANDS:
        assert f"\n    {command} " in done.stdout


@pytest.mark.parametrize("command", ["eval", "data prepare", "report", "doctor", "train"])
def test_each_command_has_a_help_of_its_own(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, said, _ = ended(f"{command} --help", capsys)
    assert status == 0
    assert said.startswith(f"usage: openrlhf-gtpo {command.split()[0]} ")
    assert ended("--version", capsys) == (0, f"openrlhf-gtpo {version('openrlhf-gtpo')}\n", "")


def test_trls_trainer_without_trl_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trl", None)
    monkeypatch.delitem(sys.modules, "openrlhf_gtpo.trainers.trl", raising=False)
    with pytest.raises(ModuleNotFoundError) as refused:
        importlib.import_module("openrlhf_gtpo.trainers.trl")
    assert_refusal(str(refused.value), "TRL", 'pip install "openrlhf-gtpo[trl]"')
