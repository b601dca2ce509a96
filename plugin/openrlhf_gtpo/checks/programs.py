"""The user's own files of Python, imported once in a process of their own: what a rollout actor would die of after
minutes, the start says."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from openrlhf_gtpo.checks import Finding

SECONDS = 300
IMPORT = """
import importlib.util, os, sys
path, name = sys.argv[1:]
sys.path.insert(0, os.path.dirname(os.path.abspath(path)))  # as the rollout actor does
spec = importlib.util.spec_from_file_location("program", path)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
if not hasattr(module, name):
    sys.exit(f"it defines no {name}")
"""


def programs(flags: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Flag -> the file that it names, and what OpenRLHF calls in it."""
    first = (flags["reward.remote_url"] or "").split(",")[0]  # OpenRLHF looks at the first only
    named = {"train.agent_func_path": (flags["train.agent_func_path"], "AgentExecutor")}
    named["reward.remote_url"] = (first if first.endswith(".py") else "", "reward_func")
    return {flag: (path, name) for flag, (path, name) in named.items() if path}


def check(flags: Mapping[str, Any]) -> Iterator[Finding]:
    """Whether each can be imported, and has what OpenRLHF calls."""
    for flag, (path, name) in programs(flags).items():
        if os.path.isfile(path):
            yield _imported(flag, path, name)


def _imported(flag: str, path: str, name: str) -> Finding:
    command = [sys.executable, "-c", IMPORT, path, name]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        late = f"--{flag} {path} was not imported in {SECONDS} s: let it start at its first call."
        return Finding(flag, "fault", late)
    if done.returncode == 0:
        return Finding(flag, "ok", f"{path} can be imported and defines {name}.")
    why = (done.stderr.strip().splitlines() or ["without a message"])[-1].rstrip(".")
    return Finding(flag, "fault", f"--{flag} {path} cannot be used: {why}: fix the file.")
