"""The command: what is refused, a whole examination in a process of its own, and checks that fail."""

import itertools
import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from openrlhf_gtpo.checks.findings import Finding, fault, ok, warning
from openrlhf_gtpo.checks.flags import faults
from openrlhf_gtpo.cli import main
from openrlhf_gtpo.doctor import command, examination
from openrlhf_gtpo.doctor.examination import Announce, Question
from openrlhf_gtpo.openrlhf_internals import OpenRLHFMismatch
from openrlhf_gtpo.settings import Settings

from ...refusals import assert_refusal

REFUSED: list[tuple[str, ...]] = [
    ("--max_len ten", "--data.max_len", "'ten'"),
    ("--ray_address local", "--ray_address", "local"),
    ("--data x.jsonl -- --preset gtpo", "--data.prompt_dataset"),
    ("-- --data.promt_dataset x", "--data.promt_dataset", "--data.prompt_dataset"),
    ("-- --preset gpto", "--preset gpto"),
]


@pytest.mark.parametrize(("flags", "named"), [(flags, named) for flags, *named in REFUSED])
def test_what_has_no_meaning_is_refused_in_one_sentence(
    flags: str, named: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", *flags.split()]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = [line for line in said.err.splitlines() if "importing torch" not in line]
    assert_refusal(line, "openrlhf-gtpo doctor: error: ", *named)


@pytest.mark.engine
@pytest.mark.usefixtures("preloaded_checks")
def test_a_whole_examination_as_a_program_reads_it(
    policy: Path,
    written: Callable[..., Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Everything but an engine and a cluster, on a data set with one fault of each kind that a model shows."""
    data = written(
        {"input": "6 * 7 ?", "label": "42"},
        {"input": "one " * 50, "label": "50"},
        {"input": "2 / 0 ?", "label": r"\boxed{}"},
        {"input": "6 * 7 ?", "label": "42"},
    )
    training = ["--device", "cpu", "--preset", "gtpo", "--actor.model_name_or_path", policy, "--data.max_len", 40]
    training += ["--rollout.max_new_tokens", 20, "--data.prompt_dataset", data, "--data.label_key", "label"]
    training += ["--data.apply_chat_template", "--ckpt.output_dir", tmp_path / "o"]
    assert main(["doctor", "--json", "--", *map(str, training)]) == 1
    output, errors = capsys.readouterr()
    found = json.loads(output)
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
        "entropy hook": "ok",
        "entropy plugin": "ok",
        "Ray": "ok",
        "Ray cluster": "skipped",
        "flags": "ok",
        "files": "ok",
        "positions": "ok",
        "memory": "skipped",
        "vLLM engine": "skipped",
        "disk": "ok",
        "reward service": "ok",
        "chat template": "ok",
        "data: rows": "ok",
        "data: labels": "ok",
        "data: repeats": "warning",
        "data: lengths": "fault",
        "data: answers": "warning",
        "data: references": "fault",
    }
    said = {check["name"]: check["sentence"] for check in found["checks"]}
    assert_refusal(said["data: lengths"], str(data), "1 of 4 ", " 20 tokens")
    assert_refusal(said["data: references"], str(data), "1 of 4 ", "line 3")
    assert found["summary"].startswith("2 faults ")
    assert "Traceback" not in errors


@pytest.fixture
def question(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Question]:
    """What the doctor looks into for a command line."""

    def ask(*words: object) -> Question:
        questions: list[Question] = []
        monkeypatch.setattr(command, "examine", lambda asked, announce: questions.append(asked) or [])
        assert main(["doctor", *map(str, words)]) == 0
        return questions[0]

    return ask


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

        def examine(asked: Question, announce: Announce) -> Iterator[Finding]:
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


def test_a_check_that_is_not_done_in_its_time_is_a_fault_and_the_next_one_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bus = threading.Event()
    monkeypatch.setattr(examination, "MOMENT", 0.25)
    monkeypatch.setattr(examination.packages, "check_python", bus.wait)
    monkeypatch.setattr(examination.packages, "check_openrlhf", lambda: ok("OpenRLHF", "It is."))
    waits, following = itertools.islice(examination.examine(Question(None)), 2)
    bus.set()
    assert (waits.name, waits.state) == ("Python", "fault")
    assert_refusal(waits.sentence, "0.25 s")
    assert following.state == "ok"


@pytest.fixture
def asked(settings: Callable[..., Settings]) -> Callable[..., Question]:
    """A question about the training command of these flags, with an engine on a CPU."""

    def question(*flags: object, **changes: Any) -> Question:
        command = settings("--vllm.num_engines", 1, "--data.label_key", "label", *flags).changed({"device": "cpu"})
        return Question(command, **changes)

    return question


def broken(*_: object) -> Finding:
    raise ZeroDivisionError("division by zero\nsecond line")


@pytest.fixture
def examined(monkeypatch: pytest.MonkeyPatch) -> Callable[[Question], dict[str, Finding]]:
    """The findings by name, without the slow checks of the machine, and with a service that cannot be asked."""
    for name in ("check_openrlhf", "check_vllm"):
        monkeypatch.setattr(examination.packages, name, lambda *_, name=name: ok(name, "It is."))
    monkeypatch.setattr(examination.hook, "check_hook", lambda: ok("entropy hook", "It is."))
    monkeypatch.setattr(examination.machine, "check_ray", lambda *_: ok("Ray", "It is."))
    monkeypatch.setattr(examination.services, "check_rewards", broken)
    return lambda question: {finding.name: finding for finding in examination.examine(question)}


def test_an_exception_in_a_check_is_a_fault_and_the_others_go_on(
    examined: Callable[[Question], dict[str, Finding]], asked: Callable[..., Question]
) -> None:
    found = examined(asked(whole=False))
    assert found["reward service"].state == "fault"
    assert_refusal(found["reward service"].sentence, "(ZeroDivisionError: division by zero", "test_command.py, line ")
    assert found["files"].state == "ok", "nothing is named that could be missing"
    skipped = ("positions", "memory", "chat template", "data: rows", "data: references")
    assert {found[name].state for name in skipped} == {"skipped"}


def test_a_training_command_is_checked_as_training_checks_it(
    examined: Callable[[Question], dict[str, Finding]], asked: Callable[..., Question], written: Callable[..., Path]
) -> None:
    data = written({"input": "6*7?", "label": "42"}, {"input": "6*8?", "label": ""})
    flags = ["--data.prompt_dataset", data, "--actor.model_name_or_path", "./none", "--algo.kl.use_loss"]
    found = examined(asked(*flags, "--ds.zero_stage", 4))
    assert_refusal(found["flags"].sentence, "--ds.zero_stage is 4")
    assert_refusal(found["files"].sentence, "--actor.model_name_or_path", "./none")
    assert_refusal(found["data: labels"].sentence, f"{data}: line 2 ", "'label'")
    assert found["chat template"].state == "fault"
    assert found["data: lengths"].state == "skipped", "there is no tokenizer"


def test_without_openrlhf_the_machine_is_checked_and_the_command_is_not(
    examined: Callable[[Question], dict[str, Finding]],
    question: Callable[..., Question],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(*_: object) -> None:
        raise OpenRLHFMismatch("OpenRLHF is not installed.")

    monkeypatch.setattr(command.command_line, "parse", missing)
    found = examined(question("--", "--preset", "gtpo"))
    assert found["torch"].state == "ok"
    assert_refusal(found["flags"].sentence, "without OpenRLHF")


def test_the_flags_of_earlier_versions_stand_for_a_training_command(
    tmp_path: Path, question: Callable[..., Question]
) -> None:
    flags = ["--model", "m", "--data", "d.jsonl", "--max_len", 96, "--out", tmp_path, "--gpus", 4, "--device", "gpu"]
    asked = question(*flags)
    assert asked.settings is not None
    given = asked.settings.flags
    assert (given["actor.model_name_or_path"], given["data.prompt_dataset"]) == ("m", "d.jsonl")
    assert (given["data.max_len"], given["ckpt.output_dir"]) == (96, str(tmp_path))
    assert (given["actor.num_gpus_per_node"], given["vllm.num_engines"]) == (4, 4)
    assert faults(asked.settings) == []
    assert not asked.whole
