"""``launch/release.sh``: what it writes, what it refuses, and that another build has the same bytes.

One release is made, in a clone of this folder as it is now, under a version of its own. The packages for its tools
come from a package index.
"""

import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
VERSION = "9.8.7"
PACKAGES = {"math_reward": "reward_server", "openrlhf_gtpo": "plugin"}
UNREACHABLE = re.compile(r"dns error|error sending request|Failed to fetch|Connection|timed out", re.IGNORECASE)

FAKE_DOCKER = """#!/usr/bin/env bash
echo "$*" >>"$RECORD"
"""


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True, env=environment()
    )
    return done.stdout


@functools.cache
def for_uv() -> dict[str, str]:
    """What the scripts set for uv, from pip's configuration."""
    script = f"source launch/uv_as_pip.sh; uv_as_pip '{sys.executable}'; env"
    said = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    pairs = [line.partition("=") for line in said.splitlines()]
    return {name: value for name, _, value in pairs if name.startswith("UV_") or name == "SSL_CERT_FILE"}


def environment(**more: str) -> dict[str, str]:
    """This process's, with uv on the PATH and a committer, and without what the tests set for Python."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    identity = {f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**clean, **for_uv(), **identity, "PATH": path, **more}


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This folder's files as one commit, under VERSION."""
    folder = tmp_path_factory.mktemp("release") / "clone"
    for name in git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard").splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    (folder / "reward_server" / "math_reward" / "VERSION").write_text(f"{VERSION}\n")
    changes = (folder / "CHANGELOG.md").read_text(encoding="utf-8")
    (folder / "CHANGELOG.md").write_text(f"{changes}\n## {VERSION}, 2026-12-01\n\nAll.\n", encoding="utf-8")
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "All", "--date", "2026-12-01T12:00:00Z")
    return folder


