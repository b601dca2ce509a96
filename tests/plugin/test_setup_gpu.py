"""launch/setup_gpu.sh: what a machine lacks is named before anything is downloaded, and the order that works."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from ..refusals import assert_refusal

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "launch" / "setup_gpu.sh"

UNREACHABLE = re.compile(
    r"dns error|error sending request|Failed to fetch|Connection|timed out|needs uv", re.IGNORECASE
)


@pytest.mark.nightly
def test_the_lock_file_is_what_the_requirements_resolve_to(tmp_path: Path) -> None:
    for kind in ("cpu", "gpu"):
        (tmp_path / f"requirements-{kind}.txt").write_text((ROOT / "launch" / f"requirements-{kind}.txt").read_text())
    environment = {name: value for name, value in os.environ.items() if not name.startswith("UV_")}
    done = subprocess.run(
        ["bash", str(ROOT / "launch" / "lock.sh")],
        env={**environment, "OUT": str(tmp_path), "UV_HTTP_TIMEOUT": "20"},
        capture_output=True,
        text=True,
        timeout=280,
    )
    if done.returncode and UNREACHABLE.search(done.stderr):
        pytest.skip("Packages are looked up in a package index, and none can be reached from here.")
    assert done.returncode == 0, f"The requirements contradict each other:\n{done.stderr[-3000:]}"
    for kind in ("cpu", "gpu"):
        locked = (tmp_path / f"requirements-{kind}.txt").read_text()
        assert locked == (ROOT / "launch" / f"requirements-{kind}.txt").read_text(), "run bash launch/lock.sh"
    pins = dict(re.findall(r"^([\w-]+)==([\w.]+)", locked, re.MULTILINE))
    assert "flash-attn" not in pins, "it comes afterwards, against this torch"
    cuda = {pins[f"nvidia-{name}"].rpartition(".")[0] for name in ("cuda-nvcc", "cuda-crt", "nvvm", "cuda-cccl")}
    assert cuda == {pins["cuda-toolkit"][:4]} == {"13.0"}, "nvcc fits only its own parts, and torch's headers"


FAKES = {
    "bin/uv": 'echo "$*" >>"$RECORD"',
    "bin/python": """case "$*" in
        *Python.h*) exit ${NO_HEADERS:-0} ;;
        *nvidia.cu13*) echo "$CUDA" ;;
        *requires*) echo "flash-attn==2.8.3" ;;
    esac""",
    "bin/nvidia-smi": 'case "$*" in *driver_version*) printf "$DRIVER" ;; *compute_cap*) printf "$CARDS" ;; esac',
    "bin/df": "echo Avail; echo 100000000000",
    **dict.fromkeys(("cuda/bin/nvcc", "cuda/lib/libcudart.so.13", "venv/bin/activate"), ""),
}
FAKES["venv/bin/python"] = FAKES["bin/python"]


def installed(tmp_path: Path, *words: str, **environment: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run the script with a uv, a Python and a driver that do nothing; what uv was asked, call by call."""
    for name, text in FAKES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/usr/bin/env bash\n{text}\n")
        path.chmod(0o755)
    record = tmp_path / "record"
    record.touch()
    done = subprocess.run(
        ["bash", str(SCRIPT), *words],
        env={
            "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
            "RECORD": str(record),
            "PYTHON": str(tmp_path / "bin" / "python"),
            "VENV": str(tmp_path / "venv"),
            "CUDA": str(tmp_path / "cuda"),
            "DRIVER": "580.159.04\n",
            "CARDS": "9.0\n9.0\n",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done, record.read_text().splitlines()


def test_torch_comes_before_flash_attn_and_this_project_last_and_the_compilers_become_a_toolkit(
    tmp_path: Path,
) -> None:
    done, asked = installed(tmp_path)
    assert done.returncode == 0, done.stderr
    everything, build, flash_attn, project = asked
    assert everything.endswith("--no-deps -r launch/requirements-gpu.txt")
    assert build.endswith("setuptools wheel packaging psutil ninja")
    assert flash_attn.endswith("--no-build-isolation --no-deps flash-attn==2.8.3")
    assert project.endswith("--no-deps . ./reward_server")
    cuda = tmp_path / "venv" / "cuda"
    assert (cuda / "bin" / "nvcc").is_file()
    assert (cuda / "lib64" / "libcudart.so").resolve() == tmp_path / "cuda" / "lib" / "libcudart.so.13"
    installed(tmp_path)
    activated = (tmp_path / "venv" / "bin" / "activate").read_text().splitlines()
    assert activated.count('export CUDA_HOME="$VIRTUAL_ENV/cuda"') == 1


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"DRIVER": "535.183.06\n"}, ["535.183.06", "580", "cuda-compat-13-0", "ANY_DRIVER=1"]),
        ({"NO_HEADERS": "1"}, ["headers", "python3-dev"]),
        ({"FLASH_ATTN": "/nowhere.whl"}, ["FLASH_ATTN", "/nowhere.whl"]),
        ({"PYTHON": "/nowhere/python"}, ["3.10, 3.11 or 3.12", "PYTHON=/nowhere/python"]),
        ({"CUDA": "/nowhere"}, ["nvcc", "venv"]),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, environment: dict[str, str], named: list[str]) -> None:
    done, asked = installed(tmp_path, **environment)
    assert done.returncode == 1
    assert_refusal(done.stderr, "launch/setup_gpu.sh", *named)
    assert "CUDA" in environment or not asked, "before anything is downloaded"


def test_a_machine_without_a_driver_can_make_an_environment_and_its_check_says_that_it_cannot_train(
    tmp_path: Path,
) -> None:
    done, asked = installed(tmp_path, "--check", DRIVER="")
    assert (done.returncode, asked) == (1, [])
    assert_refusal(done.stderr, "launch/setup_gpu.sh", "no driver", "580")
    assert "has what" not in done.stdout
    done, asked = installed(tmp_path, "--check")
    assert (done.returncode, asked) == (0, [])
    assert "has what the environment needs" in done.stdout
    done, asked = installed(tmp_path, DRIVER="", CARDS="")
    assert done.returncode == 0, done.stderr
    assert "no driver answers here" in done.stderr
    assert asked, "as for an image"
