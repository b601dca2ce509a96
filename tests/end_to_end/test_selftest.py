"""``openrlhf-gtpo selftest`` on a CPU: the parts that no other test runs."""

import json
import subprocess
from pathlib import Path

import pytest

from .. import preloaded

pytestmark = pytest.mark.engine


def test_kernel_loop_and_resume_pass_on_a_cpu(tmp_path: Path) -> None:
    command = [preloaded.python(), "-m", "openrlhf_gtpo", "selftest", "--device", "cpu", "--out", str(tmp_path)]
    done = subprocess.run([*command, "--only", "kernel,loop,resume"], capture_output=True, text=True, timeout=800)

    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    parts = json.loads((tmp_path / "selftest.json").read_text())["parts"]
    assert {name: part["state"] for name, part in parts.items()} == dict.fromkeys(
        ["kernel", "loop", "resume"], "passed"
    )
    assert parts["kernel"]["figures"]["max_error_nats"] <= 2e-6
    assert parts["resume"]["sentence"].startswith("4 steps;")
    (run,) = tmp_path.glob("loop-*")
    settings = json.loads((run / "run.json").read_text())["settings"]
    assert settings["ds.packing_samples"]
    assert settings["vllm.enable_sleep"]
