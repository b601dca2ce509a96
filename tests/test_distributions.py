"""What both distributions have to say alike: one version, one licence, and which files they bundle."""

import fnmatch
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

import math_reward

from .scripts import script

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {"plugin": "openrlhf_gtpo", "reward_server": "math_reward"}
VERSION = (ROOT / "reward_server" / "math_reward" / "VERSION").read_text(encoding="ascii").strip()


def project(folder: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))


def tracked(folder: str) -> list[str]:
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", folder]
    return subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def test_the_version_is_one_that_an_index_accepts() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|(a|b|rc)\d+)?", VERSION)


@pytest.mark.parametrize("folder", [".", "reward_server"])
def test_both_distributions_read_their_version_in_the_one_place(folder: str) -> None:
    found = project(folder)
    assert "version" in found["project"]["dynamic"]
    assert "version" not in found["project"]
    read = ROOT / folder / found["tool"]["hatch"]["version"]["path"]
    assert read.resolve() == ROOT / "reward_server" / "math_reward" / "VERSION"


def test_the_service_and_the_citation_say_the_same_version() -> None:
    assert math_reward.__version__ == VERSION
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"] == VERSION


def test_no_script_image_or_package_repeats_the_version() -> None:
    places = [
        *tracked("plugin"),
        *tracked("reward_server"),
        *tracked("launch"),
        "pyproject.toml",
        "docker-compose.yml",
    ]
    repeated = [
        place
        for place in places
        if not place.endswith(("requirements-cpu.txt", "/VERSION"))
        and re.search(rf"(?<![\w.]){re.escape(VERSION)}(?![\w.])", (ROOT / place).read_text(encoding="utf-8"))
    ]
    assert repeated == []


@pytest.mark.parametrize("folder", PACKAGES)
def test_an_image_says_which_version_and_commit_it_is_of(folder: str) -> None:
    instructions = (ROOT / folder / "Dockerfile").read_text(encoding="utf-8")
    for argument, label in (("VERSION", "version"), ("REVISION", "revision")):
        assert re.search(rf"^ARG {argument}=", instructions, re.MULTILINE)
        assert f'org.opencontainers.image.{label}="${argument}"' in instructions
        assert f'--build-arg "{argument}=' in (ROOT / "launch" / "release.sh").read_text(encoding="utf-8")


def test_the_plugin_has_the_services_client_and_takes_it_from_here() -> None:
    uv = project(".")["tool"]["uv"]
    assert uv["workspace"]["members"] == ["reward_server"]
    assert uv["sources"] == {"math-reward": {"workspace": True}}


def test_the_plugin_alone_brings_the_client_and_the_reader_of_entropies_and_no_torch() -> None:
    asked = [Requirement(line) for line in project(".")["project"]["dependencies"]]
    assert [(one.name, one.extras) for one in asked] == [("math-reward", {"client"}), ("numpy", set())]


@pytest.mark.parametrize("trainer", ["trl", "verl"])
def test_the_extra_of_a_trainer_has_the_version_that_its_adapter_is_run_with_and_the_grader(trainer: str) -> None:
    asked = {one.name: one for one in map(Requirement, project(".")["project"]["optional-dependencies"][trainer])}
    assert set(asked) == {trainer, "math-reward"}
    assert asked["math-reward"].extras == {"adapters"}
    script = (ROOT / "launch" / "adapters.sh").read_text(encoding="utf-8")
    (run,) = re.findall(rf"\[{trainer}\]=\"?{trainer}(?:\[[\w-]+\])?==([\d.]+)", script)
    assert asked[trainer].specifier.contains(run)
    assert not asked[trainer].specifier.contains("2"), "an adapter uses what may change"


