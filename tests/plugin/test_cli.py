"""The command ``openrlhf-gtpo``: its sub-commands, and what it says of one that does not exist."""

import subprocess
import sys
from importlib.metadata import version

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
        ("trian", ["openrlhf-gtpo: error: ", "trian", "train?"]),
        ("xyz", ["openrlhf-gtpo: error: ", "xyz", "--help"]),
        ("eval --model m --data d.jsonl --out o --temprature=1", ["openrlhf-gtpo eval: ", "--temprature"]),
        ("data prepar x", ["openrlhf-gtpo data: ", "prepar"]),
        ("", ["COMMAND"]),
        ("report", ["RUN"]),
    ],
)
def test_what_does_not_exist_or_is_missing_is_named_after_the_usage(
    words: str, named: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, said = ended(words, capsys)
    assert status == 2
    assert said.startswith("usage: ")
    assert [name for name in named if name not in said.splitlines()[-1]] == []


def test_a_flag_of_the_doctor_is_checked_as_trainings_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--rollout.batchsize", "3"]) == 2
    assert_refusal(capsys.readouterr().err, "openrlhf-gtpo doctor: error: ", "--rollout.batchsize", "batch_size?")


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
