"""The entropy hook: what is said of vLLM's samplers, and a real engine against a real forward pass."""

from pathlib import Path
from typing import Any

import pytest

from openrlhf_gtpo.checks import hook
from openrlhf_gtpo.checks.hook import check_engine, check_hook, check_plugin, check_served
from openrlhf_gtpo.checks.isolated import ProbeFailed

from ...fake_reward_server import free_port


@pytest.mark.engine
@pytest.mark.usefixtures("preloaded_checks")
def test_the_installed_vllms_samplers_are_found_and_covered() -> None:
    found = check_hook()
    assert found.state == "ok"
    assert found.sentence.startswith("It covers vllm.v1.sample.sampler.Sampler")
    assert "vllm.v1.worker.gpu.sample.sampler.Sampler" in found.sentence


@pytest.mark.parametrize(
    ("hooked", "problem", "state", "words"),
    [
        (
            None,
            "No module named 'triton'",
            "ok",
            "It covers v1.Sampler; v2.Sampler cannot be imported here (No module",
        ),
        (False, None, "warning", "vLLM also has v2.Sampler, which the hook does not cover"),
    ],
)
def test_a_sampler_that_cannot_be_imported_or_is_not_known_is_not_said_to_be_covered(
    hooked: bool | None, problem: str | None, state: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = [
        {"name": "v1.Sampler", "hooked": True, "problem": None},
        {"name": "v2.Sampler", "hooked": hooked, "problem": problem},
    ]
    monkeypatch.setattr(hook, "isolated", lambda *_: known)
    found = check_hook()
    assert (found.state, words in found.sentence) == (state, True), found.sentence


@pytest.mark.parametrize(
    ("failed", "sentence"),
    [
        (ProbeFailed("It does not fit: install another", has_fix=True), "It does not fit: install another."),
        (ProbeFailed("ImportError: libcudart.so"), "ImportError: libcudart.so: fix the installation of vLLM."),
    ],
)
def test_a_vllm_that_does_not_fit_is_a_fault(
    failed: ProbeFailed, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def isolated(*_: object) -> None:
        raise failed

    monkeypatch.setattr(hook, "isolated", isolated)
    found = check_hook()
    assert (found.state, found.sentence) == ("fault", sentence)


@pytest.mark.engine
@pytest.mark.usefixtures("preloaded_checks")
def test_a_real_engines_entropies_agree_with_a_forward_pass(policy: Path) -> None:
    found = check_engine(str(policy), "cpu", True)
    assert found.state == "ok", found.sentence
    assert found.sentence.startswith("The entropies of 32 tokens are ")


def test_entropies_that_disagree_are_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: dict[str, Any] = {
        "sample": {"prompts": [[1]], "tokens": [[2, 3]], "entropies": [[0.5, 1.5]]},
        "forward": [[0.5, 1.3]],
    }
    monkeypatch.setattr(hook, "isolated", lambda probe, *_: answers[probe])
    found = check_engine("m", "gpu", True)
    assert (found.state, found.sentence) == (
        "fault",
        "The entropies of 2 tokens are 1.0e-01 nats from a float32 forward pass on average, more than 0.05: do not "
        "train with this vLLM, install the one that OpenRLHF asks for.",
    )
    answers["forward"] = [[0.5, float("nan")]]
    assert check_engine("m", "gpu", True).state == "fault"


@pytest.mark.engine
@pytest.mark.usefixtures("preloaded_checks")
def test_an_engine_that_does_not_start_is_a_fault(tmp_path: Path) -> None:
    found = check_engine(str(tmp_path), "cpu", True)
    assert found.state == "fault"
    assert found.sentence.startswith(f"An engine with {tmp_path} gave no entropies (")


@pytest.mark.parametrize(
    ("model", "wanted", "flag"), [("m", False, "--engine"), (None, True, "--actor.model_name_or_path")]
)
def test_an_engine_is_started_only_when_asked_for(model: str | None, wanted: bool, flag: str) -> None:
    found = check_engine(model, "cpu", wanted)
    assert (found.state, flag in found.sentence) == ("skipped", True)


@pytest.mark.parametrize(
    ("environment", "state", "words"),
    [
        ({}, "ok", "Any vLLM that starts here with OPENRLHF_GTPO_ENTROPY=1 has the hook."),
        ({"OPENRLHF_GTPO_ENTROPY": "1"}, "ok", "OPENRLHF_GTPO_ENTROPY is 1, so every vLLM that starts here has"),
        ({"OPENRLHF_GTPO_ENTROPY": "true"}, "fault", "OPENRLHF_GTPO_ENTROPY is 'true': set it to 1 for entropies"),
        ({"VLLM_PLUGINS": "lora"}, "warning", "VLLM_PLUGINS is 'lora', so vLLM does not load the plugin: add openrlh"),
        ({"VLLM_PLUGINS": "", "OPENRLHF_GTPO_ENTROPY": "1"}, "fault", "does not load the plugin: add openrlhf_gtpo_e"),
        ({"VLLM_PLUGINS": "lora,openrlhf_gtpo_entropy"}, "ok", "Any vLLM"),
    ],
)
def test_a_plugin_that_vllm_would_leave_out_is_found_before_it_starts(
    environment: dict[str, str], state: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENRLHF_GTPO_ENTROPY", "VLLM_PLUGINS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = check_plugin()
    assert (found.name, found.state, words in found.sentence) == ("entropy plugin", state, True), found.sentence


def test_an_installation_without_the_entry_point_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook, "entry_points", lambda **_: ())
    found = check_plugin()
    assert (found.state, "install it with pip" in found.sentence) == ("warning", True), found.sentence


def test_a_server_that_does_not_answer_is_a_fault() -> None:
    found = check_served(f"http://127.0.0.1:{free_port()}")
    assert (found.name, found.state, "gives no answer of a vLLM server" in found.sentence) == (
        "vLLM server",
        "fault",
        True,
    )
