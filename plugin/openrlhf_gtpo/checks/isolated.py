"""Runs a probe in its own process, so that a hang, a crash or output there does not affect the doctor."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any


class ProbeFailed(RuntimeError):
    """A probe gave no answer. The text is a part of a sentence that says why.

    Attributes:
        has_fix: whether it also says what to do.
    """

    def __init__(self, why: str, has_fix: bool = False) -> None:
        super().__init__(why)
        self.has_fix = has_fix


def isolated(probe: str, arguments: dict[str, Any], seconds: float) -> Any:
    """The answer of a function of `openrlhf_gtpo.checks.probes`.

    Args:
        probe: its name.
        arguments: its keyword arguments, of JSON's types.
        seconds: timeout, after which it is killed with every process that it started.

    Raises:
        ProbeFailed: it raised, crashed or took too long.
    """
    with tempfile.TemporaryDirectory(prefix="openrlhf-gtpo-doctor-") as folder:
        answer, log = Path(folder) / "answer.json", Path(folder) / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "openrlhf_gtpo.checks.probes", probe, str(answer)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that its children can be killed with it
            )
            try:
                process.communicate(json.dumps(arguments).encode(), timeout=seconds)
            except BaseException as error:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                if isinstance(error, subprocess.TimeoutExpired):
                    raise ProbeFailed(f"there was no answer within {seconds:g} s") from None
                raise
        if not answer.exists():
            raise ProbeFailed(f"{_ending(process.returncode)}; its last line was: {last_line(log)}")
        result = json.loads(answer.read_text(encoding="utf-8"))
    if "error" in result:
        raise ProbeFailed(result["error"], result["has_fix"])
    return result["value"]


def _ending(code: int) -> str:
    """How a process ended, from Popen's return code; a negative one is a signal."""
    if code < 0:
        return f"the process of the check was killed by {signal.Signals(-code).name}"
    return f"the process of the check ended with exit code {code}"


def last_line(log: Path) -> str:
    """The last line of a log that is not blank."""
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "(nothing)")