@pytest.mark.engine
@pytest.mark.parametrize("trainer", ["trl", "verl"])
def test_the_extra_of_a_trainer_resolves_without_a_gpu(trainer: str) -> None:
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}") or "uv"
    command = [uv, "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--python-version", "3.12"]
    command += ["pyproject.toml", "--extra", trainer]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250)
    if done.returncode and re.search(r"dns error|error sending request|timed out|failed to fetch", done.stderr, re.I):
        pytest.skip("The packages are looked up in a package index, and none can be reached from here.")
    assert done.returncode == 0, done.stderr[-2000:]
    assert {trainer, "torch", "httpx", "msgspec"} <= set(re.findall(r"^([\w-]+)==", done.stdout, re.M))


README = "[one](docs/a.md#b) [two](https://x.org/a) ![three](docs/c.svg) [four](#here) [five](mailto:a@b.c)"


@pytest.mark.parametrize("folder", [".", "reward_server"])
def test_whoever_builds_a_distribution_says_which_repository_it_links_to(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = ROOT / "reward_server" / "hatch_build.py"
    assert project(folder)["tool"]["hatch"]["metadata"]["hooks"] == {
        "custom": {".": {"path": "reward_server/hatch_build.py"}, "reward_server": {}}[folder]
    }
    (tmp_path / "README.md").write_text(README)

    def built() -> dict[str, Any]:
        metadata: dict[str, Any] = {"version": "1.2.3"}
        script(hook).OfTheRepository(str(tmp_path), {}).update(metadata)
        return metadata

    monkeypatch.delenv("REPOSITORY_URL", raising=False)
    assert built()["urls"] == {}
    assert built()["readme"]["text"] == README
    fork = "https://example.org/owner/fork"
    monkeypatch.setenv("REPOSITORY_URL", f"{fork}/")
    assert built()["urls"] == {"Repository": fork, "Issues": f"{fork}/issues"}
    assert built()["readme"]["text"] == (
        f"[one]({fork}/blob/v1.2.3/docs/a.md#b) [two](https://x.org/a) ![three]({fork}/raw/v1.2.3/docs/c.svg) "
        "[four](#here) [five](mailto:a@b.c)"
    )


def test_both_have_the_repositorys_licence() -> None:
    licence = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert (ROOT / "reward_server" / "LICENSE").read_text(encoding="utf-8") == licence
    assert {project(folder)["project"]["license"] for folder in (".", "reward_server")} == {"Apache-2.0"}


def bundled() -> list[str]:
    """The files of both packages that are not Python, as a wheel names them."""
    found = [path.split("/", 1)[1] for folder, name in PACKAGES.items() for path in tracked(f"{folder}/{name}")]
    return [path for path in found if not path.endswith(".py")]


def listed() -> list[str]:
    text = (ROOT / "docs" / "releasing.md").read_text(encoding="utf-8").split("## What is bundled")[1]
    return re.findall(r"`((?:math_reward|openrlhf_gtpo)/[^`]+)`", text)


def test_the_page_lists_every_file_that_is_bundled_and_no_other() -> None:
    files, patterns = bundled(), listed()
    assert [file for file in files if not any(fnmatch.fnmatch(file, pattern) for pattern in patterns)] == []
    assert [pattern for pattern in patterns if not fnmatch.filter(files, pattern)] == []


NOTICE = re.compile(
    r"copyright|\(c\)|©|licen[cs]e|@preserve|\bMIT\b|\bBSD\b|sourceMappingURL|https?://(?!www\.w3\.org)", re.I
)
"""What a file of another project says of itself, or links to."""


@pytest.mark.parametrize("file", bundled())
def test_every_bundled_file_is_ours(file: str) -> None:
    folder = next(folder for folder, name in PACKAGES.items() if file.startswith(f"{name}/"))
    text = (ROOT / folder / file).read_text(encoding="utf-8")
    if file.endswith(".flags"):
        text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)  # where a preset's figures come from
    assert NOTICE.findall(text) == []


@pytest.mark.parametrize(
    "notice", ["/*! (c) 2020 Somebody */", "// @license MIT", "<!-- https://example.org/lib.js -->"]
)
def test_the_check_finds_a_notice(notice: str) -> None:
    assert NOTICE.search(notice)
