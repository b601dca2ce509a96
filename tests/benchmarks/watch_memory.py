"""Runs a command and reports how the memory of each of its processes went: flat, or growing.

    python tests/benchmarks/watch_memory.py -- bash launch/quickstart.sh

Every two seconds the resident memory (unique set size, which counts shared pages for nobody) of the command's
process and of all its descendants is read, also of those that lost their parent. At the end a table shows each
process that lived through more than a third of the longest one's life: its memory after a third of the samples
(start-up is over by then), at the end, and the slope in between by least squares, in MiB a minute.
"""

import argparse
import os
import subprocess
import sys
import time
from collections import defaultdict

import psutil

MARK = "OPENRLHF_GTPO_WATCHED"
MIB = 2**20


def name_of(process: psutil.Process) -> str:
    """A process title such as ray::Trainer, or the end of a command line."""
    words = process.cmdline()
    title = words[0] if words else process.name()
    if "python" not in os.path.basename(title):
        return os.path.basename(title.split(" ")[0])[:40]
    rest = [word for word in words[1:] if not word.startswith("-")]
    return f"python {os.path.basename(rest[0]) if rest else ''}"[:40]


def sample(mark: str) -> dict[tuple[int, str], float]:
    """(pid, name) -> MiB of every process with the mark in its environment."""
    found = {}
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark:
                found[process.pid, name_of(process)] = process.memory_full_info().uss / MIB
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def slope(points: list[tuple[float, float]]) -> float:
    """Least-squares slope of (seconds, MiB), in MiB a minute."""
    n = len(points)
    mean_t, mean_y = sum(t for t, _ in points) / n, sum(y for _, y in points) / n
    spread = sum((t - mean_t) ** 2 for t, _ in points)
    return 60 * sum((t - mean_t) * (y - mean_y) for t, y in points) / spread if spread else 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs="+")
    command = parser.parse_args().command
    mark = f"{os.getpid()}"
    watched = subprocess.Popen(command, env={**os.environ, MARK: mark})
    began = time.monotonic()
    history: dict[tuple[int, str], list[tuple[float, float]]] = defaultdict(list)
    total = 0.0
    try:
        while watched.poll() is None:
            now = sample(mark)
            total = max(total, sum(now.values()))
            for process, mib in now.items():
                history[process].append((time.monotonic() - began, mib))
            time.sleep(2)
    except KeyboardInterrupt:
        watched.wait()
    lives = sorted(history.items(), key=lambda entry: -entry[1][-1][1])
    print(f"\n{'process':40} {'samples':>7} {'a third':>9} {'end':>9} {'MiB/min':>9}")
    for (_, name), points in lives:
        late = points[len(points) // 3 :]
        if len(points) >= 15 and name.startswith(("ray::", "VLLM", "python", "gcs_server", "raylet")):
            print(f"{name:40} {len(points):7} {late[0][1]:9.1f} {late[-1][1]:9.1f} {slope(late):9.2f}")
    print(f"most at once, all processes: {total:.0f} MiB")
    return watched.returncode


if __name__ == "__main__":
    sys.exit(main())
