"""The command ``openrlhf-gtpo``: its sub-commands, and what it says of one that does not exist."""

import subprocess
import sys

import pytest

from openrlhf_gtpo.cli import COMMANDS, main

from ..refusals import assert_refusal

REFUSED: list[tuple[str, ...]] = [
    ("trian", "openrlhf-gtpo: error: ", "trian", "train?"),
    ("Train --help", "openrlhf-gtpo: error: ", "Train", "train?"),
    ("xyz", "openrlhf-gtpo: error: ", "xyz", "--help"),
    ("data prepar", "openrlhf-gtpo data: error: ", "prepar", "prepare?"),
    ("doctor --modle x", "openrlhf-gtpo doctor: error: ", "--modle", "--model?"),
    ("eval --model m --data d.jsonl --out o --temprature=1", "openrlhf-gtpo eval: ", "--temprature", "--temperature?"),
    ("selftest --on kernel loop", "openrlhf-gtpo selftest: error: ", "'loop'"),
]


def refused(words: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    assert ended.value.code == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("usage: ")
    return said[-1]


@pytest.mark.parametrize(("words", "named"), [(words, named) for words, *named in REFUSED])
def test_what_does_not_exist_is_named_with_the_nearest_after_the_usage(
    words: str, named: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert_refusal(refused(words, capsys), *named)


@pytest.mark.parametrize(("words", "missing"), [("", "COMMAND"), ("report", "RUN")])
def test_what_is_missing_is_named(words: str, missing: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(words, capsys).endswith(f": {missing}")


def test_help_lists_every_command_and_imports_none() -> None:
    modules = sorted(module for module, _ in COMMANDS.values() if isinstance(module, str))
    program = (
        "import sys\n"
        "from openrlhf_gtpo.cli import main\n"
        "try:\n    main(['--help'])\n"
        f"except SystemExit as end:\n    print('ended', end.code, [m for m in {modules} if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.endswith("ended 0 []\n"), done.stderr
    for command in COMMANDS:
        assert f"\n    {command} " in done.stdout


@pytest.mark.parametrize("command", [["eval"], ["data", "prepare"], ["report"], ["doctor"], ["selftest"], ["train"]])
def test_each_command_has_a_help_of_its_own(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: openrlhf-gtpo {' '.join(command)} ")


def test_the_package_itself_is_the_command() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "openrlhf_gtpo", "trian"], capture_output=True, text=True, timeout=120
    )
    assert said.returncode == 2
    assert said.stderr.endswith("There is no command trian: did you mean train?\n")
