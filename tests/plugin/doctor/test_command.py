"""The command: what is refused, a whole examination in a process of its own, and checks that fail."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from openrlhf_gtpo.cli import main
from openrlhf_gtpo.data.findings import Finding, fault, ok, warning
from openrlhf_gtpo.doctor import checks, command, machine
from openrlhf_gtpo.doctor.checks import Question


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--max_len", "0"], "--max_len is 0, but needs to be at least 1."),
        (["--max_new_tokens", "-1"], "--max_new_tokens is -1, but needs to be at least 1."),
        (
            ["--max_len", "512", "--max_new_tokens", "512"],
            "--max_new_tokens is 512, but --max_len 512 has to hold the prompt too: make it larger.",
        ),
        (["--ray_address", "local"], "--ray_address is local, which is not the address of a cluster: leave it out."),
        (["--reward_url", "localhost:8000"], "not 'localhost:8000'."),
        (["--reward_url", ","], "--reward_url has no URL: write one such as http://127.0.0.1:8000, or leave it out."),
    ],
)
def test_what_has_no_meaning_is_refused_in_one_sentence(
    flags: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", *flags]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("openrlhf-gtpo doctor: error: ")
    assert said.err.rstrip().endswith(sentence)
    assert len(said.err.splitlines()) == 1


def test_a_flag_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["doctor", "--modle", "m"])
    assert stopped.value.code == 2
    assert "--modle" in capsys.readouterr().err


@pytest.mark.engine
def test_a_whole_examination_as_a_program_reads_it(policy: Path, written: Callable[..., Path], tmp_path: Path) -> None:
    """Everything but an engine and a cluster, on a data set with one fault of each kind that a model shows."""
    data = written(
        {"input": "6 * 7 ?", "label": "42"},
        {"input": "one " * 50, "label": "50"},
        {"input": "2 / 0 ?", "label": r"\boxed{}"},
        {"input": "6 * 7 ?", "label": "42"},
    )
    flags = ["--model", policy, "--data", data, "--max_len", "40", "--max_new_tokens", "20", "--out", tmp_path / "o"]
    done = subprocess.run(
        [sys.executable, "-m", "openrlhf_gtpo", "doctor", "--device", "cpu", "--json", *map(str, flags)],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 1, done.stderr[-3000:]
    found = json.loads(done.stdout)
    states = {check["name"]: check["state"] for check in found["checks"]}
    assert states == {
        "Python": "ok",
        "OpenRLHF": "ok",
        "vLLM": "ok",
        "torch": "ok",
        "ray": "ok",
        "deepspeed": "ok",
        "transformers": "ok",
        "GPU": "ok",
        "positions": "ok",
        "memory": "skipped",
        "entropy hook": "ok",
        "vLLM engine": "skipped",
        "Ray": "ok",
        "Ray cluster": "skipped",
        "disk": "ok",
        "reward service": "ok",
        "chat template": "ok",
        "data: rows": "ok",
        "data: labels": "ok",
        "data: repeats": "warning",
        "data: lengths": "fault",
        "data: references": "fault",
    }
    said = {check["name"]: check["sentence"] for check in found["checks"]}
    assert f"{data}: 1 of 4 prompts have more than 20 tokens" in said["data: lengths"]
    assert f"{data}: the grader cannot read 1 of 4 references, in line 3" in said["data: references"]
    assert found["summary"] == "2 faults to fix, 1 warning to look at, in 19 checks; 3 skipped."
    assert "Traceback" not in done.stderr


def answers(*findings: Finding) -> Callable[[Question, object], list[Finding]]:
    return lambda asked, announce: list(findings)


@pytest.mark.parametrize(
    ("findings", "status"),
    [
        ([ok("a", "Fine.")], 0),
        ([ok("a", "Fine."), warning("b", "Look: look.")], 0),
        ([ok("a", "Fine."), fault("b", "Bad: fix it."), warning("c", "Look: look.")], 1),
    ],
)
def test_the_exit_status_says_whether_something_has_to_be_fixed(
    findings: list[Finding], status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "examine", answers(*findings))
    assert main(["doctor"]) == status
    *_, last = capsys.readouterr().out.rstrip().split("\n")
    assert last.endswith(".")
    assert "check" in last


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_each_finding_is_written_before_the_next_check_begins(
    flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To a file, which is buffered as a pipe is; with --json standard output holds the JSON alone, at the end."""
    seen: list[str] = []
    with (tmp_path / "output").open("w") as output, (tmp_path / "errors").open("w") as errors:
        monkeypatch.setattr(sys, "stdout", output)
        monkeypatch.setattr(sys, "stderr", errors)

        def examine(asked: Question, announce: checks.Announce) -> Iterator[Finding]:
            yield ok("first", "Fine.")
            announce("second", "waiting for a bus", 45.0)
            seen.append((tmp_path / "output").read_text())
            seen.append((tmp_path / "errors").read_text())
            yield ok("second", "Fine, too.")

        monkeypatch.setattr(command, "examine", examine)
        assert main(["doctor", "--device", "cpu", *flags]) == 0
    waits = "openrlhf-gtpo doctor: second: waiting for a bus, 45 s at most\n"
    first = "openrlhf-gtpo doctor: first: ok\n"
    assert seen == (["", first + waits] if flags else ["ok       first             Fine.\n", waits])


