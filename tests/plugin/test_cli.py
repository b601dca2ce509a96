"""The command ``openrlhf-gtpo``: its sub-commands, and what it says of one that does not exist."""

import subprocess
import sys

import pytest

from openrlhf_gtpo.cli import COMMANDS, main


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["trian"], "openrlhf-gtpo: error: There is no command trian: did you mean train?"),
        (["Train", "--help"], "openrlhf-gtpo: error: There is no command Train: did you mean train?"),
        (["xyz"], "openrlhf-gtpo: error: There is no command xyz: --help lists them."),
        ([], "openrlhf-gtpo: error: the following arguments are required: COMMAND"),
        (["data", "prepar"], "openrlhf-gtpo data: error: There is no command prepar: did you mean prepare?"),
        (["report"], "openrlhf-gtpo report: error: the following arguments are required: RUN"),
        (["doctor", "--modle", "x"], "openrlhf-gtpo doctor: error: There is no flag --modle: did you mean --model?"),
        (
            ["eval", "--model", "m", "--data", "d.jsonl", "--out", "o", "--temprature=1"],
            "openrlhf-gtpo eval: error: There is no flag --temprature: did you mean --temperature?",
        ),
        (
            ["selftest", "--on", "kernel", "loop"],
            "openrlhf-gtpo selftest: error: 'loop' belongs to no flag: --help lists them.",
        ),
    ],
)
def test_what_does_not_exist_is_named_with_the_nearest_after_the_usage(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("usage: ")
    assert said[-1] == sentence


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
