"""The self-test's parts, what they make of a run's metrics, and what is written down."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from openrlhf_gtpo import cli
from openrlhf_gtpo.selftest import command, kernel, loop
from openrlhf_gtpo.selftest.policy import Task
from openrlhf_gtpo.selftest.result import Part, Result, failed, impossible, passed

from ...refusals import assert_refusal


def metrics(steps: int, **changes: float) -> list[dict[str, Any]]:
    line = {"mismatch/logprob_gap": 1e-4, "entropy/token_mean": 5.0, "timing/step_total": 1.0, "actor_grad_norm": 0.3}
    return [{"step": step, **line, **changes} for step in range(1, steps + 1)]


def test_a_loop_whose_parts_agree_passes_with_its_figures():
    result = loop.judged(metrics(3), 3, "cpu")
    assert result.state == "passed"
    assert result.figures == {"logprob_gap": 1e-4, "entropy": 5.0, "step_seconds": 1.0}


@pytest.mark.parametrize(
    ("found", "named"),
    [
        (metrics(2), "[1, 2]"),
        (metrics(3, **{"mismatch/logprob_gap": 0.3}), "3.0e-01 nats"),
        (metrics(3, **{"mismatch/logprob_gap": float("nan")}), "nan nats"),
        (metrics(3, **{"entropy/token_mean": 0.0}), "[0.0, 0.0, 0.0]"),
        (metrics(3, **{"entropy/token_mean": float("nan")}), "[nan, nan, nan]"),
        (metrics(3, **{"actor_grad_norm": 0.0}), "no gradient"),
    ],
)
def test_a_loop_that_cannot_be_trusted_fails_and_says_why(found: list[dict[str, Any]], named: str):
    result = loop.judged(found, 3, "cpu")
    assert result.state == "failed"
    assert_refusal(result.sentence, named)


def test_a_kernel_that_is_off_by_a_thousandth_fails(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kernel, "VOCABULARY", 500)
    monkeypatch.setattr(kernel, "ROWS", {"cpu": (1, 8)})
    assert kernel.check_kernel("cpu").state == "passed"
    entropy = kernel.token_entropy
    monkeypatch.setattr(kernel, "token_entropy", lambda logits: entropy(logits) + torch.tensor(1e-3))
    result = kernel.check_kernel("cpu")
    assert result.state == "failed"
    assert result.figures["max_error_nats"] == pytest.approx(1e-3, rel=0.01)


@pytest.fixture
def four_parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log = tmp_path / "loop.log"
    log.write_text("of an earlier self-test\n")

    def ends() -> Result:
        with log.open("a") as file:
            file.write("why it ended\n")
        return failed("It ended.")

    def breaks() -> Result:
        raise RuntimeError("engine <gone>")

    found = [
        Part("kernel", lambda: passed("It is exact.", max_error_nats=1e-7)),
        Part("hook", breaks),
        Part("loop", ends, log),
        Part("resume", lambda: impossible("There is no checkpoint.")),
    ]
    monkeypatch.setattr(command, "parts", lambda device, out: found)


def test_a_part_that_breaks_is_a_failure_and_the_others_go_on(
    four_parts: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    status = cli.main(["selftest", "--device", "cpu", "--out", str(tmp_path)])

    said = capsys.readouterr().out
    assert status == 1
    assert "1 passed, 2 failed, 1 not possible" in said
    assert f"attach {tmp_path / 'selftest.json'} to an issue" in said
    written = json.loads((tmp_path / "selftest.json").read_text())
    assert {name: part["state"] for name, part in written["parts"].items()} == {
        "kernel": "passed",
        "hook": "failed",
        "loop": "failed",
        "resume": "not possible here",
    }
    assert written["parts"]["hook"]["sentence"] == "RuntimeError: engine <gone>"
    assert written["parts"]["kernel"]["figures"] == {"max_error_nats": 1e-7}
    assert written["parts"]["loop"]["log"] == "why it ended\n", "whoever reads it has nothing else"
    assert written["parts"]["kernel"]["log"] == ""
    assert written["environment"]["device"] == "cpu"
    page = (tmp_path / "selftest.html").read_text()
    assert "engine &lt;gone&gt;" in page
    assert "max_error_nats 1e-07" in page


def test_only_the_named_parts_run(four_parts: None, tmp_path: Path):
    assert cli.main(["selftest", "--device", "cpu", "--out", str(tmp_path), "--only", "kernel"]) == 0
    assert list(json.loads((tmp_path / "selftest.json").read_text())["parts"]) == ["kernel"]


def test_a_part_that_does_not_exist_is_refused_with_the_names(
    four_parts: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert cli.main(["selftest", "--device", "cpu", "--out", str(tmp_path), "--only", "kernel,speed"]) == 2
    assert_refusal(capsys.readouterr().err, "--only", "speed", "kernel, hook, loop, resume")
    assert not (tmp_path / "selftest.json").exists()


def test_without_checkpoints_there_is_nothing_to_resume(tmp_path: Path):
    result = command._resumed(lambda: failed("It must not run."), tmp_path)
    assert result.state == "not possible here"
    assert_refusal(result.sentence, "`loop`")


def test_what_takes_memory_of_a_gpu_has_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kernel, "token_entropy", lambda logits: pytest.fail("it ran in the command's process"))
    assert command._alone(kernel.check_kernel, "cpu").state == "passed"


def test_a_gpu_is_waited_for_until_other_processes_have_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "holder").write_text("123, vllm, 71 GiB\n")
    nvidia_smi(tmp_path, monkeypatch, "cat holder; : > holder; echo asked >> calls")
    assert loop._gpu_is_held() is None
    assert (tmp_path / "calls").read_text() == "asked\nasked\n"


def test_a_gpu_that_stays_held_is_a_failure_that_names_the_holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    nvidia_smi(tmp_path, monkeypatch, "echo 123, vllm, 71 GiB")
    monkeypatch.setattr(loop, "FREE_SECONDS", 1)
    task = Task(tmp_path / "model", tmp_path / "data", tmp_path / "reward.py")
    result = loop.train(task, tmp_path / "run", "gpu", 3, tmp_path / "log")
    assert (result.state, "(123, vllm, 71 GiB): end them" in result.sentence) == ("failed", True)


def nvidia_smi(folder: Path, monkeypatch: pytest.MonkeyPatch, does: str) -> None:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\ncd {folder}\n{does}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
