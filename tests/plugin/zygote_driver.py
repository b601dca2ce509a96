"""A process that has a zygote, for tests: this one may have imported Ray already."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

DRIVER = """
import sys
sys.path.append(sys.argv.pop(1))
from zygote import Zygote

with Zygote(sys.argv[1:]) as zygote:
    print("ZYGOTE", zygote.python, zygote._pid, flush=True)
    sys.stdin.read()
"""


class Driver:
    """A process that has a zygote of the named modules, until ``stop``."""

    def __init__(self, *modules: str, path: Path | None = None) -> None:
        paths = [str(path)] if path else []
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, os.environ["PYTHONPATH"]])}
        self.process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(Path(__file__).parents[1]), *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        assert self.process.stdout
        said = next(line for line in self.process.stdout if line.startswith("ZYGOTE "))  # libraries have words too
        _, self.python, pid = said.split()
        self.zygote = psutil.Process(int(pid))

    def stop(self) -> None:
        self.process.communicate("")

    def run(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run([self.python, *arguments], capture_output=True, text=True, timeout=60, **options)
