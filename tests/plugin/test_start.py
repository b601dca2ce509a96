"""`openrlhf-gtpo start`: each command that it prints is one that our own parsers and scripts take."""

import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from openrlhf_gtpo import start
from openrlhf_gtpo.cli import main
from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.start import Machine, lines

from .test_launch_scripts import as_rows, data, python

ROOT = Path(__file__).parents[2]


def commands(printed: list[str]) -> list[list[str]]:
    return [words for line in printed if (words := shlex.split(line, comments=True))]


def accept(words: list[str], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Fail unless the command's own parser takes it; of training, its plan."""
    variables = dict(word.split("=", 1) for word in words if "=" in word.split("--")[0])
    program, *rest = words[len(variables) :]
    if program == "bash":
        script, *flags = rest
        assert (ROOT / script).is_file()
        if "train" not in script:
            return {}
        done = subprocess.run(
            ["bash", str(ROOT / script), *flags, *([] if "--dry-run" in flags else ["--dry-run"])],
            env={**os.environ, **variables, "DATA": data(), "PYTHON": python(), "HF_HUB_OFFLINE": "0"},
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return as_rows(done.stdout)
    assert program == "openrlhf-gtpo"
    reached: list[Any] = []

    class Reached(Exception):
        pass

    def parsed(self: Any, *args: Any, **kwargs: Any) -> Any:
        reached.append(parse(self, *args, **kwargs))
        raise Reached

    from openrlhf_gtpo.parsing import Parser

    parse = Parser.parse_args
    with monkeypatch.context() as patch:
        patch.setattr(Parser, "parse_args", parsed)
        with pytest.raises(Reached):
            main(rest)
    assert reached
    return {}


@pytest.mark.parametrize(
    ("machine", "policy"),
    [
        (Machine(1, 24, 8), "Qwen/Qwen2.5-0.5B-Instruct"),
        (Machine(1, 80, 8), "Qwen/Qwen2.5-1.5B-Instruct"),
        (Machine(4, 24, 32), "Qwen/Qwen2.5-1.5B-Instruct"),
        (Machine(8, 80, 96, ("org/other", "Qwen/Qwen2.5-7B-Instruct")), "Qwen/Qwen2.5-7B-Instruct"),
    ],
    ids=lambda value: f"{value.gpus} x {value.gib}" if isinstance(value, Machine) else None,
)
def test_every_command_for_gpus_is_accepted_and_fits(
    machine: Machine, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = lines(machine, None)
    assert [line[2] for line in printed if line.startswith("# ")][1:] == list("123456")
    plans = [plan for words in commands(printed) if (plan := accept(words, monkeypatch))]
    assert [plan["preset"].split(",")[0] for plan in plans] == ["gtpo", "gtpo", "dapo"]
    for plan in plans:
        assert plan["policy"] == policy
        assert plan["training"].startswith(f"{machine.gpus} GPU(s), ")
        assert "warning" not in plan


def test_without_a_gpu_the_laptops_commands_are_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(start, "this_machine", lambda: Machine(cpus=2))
    assert main(["start"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("# No GPU, 2 CPUs: ")
    found = commands(printed)
    assert ["bash", "launch/quickstart.sh"] in found
    for words in found:
        accept(words, monkeypatch)


def test_gpus_that_do_not_share_a_batch_evenly_stay_unused_and_are_said_to() -> None:
    printed = lines(Machine(7, 80, 8), None)
    assert printed[0].startswith("# 4 GPU(s) of 80 GiB, ")
    assert "GPUS=4 " in "\n".join(printed)


def test_data_of_ones_own_is_prepared_unless_it_is_already(tmp_path: Path) -> None:
    raw, ready = tmp_path / "raw.jsonl", tmp_path / "ready.jsonl"
    raw.write_text('{"question": "1 + 1?", "answer": "2"}\n')
    ready.write_text('{"input": "1 + 1? Within \\\\boxed{}.", "label": "2"}\n')
    printed = "\n".join(lines(Machine(8, 80, 8), raw))
    assert f"data prepare other --from {raw} --out data" in printed
    assert "DATA=data/other.jsonl" in printed
    printed = "\n".join(lines(Machine(8, 80, 8), ready))
    assert "data prepare other" not in printed
    assert f"DATA={ready} " in printed
    with pytest.raises(SettingsError, match="There is no file "):
        lines(Machine(8, 80, 8), tmp_path / "none.jsonl")


def test_this_machine_has_cpus() -> None:
    assert start.this_machine().cpus >= 1
