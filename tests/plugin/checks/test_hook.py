"""The entropy hook: what is said of vLLM's samplers, and a real engine against a real forward pass."""

from pathlib import Path
from typing import Any

import pytest

from openrlhf_gtpo.checks import hook
from openrlhf_gtpo.checks.hook import check_engine, check_hook, check_plugin, check_served
from openrlhf_gtpo.checks.isolated import ProbeFailed

from ...fake_reward_server import free_port
from ...refusals import assert_refusal


@pytest.mark.engine
@pytest.mark.usefixtures("preloaded_checks")
def test_the_installed_vllms_samplers_are_found_and_covered() -> None:
    found = check_hook()
    assert found.state == "ok"
    assert found.sentence.startswith("It covers vllm.v1.sample.sampler.Sampler")
    assert "vllm.v1.worker.gpu.sample.sampler.Sampler" in found.sentence


@pytest.mark.parametrize(
    ("hooked", "problem", "state", "why"),
    [(None, "No triton", "ok", "(No triton)"), (False, None, "warning", "--engine")],
)
def test_a_sampler_that_cannot_be_imported_or_is_not_known_is_not_said_to_be_covered(
    hooked: bool | None, problem: str | None, state: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = [
        {"name": "v1.Sampler", "hooked": True, "problem": None},
        {"name": "v2.Sampler", "hooked": hooked, "problem": problem},
    ]
    monkeypatch.setattr(hook, "isolated", lambda *_: known)
    found = check_hook()
    assert found.state == state
    assert_refusal(found.sentence, "v2.Sampler", why)


@pytest.mark.parametrize(("has_fix", "fix"), [(True, ""), (False, ": fix the installation of vLLM")])
def test_a_vllm_that_does_not_fit_is_a_fault(has_fix: bool, fix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def isolated(*_: object) -> None:
        raise ProbeFailed("ImportError: libcudart.so", has_fix=has_fix)

    monkeypatch.setattr(hook, "isolated", isolated)
    found = check_hook()
    assert (found.state, found.sentence) == ("fault", f"ImportError: libcudart.so{fix}.")


@pytest.mark.engine
@pytest.mark.usefixtures("preloaded_checks")
def test_a_real_engines_entropies_agree_with_a_forward_pass(policy: Path) -> None:
    found = check_engine(str(policy), "cpu", True)
    assert found.state == "ok", found.sentence
    assert " 32 tokens " in found.sentence


def test_entropies_that_disagree_are_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: dict[str, Any] = {
        "sample": {"prompts": [[1]], "tokens": [[2, 3]], "entropies": [[0.5, 1.5]]},
        "forward": [[0.5, 1.3]],
    }
    monkeypatch.setattr(hook, "isolated", lambda probe, *_: answers[probe])
    found = check_engine("m", "gpu", True)
    assert found.state == "fault"
    assert_refusal(found.sentence, " 2 tokens ", "1.0e-01 nats", "0.05")
    answers["forward"] = [[0.5, 1.41]]
    assert check_engine("m", "gpu", True).state == "ok"
    answers["forward"] = [[0.5, float("nan")]]
    assert check_engine("m", "gpu", True).state == "fault"


@pytest.mark.engine
@pytest.mark.usefixtures("preloaded_checks")
def test_an_engine_that_does_not_start_is_a_fault(tmp_path: Path) -> None:
    found = check_engine(str(tmp_path), "cpu", True)
    assert found.state == "fault"
    assert_refusal(found.sentence, str(tmp_path))


@pytest.mark.parametrize(
    ("model", "wanted", "flag"), [("m", False, "--engine"), (None, True, "--actor.model_name_or_path")]
)
def test_an_engine_is_started_only_when_asked_for(model: str | None, wanted: bool, flag: str) -> None:
    found = check_engine(model, "cpu", wanted)
    assert (found.state, flag in found.sentence) == ("skipped", True)


@pytest.mark.parametrize(
    ("environment", "state", "named"),
    [
        ({}, "ok", "OPENRLHF_GTPO_ENTROPY=1"),
        ({"OPENRLHF_GTPO_ENTROPY": "1"}, "ok", "OPENRLHF_GTPO_ENTROPY is 1"),
        ({"OPENRLHF_GTPO_ENTROPY": "true"}, "fault", "OPENRLHF_GTPO_ENTROPY is 'true'"),
        ({"VLLM_PLUGINS": "lora"}, "warning", "VLLM_PLUGINS is 'lora'"),
        ({"VLLM_PLUGINS": "", "OPENRLHF_GTPO_ENTROPY": "1"}, "fault", "add openrlhf_gtpo_entropy"),
        ({"VLLM_PLUGINS": "lora,openrlhf_gtpo_entropy"}, "ok", "OPENRLHF_GTPO_ENTROPY=1"),
    ],
)
def test_a_plugin_that_vllm_would_leave_out_is_found_before_it_starts(
    environment: dict[str, str], state: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENRLHF_GTPO_ENTROPY", "VLLM_PLUGINS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = check_plugin()
    assert (found.name, found.state) == ("entropy plugin", state)
    assert_refusal(found.sentence, named)


def test_an_installation_without_the_entry_point_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook, "entry_points", lambda **_: ())
    found = check_plugin()
    assert found.state == "warning"
    assert_refusal(found.sentence, "openrlhf-gtpo", "pip")


def test_a_server_that_does_not_answer_is_a_fault() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    found = check_served(url)
    assert (found.name, found.state) == ("vLLM server", "fault")
    assert_refusal(found.sentence, url)
