"""launch/setup_gpu.sh: versions that fit each other, in the order that works."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from packaging.version import Version

from ..refusals import assert_refusal

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "launch" / "setup_gpu.sh"

UNREACHABLE = re.compile(
    r"dns error|error sending request|Failed to fetch|Connection|timed out|needs uv", re.IGNORECASE
)


def test_the_requirements_fit_each_other_for_this_python_and_a_gpu() -> None:
    path = f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", str(SCRIPT), "--dry-run"],
        env={**os.environ, "PATH": path, "UV_HTTP_TIMEOUT": "20"},
        capture_output=True,
        text=True,
        timeout=280,
    )
    if done.returncode and UNREACHABLE.search(done.stderr):
        pytest.skip("The packages for GPUs are looked up in a package index, and none can be reached from here.")
    assert done.returncode == 0, f"The requirements contradict each other:\n{done.stderr[-3000:]}"
    pins = (line.split(";")[0].strip().split("==") for line in done.stdout.splitlines() if "==" in line)
    resolved = {name: Version(version) for name, version in pins}
    assert {"vllm", "torch", "ray", "deepspeed", "transformers", "fastapi"} <= set(resolved)
    assert Version("0.11") <= resolved["openrlhf"] < Version("0.12")
    assert "flash-attn" not in resolved, "it comes afterwards, against this torch"
    assert resolved["protobuf"] < Version("7"), "which Ray Serve does not work with"


FAKE_UV = """#!/usr/bin/env bash
echo "$*" >>"$RECORD"
"""
FAKE_PYTHON = """#!/usr/bin/env bash
case "$*" in
    *torch.version.cuda*) echo "$TORCH_CUDA" ;;
    *requires*) echo "flash-attn==2.8.3" ;;
esac
"""
FAKE_NVCC = """#!/usr/bin/env bash
echo "Cuda compilation tools, release $NVCC_CUDA, V$NVCC_CUDA.88"
"""


def installed(tmp_path: Path, **environment: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run the script with a uv, a Python and a compiler that do nothing; what uv was asked, call by call."""
    files = {"bin/uv": FAKE_UV, "venv/bin/python": FAKE_PYTHON, "bin/python": FAKE_PYTHON, "cuda/bin/nvcc": FAKE_NVCC}
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    record = tmp_path / "record"
    record.touch()
    done = subprocess.run(
        ["bash", str(SCRIPT)],
        env={
            "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
            "RECORD": str(record),
            "PYTHON": str(tmp_path / "bin" / "python"),
            "VENV": str(tmp_path / "venv"),
            "CUDA_HOME": str(tmp_path / "cuda"),
            "TORCH_CUDA": "13.0",
            "NVCC_CUDA": "13.1",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done, record.read_text().splitlines()


def test_torch_comes_before_flash_attn_and_this_project_last(tmp_path: Path) -> None:
    done, asked = installed(tmp_path)
    assert done.returncode == 0, done.stderr
    everything, build, flash_attn, project = asked
    assert everything.endswith(
        "-r pyproject.toml -r reward_server/pyproject.toml --extra train --extra server --extra ray-serve"
    )
    assert "--override launch/requirements-gpu.overrides" in everything
    assert build.endswith("setuptools wheel packaging psutil ninja")
    assert flash_attn.endswith("--no-build-isolation --no-deps flash-attn==2.8.3")
    assert project.endswith("--no-deps . ./reward_server")


def test_a_wheel_of_flash_attn_is_installed_and_deepspeed_still_has_its_compiler(tmp_path: Path) -> None:
    wheel = tmp_path / "flash_attn-2.8.3-cp312-cp312-linux_x86_64.whl"
    wheel.touch()
    done, asked = installed(tmp_path, FLASH_ATTN=str(wheel))
    assert done.returncode == 0, done.stderr
    assert asked[1].endswith(f"--no-deps {wheel}")
    done, _ = installed(tmp_path, FLASH_ATTN=str(wheel), CUDA_HOME="/nowhere")
    assert done.returncode == 1
    assert_refusal(done.stderr, "nvcc", "CUDA 13.0", "plugin/Dockerfile")


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"NVCC_CUDA": "12.8"}, ["CUDA 13.0", "nvcc", "CUDA 12"]),
        ({"TORCH_CUDA": ""}, ["torch", "without CUDA"]),
        ({"FLASH_ATTN": "/nowhere.whl"}, ["FLASH_ATTN", "/nowhere.whl"]),
        ({"PYTHON": "/nowhere/python"}, ["3.10, 3.11 or 3.12", "PYTHON=/nowhere/python"]),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, environment: dict[str, str], named: list[str]) -> None:
    done, _ = installed(tmp_path, **environment)
    assert done.returncode == 1
    assert_refusal(done.stderr, "launch/setup_gpu.sh", *named)