def release(clone: Path, **more: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", "launch/release.sh"]
    return subprocess.run(command, cwd=clone, env=environment(**more), capture_output=True, text=True, timeout=800)


@pytest.fixture(scope="module")
def released(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the script wrote, with the commands that a stand-in for Docker was given in ``docker.txt`` beside it."""
    folder = tmp_path_factory.mktemp("released")
    (folder / "docker").write_text(FAKE_DOCKER)
    (folder / "docker").chmod(0o755)
    path = f"{folder}{os.pathsep}{environment()['PATH']}"
    done = release(clone, OUT=str(folder / "out"), PATH=path, RECORD=str(folder / "docker.txt"))
    if done.returncode and UNREACHABLE.search(done.stderr):
        pytest.skip("The release's tools come from a package index, and none can be reached from here.")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("Nothing was uploaded.\n")
    return folder / "out"


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(archive.read(name).decode())


def wheel_of(released: Path, package: str) -> Path:
    return released / f"{package}-{VERSION}-py3-none-any.whl"


@pytest.mark.engine
def test_a_release_has_wheel_sdist_dependencies_lock_and_checksums(released: Path) -> None:
    names = {path.name for path in released.iterdir()}
    assert names == {
        *(f"{package}-{VERSION}-py3-none-any.whl" for package in PACKAGES),
        *(f"{package}-{VERSION}.tar.gz" for package in PACKAGES),
        *(f"{package.replace('_', '-')}-{VERSION}.cdx.json" for package in PACKAGES),
        *("requirements-cpu.txt", "SHA256SUMS"),
    }
    sums = dict(reversed(line.split()) for line in (released / "SHA256SUMS").read_text().splitlines())
    assert sums == {
        name: hashlib.sha256((released / name).read_bytes()).hexdigest() for name in names - {"SHA256SUMS"}
    }


@pytest.mark.engine
@pytest.mark.parametrize("package", PACKAGES)
def test_wheel_and_sdist_have_the_packages_files_and_no_other(clone: Path, released: Path, package: str) -> None:
    folder = PACKAGES[package]
    ours = {name.split("/", 1)[1] for name in git(clone, "ls-files", f"{folder}/{package}").splitlines()}
    assert f"{package}/py.typed" in ours
    with zipfile.ZipFile(wheel_of(released, package)) as archive:
        found = set(archive.namelist())
    about = {name for name in found if name.startswith(f"{package}-{VERSION}.dist-info/")}
    assert found - about == ours
    assert f"{package}-{VERSION}.dist-info/licenses/LICENSE" in about

    with tarfile.open(released / f"{package}-{VERSION}.tar.gz") as archive:
        found = {name.split("/", 1)[1] for name in archive.getnames()}
    beside = {"LICENSE", "README.md", "pyproject.toml", "PKG-INFO", ".gitignore"}
    inside = {"math_reward": ours, "openrlhf_gtpo": {f"plugin/{name}" for name in ours}}[package]
    version = {"reward_server/math_reward/VERSION"} if package == "openrlhf_gtpo" else set()
    assert found == beside | inside | version


@pytest.mark.engine
def test_the_bare_library_asks_for_three_packages_and_the_plugin_for_the_services_client(released: Path) -> None:
    asked = {package: metadata(wheel_of(released, package)).get_all("Requires-Dist") or [] for package in PACKAGES}
    bare = [line for line in asked["math_reward"] if "extra ==" not in line]
    assert [re.split(r"[<>=]", line)[0] for line in bare] == ["mpmath", "sympy", "tqdm"]
    bare = [line for line in asked["openrlhf_gtpo"] if "extra ==" not in line]
    assert bare == ["math-reward[client]"]


@pytest.mark.engine
def test_the_dependencies_are_named_with_versions_and_no_path_of_this_machine(clone: Path, released: Path) -> None:
    expected = {"math-reward": {"mpmath", "sympy", "fastapi", "httpx"}, "openrlhf-gtpo": {"httpx", "matplotlib"}}
    for name, packages in expected.items():
        text = (released / f"{name}-{VERSION}.cdx.json").read_text(encoding="utf-8")
        bill = json.loads(text)
        assert bill["bomFormat"] == "CycloneDX"
        assert (bill["metadata"]["component"]["name"], bill["metadata"]["component"]["version"]) == (name, VERSION)
        components = {component["name"]: component for component in bill["components"]}
        assert packages <= set(components)
        assert all(component["version"] for component in components.values())
        assert "file://" not in text
        assert str(clone.parent) not in text
    assert "math-reward" in components, "the plugin's"
    assert "fastapi" not in components


@pytest.mark.engine
def test_images_are_tagged_with_the_version_and_labelled_with_the_commit(clone: Path, released: Path) -> None:
    commit = git(clone, "rev-parse", "HEAD").strip()
    labels = f"--build-arg VERSION={VERSION} --build-arg REVISION={commit} ."
    assert (released.parent / "docker.txt").read_text().splitlines() == [
        "info",
        f"build --file reward_server/Dockerfile --tag math-reward:{VERSION} {labels}",
        f"build --file plugin/Dockerfile --tag openrlhf-gtpo:{VERSION} {labels}",
    ]


def build_again() -> str:
    """The commands that the page has for it, ``uv build`` and ``sha256sum``."""
    page = (ROOT / "docs" / "releasing.md").read_text(encoding="utf-8").split("## Build it again")[1]
    return page.split("```bash\n")[1].split("```")[0]


@pytest.mark.engine
def test_another_clone_with_another_umask_and_other_times_builds_the_same_bytes(
    clone: Path, released: Path, tmp_path: Path
) -> None:
    again = tmp_path / "elsewhere"
    subprocess.run(["git", "clone", "--quiet", str(clone), str(again)], check=True, umask=0o077)
    for number, path in enumerate(sorted(again.rglob("*"))):
        if ".git" not in path.parts:
            os.utime(path, (10**9 + number, 10**9 + number))
    assert (again / "LICENSE").stat().st_mode & 0o777 == 0o600
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", build_again()],
        cwd=again,
        env=environment(TZ="Asia/Tokyo", LC_ALL="C"),
        umask=0o077,
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    theirs = {line.split()[1].removeprefix("again/"): line.split()[0] for line in done.stdout.splitlines()}
    ours = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in released.glob(f"*-{VERSION}[-.]*")}
    assert theirs == {name: ours[name] for name in theirs}
    assert len(theirs) == 4


SCRIPT = """\
from math_reward.grader import Grade, grade
found: Grade = grade(r"so \\boxed{42}", "42")
wrong: int = found.verdict.value
"""


@pytest.mark.engine
def test_a_user_with_the_wheel_alone_grades_is_told_what_to_install_and_has_types(
    released: Path, tmp_path: Path
) -> None:
    def run(*command: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            list(map(str, command)), cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=400
        )

    python = tmp_path / "env" / "bin" / "python"
    assert run("uv", "venv", "--quiet", "--python", sys.executable, "env").returncode == 0
    wheel = wheel_of(released, "math_reward")
    installed = run("uv", "pip", "install", "--quiet", "--python", python, wheel, "mypy")
    assert installed.returncode == 0, installed.stderr

    # What the README promises, word by word.
    readme = metadata(wheel).get_payload()
    blocks = re.findall(r"^```python\n(.*?)^```$", readme, re.M | re.S)
    assert len(blocks) == 2  # without a deadline, and with one
    for block in blocks:
        (tmp_path / "first.py").write_text(block)
        first = run(python, "first.py")
        assert (first.stdout, first.stderr) == (block.rpartition("# ")[2], "")
    command = run(tmp_path / "env" / "bin" / "math-reward", "grade", "so \\boxed{42}", "42")
    assert (command.returncode, command.stdout.split()[:2]) == (0, ["verdict", "correct"])
    serve = run(tmp_path / "env" / "bin" / "math-reward", "serve")
    assert serve.returncode == 2
    assert re.fullmatch(
        r"math-reward: No module named '\w+', .*: pip install 'math-reward\[server\]'\.\n", serve.stderr
    )

    (tmp_path / "user.py").write_text(SCRIPT)
    checked = run(python, "-m", "mypy", "--strict", "user.py")
    assert checked.stdout.splitlines() == [
        'user.py:3: error: Incompatible types in assignment (expression has type "str", variable has type "int")  '
        "[assignment]",
        "Found 1 error in 1 file (checked 1 source file)",
    ]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("echo more >>LICENSE; touch new.py",
         "releases a commit, and this folder has changes: commit or remove LICENSE, new.py."),
        ("echo 9.9.9 >reward_server/math_reward/VERSION; git commit --quiet --all --message 9.9.9",
         "CHANGELOG.md has no section '## 9.9.9': write what changed, or correct reward_server/math_reward/VERSION."),
        ("mkdir -p dist/9.8.7", "dist/9.8.7 is there already: remove it, or name another folder with OUT."),
        ("rm -rf .git", "needs a git clone, and this folder is none."),
    ],
)  # fmt: skip
def test_what_cannot_be_released_is_refused_in_one_sentence(
    clone: Path, tmp_path: Path, change: str, sentence: str
) -> None:
    copy = tmp_path / "copy"
    subprocess.run(["git", "clone", "--quiet", str(clone), str(copy)], check=True)
    subprocess.run(["bash", "-euc", change], cwd=copy, check=True, env=environment())
    done = release(copy, GIT_CEILING_DIRECTORIES=str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"launch/release.sh: {sentence}\n"