def test_a_check_that_is_not_done_in_its_time_is_a_fault_and_the_next_one_begins() -> None:
    announced: list[tuple[str, str, float]] = []
    look = checks._Look(lambda *said: announced.append(said))
    bus = threading.Event()
    (found,) = look("bus", 0.25, "waiting for a bus", bus.wait)
    assert (found.state, found.sentence) == (
        "fault",
        "The check did not end within 0.25 s (waiting for a bus): see what it waits for.",
    )
    assert announced == [("bus", "waiting for a bus", 0.25)]
    bus.set()
    assert look("next", 120, "", lambda: ok("next", "Fine.")) == [ok("next", "Fine.")]


def test_every_check_that_waits_says_for_what_and_how_long(
    written: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Question(
        model="m", data=written({"input": "6*7?", "label": "42"}), max_len=9, ray_address="10.0.0.1:1", engine=True
    )
    announced: dict[str, str] = {}

    class Look(checks._Look):
        """Runs no check but the one of the data's form."""

        def __call__(self, name: str, seconds: float, waits: str, check: object, *arguments: object) -> list[Finding]:
            assert 0 < seconds <= 2 * 1800 + 30
            if name == checks.dataset.ROWS:
                return super().__call__(name, seconds, waits, check, *arguments)  # type: ignore[arg-type]
            if waits:
                self.announce(name, waits, seconds)
            return [ok(name, "Fine.")]

    monkeypatch.setattr(checks, "_Look", Look)
    list(checks.examine(asked, lambda name, waits, seconds: announced.update({name: waits})))
    assert announced == {
        "OpenRLHF": "importing it and what it needs",
        "GPU": "asking torch",
        "entropy hook": "importing vLLM",
        "vLLM engine": "sampling with m",
        "Ray": "importing it, then joining 10.0.0.1:1",
        "reward service": "asking the built-in one for two verdicts",
        "chat template": "loading the tokenizer of m",
        "data: rows": f"reading {asked.data}",
    }


def test_an_exception_in_a_check_is_a_fault_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Finding:
        raise ZeroDivisionError("division by zero\nsecond line")

    quiet = {"check_openrlhf": ok("OpenRLHF", "It is."), "check_vllm": ok("vLLM", "It is.")}
    for name, finding in quiet.items():
        monkeypatch.setattr(checks.packages, name, lambda *_, finding=finding: finding)
    monkeypatch.setattr(checks.hook, "check_hook", lambda: ok("entropy hook", "It is."))
    monkeypatch.setattr(checks.reward, "check_rewards", broken)
    monkeypatch.setattr(machine, "_import_fault", lambda: None)
    monkeypatch.setattr(machine, "check_disk", broken)
    found = {finding.name: finding for finding in checks.examine(Question(device="cpu"))}
    assert found["disk"].state == found["reward service"].state == "fault"
    assert found["disk"].sentence.startswith(
        "The check itself failed (ZeroDivisionError: division by zero, in test_command.py, line "
    )
    assert found["chat template"].sentence == "Not checked: give --model."
    assert found["data: references"].sentence == "Not checked: give --data."


def test_what_cannot_be_checked_for_another_fault_is_skipped(
    written: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a tokenizer nor a service: lengths and references are not said to be right."""
    asked = Question(model=str(tmp_path / "none"), data=written({"input": "6*7?", "label": "42"}), max_len=100)
    monkeypatch.setattr(checks.reward, "check_rewards", lambda *_: ([fault("reward service", "It is gone.")], None))
    with checks.contextlib.ExitStack() as cleanup:
        look = checks._Look(lambda *_: None)
        found = {finding.name: finding for finding in checks._service_and_data(asked, cleanup, look)}
    assert found["chat template"].state == "fault"
    assert "none cannot be loaded (" in found["chat template"].sentence
    assert found["data: rows"].state == found["data: labels"].state == "ok"
    assert found["data: lengths"].state == found["data: references"].state == "skipped"
