"""``launch/release.sh``: what it writes, what it refuses, and that another build has the same bytes.

One release is made with all steps but the push, in a clone of this folder as it is now, under a version of its own.
The packages for its tools come from a package index.
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
REPOSITORY = "https://example.org/Owner/fork"
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


def release(clone: Path, *step: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", "launch/release.sh", *step]
    return subprocess.run(command, cwd=clone, env=environment(**more), capture_output=True, text=True, timeout=800)


def with_docker(folder: Path) -> dict[str, str]:
    """A stand-in for Docker, which writes the commands that it is given into ``docker.txt`` of this folder."""
    (folder / "docker").write_text(FAKE_DOCKER)
    (folder / "docker").chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{environment()['PATH']}", "RECORD": str(folder / "docker.txt")}


@pytest.fixture(scope="module")
def rehearsal(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """What the script wrote, and what it said."""
    folder = tmp_path_factory.mktemp("released")
    done = release(clone, OUT=str(folder / "out"), REPOSITORY_URL=REPOSITORY, **with_docker(folder))
    if done.returncode and UNREACHABLE.search(done.stderr):
        pytest.skip("The release's tools come from a package index, and none can be reached from here.")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("Nothing was uploaded.\n")
    return folder / "out", done.stdout


@pytest.fixture(scope="module")
def released(rehearsal: tuple[Path, str]) -> Path:
    """The folder of the release; ``docker.txt`` is beside it."""
    return rehearsal[0]


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(archive.read(name).decode())


def wheel_of(released: Path, package: str) -> Path:
    return released / f"{package}-{VERSION}-py3-none-any.whl"


@pytest.mark.engine
def test_the_wheels_are_tried_with_this_python_and_a_python_that_is_missing_is_named(
    rehearsal: tuple[Path, str],
) -> None:
    said = rehearsal[1]
    missing = re.findall(r"^There is no Python (\S+) here", said, re.M)
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert set(missing) <= {"3.10", "3.11", "3.12"} - {here}


@pytest.mark.engine
def test_the_site_of_a_release_links_to_the_repository(clone: Path, released: Path) -> None:
    assert f"git clone {REPOSITORY} " in re.sub("<[^>]+>", "", (clone / "runs/site/quickstart/index.html").read_text())


@pytest.mark.engine
@pytest.mark.parametrize("package", PACKAGES)
def test_an_index_shows_the_readme_with_links_to_the_repository_at_this_tag(released: Path, package: str) -> None:
    about = metadata(wheel_of(released, package))
    assert f"Repository, {REPOSITORY}" in (about.get_all("Project-URL") or [])
    text = re.sub(r"^```.*?^```$", "", about.get_payload(), flags=re.M | re.S)
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    ours = [link for link in links if link.startswith(REPOSITORY)]
    assert all(re.match(rf"{REPOSITORY}/(blob|raw)/v{VERSION}/", link) for link in ours)
    assert len(ours) > 10 or package == "math_reward"


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
    built_by = {
        "math_reward": {"hatch_build.py", *ours},
        "openrlhf_gtpo": {
            "reward_server/hatch_build.py",
            "reward_server/math_reward/VERSION",
            *(f"plugin/{name}" for name in ours),
        },
    }
    assert found == beside | built_by[package]


@pytest.mark.engine
def test_the_bare_library_asks_for_three_packages_and_the_plugin_for_the_client_and_numpy(released: Path) -> None:
    asked = {package: metadata(wheel_of(released, package)).get_all("Requires-Dist") or [] for package in PACKAGES}
    bare = [line for line in asked["math_reward"] if "extra ==" not in line]
    assert [re.split(r"[<>=]", line)[0] for line in bare] == ["mpmath", "sympy", "tqdm"]
    bare = [line for line in asked["openrlhf_gtpo"] if "extra ==" not in line]
    assert bare == ["math-reward[client]", "numpy>=1.24"]


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
    labels = f"--build-arg VERSION={VERSION} --build-arg REVISION={commit} "
    labels += f"--label org.opencontainers.image.source={REPOSITORY} ."
    assert (released.parent / "docker.txt").read_text().splitlines() == [
        "info",
        f"build --file reward_server/Dockerfile --tag math-reward:{VERSION} {labels}",
        f"run --rm --network none math-reward:{VERSION} grade so \\boxed{{42}} 42",
        f"build --file plugin/Dockerfile --tag openrlhf-gtpo:{VERSION} {labels}",
        f"run --rm --network none openrlhf-gtpo:{VERSION} openrlhf-gtpo --help",
    ]


def test_an_image_is_pushed_under_the_repositorys_name_in_small_letters(clone: Path, tmp_path: Path) -> None:
    done = release(clone, "push", "math-reward", "registry.example.org/Owner/Fork", **with_docker(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    name = f"registry.example.org/owner/fork/math-reward:{VERSION}"
    pushed = [f"tag math-reward:{VERSION} {name}", f"push {name}"]
    assert (tmp_path / "docker.txt").read_text().splitlines() == pushed


@pytest.mark.engine
def test_a_wheel_that_lacks_a_file_is_found_out(clone: Path, released: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    for wheel in released.glob("*.whl"):
        with zipfile.ZipFile(wheel) as whole, zipfile.ZipFile(folder / wheel.name, "w") as part:
            for name in whole.namelist():
                if name != "math_reward/client/__init__.py":
                    part.writestr(name, whole.read(name))
    done = release(clone, "try", f"{sys.version_info.major}.{sys.version_info.minor}", OUT=str(folder))
    assert done.returncode != 0
    assert re.search("cannot import name .*Client.* from .*math_reward.client", done.stderr)


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
        env=environment(TZ="Asia/Tokyo", LC_ALL="C", REPOSITORY_URL=REPOSITORY),
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
    ("tag", "change", "sentence"),
    [
        (f"v{VERSION}", "true", ""),
        (VERSION, "true", f"the tag is {VERSION}, and by reward_server/math_reward/VERSION it has to be v{VERSION}."),
        ("v9.8.6", "true", f"the tag is v9.8.6, and by reward_server/math_reward/VERSION it has to be v{VERSION}."),
        ("v9.9.0.dev0", "echo 9.9.0.dev0 >reward_server/math_reward/VERSION; git commit --quiet --all --message next",
         "9.9.0.dev0 is no release: write its version into reward_server/math_reward/VERSION, then tag that commit."),
    ],
)  # fmt: skip
def test_a_tag_that_is_not_v_and_the_version_is_refused(
    clone: Path, tmp_path: Path, tag: str, change: str, sentence: str
) -> None:
    copy = tmp_path / "copy"
    subprocess.run(["git", "clone", "--quiet", str(clone), str(copy)], check=True)
    subprocess.run(["bash", "-euc", change], cwd=copy, check=True, env=environment())
    done = release(copy, "check", tag)
    said = f"launch/release.sh: {sentence}\n" if sentence else ""
    assert (done.returncode, done.stdout, done.stderr) == (int(bool(sentence)), "", said)


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
    assert (done.returncode, done.stderr) == (1, f"launch/release.sh: {sentence}\n")
    assert re.fullmatch(r"(1 of 4: [^\n]+\n)?", done.stdout)
