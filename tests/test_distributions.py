"""Both distributions as a user gets them: whole wheels, of one version, whose commands start."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {"openrlhf_gtpo": "plugin", "math_reward": "reward_server"}
"""The folder of each."""


def run(*command: str | Path, **environment: str) -> str:
    """Standard output of what has to end well."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        list(map(str, command)), cwd=ROOT, env=clean | environment, capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The plugin's and the service's, built from the files that are here with the tools that are here."""
    folder = tmp_path_factory.mktemp("wheels")
    build = ("wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", folder)
    run(sys.executable, "-m", "pip", *build, ".", "./reward_server")
    return sorted(folder.glob("*.whl"), reverse=True)


def test_a_wheel_has_every_file_of_its_package_and_a_licence(wheels: list[Path]) -> None:
    for (package, folder), wheel in zip(PACKAGES.items(), wheels, strict=True):
        listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", f"{folder}/{package}")
        here = {name.removeprefix(f"{folder}/") for name in listed.splitlines() if (ROOT / name).exists()}
        with zipfile.ZipFile(wheel) as archive:
            found = set(archive.namelist())
        about = {name for name in found if ".dist-info/" in name}
        assert found - about == here
        assert any(name.endswith("/licenses/LICENSE") for name in about)


def test_outside_a_release_the_plugin_takes_the_service_from_the_folder_beside_it(wheels: list[Path]) -> None:
    """A stranger may register its name at an index."""
    (plugin,) = (wheel for wheel in wheels if "openrlhf" in wheel.name)
    with zipfile.ZipFile(plugin) as archive:
        (about,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        needed = re.findall("^Requires-Dist: (math-reward.*)$", archive.read(about).decode(), re.M)
    assert needed[0] == f"math-reward[client] @ {(ROOT / 'reward_server').as_uri()}"
    assert not [one for one in needed[1:] if "extra ==" not in one]


def test_both_wheels_install_and_their_commands_start(wheels: list[Path], tmp_path: Path) -> None:
    """What they depend on is that of the tests' environment: `launch/release.sh try` asks an index for it."""
    install = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", tmp_path)
    run(*install, *wheels)
    where = "import math_reward, openrlhf_gtpo; print(math_reward.__file__, openrlhf_gtpo.__file__)"
    for place in run(sys.executable, "-c", where, PYTHONPATH=str(tmp_path)).split():
        assert Path(place).is_relative_to(tmp_path)
    for command in ("math-reward", "openrlhf-gtpo"):
        assert "usage:" in run(sys.executable, tmp_path / "bin" / command, "--help", PYTHONPATH=str(tmp_path)).lower()
    grade = (tmp_path / "bin" / "math-reward", "grade", r"\boxed{42}", "42")
    graded = run(sys.executable, *grade, PYTHONPATH=str(tmp_path))
    assert graded.split()[:2] == ["verdict", "correct"]
