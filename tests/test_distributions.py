"""What both distributions have to say alike: one version, one licence, and which files they bundle."""

import fnmatch
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

import math_reward

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
    assert found["project"]["dynamic"] == ["version"]
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


def test_the_plugin_depends_on_the_services_client_alone_and_takes_it_from_here() -> None:
    found = project(".")["project"]
    lists = [found["dependencies"], *found["optional-dependencies"].values()]
    assert [line for lines in lists for line in lines if line.startswith("math-reward")] == ["math-reward[client]"]
    uv = project(".")["tool"]["uv"]
    assert uv["workspace"]["members"] == ["reward_server"]
    assert uv["sources"] == {"math-reward": {"workspace": True}}


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
