"""Runs a command and reports how memory and open files of each of its processes went: flat, or growing; and what is
left when it has ended.

    python tests/benchmarks/watch_processes.py --plot soak.png -- env STEPS=500 bash launch/quickstart.sh

Every two seconds the resident memory (unique set size, which counts shared pages for nobody) and the open file
descriptors (sockets among them) of the command's process and of all its descendants are read, also of those that lost
their parent. At the end a table shows each process that lived through more than a third of the longest one's life:
the values after a third of the samples (start-up is over by then), at the end, and for memory the slope in between by
least squares, in MiB a minute. Then what should be gone: processes of the command, and shared memory in /dev/shm.
"""

import argparse
import os
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import psutil

MARK = "OPENRLHF_GTPO_WATCHED"
MIB = 2**20
SHOWN = ("ray::", "VLLM", "python", "gcs_server", "raylet", "math-reward")
GOODBYE_SECONDS = 15


class Sample(NamedTuple):
    """One look at one process."""

    seconds: float
    mib: float
    files: int


def name_of(process: psutil.Process) -> str:
    """A process title such as ray::Trainer, or the end of a command line."""
    words = process.cmdline()
    title = words[0] if words else process.name()
    if "python" not in os.path.basename(title):
        return os.path.basename(title.split(" ")[0])[:40]
    rest = [word for word in words[1:] if not word.startswith("-")]
    return f"python {os.path.basename(rest[0]) if rest else ''}"[:40]


def look(mark: str, seconds: float) -> dict[tuple[int, str], Sample]:
    """(pid, name) -> what every process with the mark in its environment holds."""
    found = {}
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark:
                mib = process.memory_full_info().uss / MIB
                found[process.pid, name_of(process)] = Sample(seconds, mib, process.num_fds())
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def slope(points: list[Sample]) -> float:
    """Least-squares slope of memory, in MiB a minute."""
    n = len(points)
    mean_t, mean_y = sum(p.seconds for p in points) / n, sum(p.mib for p in points) / n
    spread = sum((p.seconds - mean_t) ** 2 for p in points)
    return 60 * sum((p.seconds - mean_t) * (p.mib - mean_y) for p in points) / spread if spread else 0.0


def plot(path: Path, lives: dict[str, list[Sample]]) -> None:
    """Memory and open files of each process over time."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (memory, files) = plt.subplots(1, 2, figsize=(12, 4), layout="constrained")
    for number, (name, points) in enumerate(lives.items()):
        style = ("-", "--", "-.", ":")[number % 4]
        minutes = [p.seconds / 60 for p in points]
        memory.plot(minutes, [p.mib for p in points], style, label=name, linewidth=1.4)
        files.plot(minutes, [p.files for p in points], style, linewidth=1.4)
    for axes, title, unit in ((memory, "memory", "MiB"), (files, "open files and sockets", "")):
        axes.set(title=title, xlabel="minutes", ylabel=unit)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    figure.savefig(path, dpi=120)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plot", type=Path, help="PNG for the curves")
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    mark = f"{os.getpid()}"
    shared_before = set(os.listdir("/dev/shm"))
    watched = subprocess.Popen(args.command, env={**os.environ, MARK: mark})
    began = time.monotonic()
    history: dict[tuple[int, str], list[Sample]] = defaultdict(list)
    total = 0.0
    try:
        while watched.poll() is None:
            now = look(mark, time.monotonic() - began)
            total = max(total, sum(sample.mib for sample in now.values()))
            for process, sample in now.items():
                history[process].append(sample)
            time.sleep(2)
    except KeyboardInterrupt:
        watched.wait()
    longest = max(map(len, history.values()))
    lives = {
        f"{name} {pid}": points
        for (pid, name), points in sorted(history.items(), key=lambda entry: -entry[1][-1].mib)
        if len(points) > longest / 3 and name.startswith(SHOWN)
    }
    head = f"{'process':44} {'samples':>7} {'MiB: a third':>13} {'end':>8} {'MiB/min':>8}"
    print(f"\n{head} {'files: a third':>15} {'end':>5}")
    for name, points in lives.items():
        late = points[len(points) // 3 :]
        print(
            f"{name:44} {len(points):7} {late[0].mib:13.1f} {late[-1].mib:8.1f} {slope(late):8.2f}"
            f" {late[0].files:15} {late[-1].files:5}"
        )
    print(f"most at once, all processes: {total:.0f} MiB")
    deadline = time.monotonic() + GOODBYE_SECONDS
    while (left := look(mark, 0)) and time.monotonic() < deadline:
        time.sleep(0.5)
    print(f"processes left: {', '.join(f'{name} {pid}' for pid, name in left) or 'none'}")
    print(f"left in /dev/shm: {', '.join(sorted(set(os.listdir('/dev/shm')) - shared_before)) or 'nothing'}")
    if args.plot:
        plot(args.plot, lives)
    return watched.returncode


if __name__ == "__main__":
    sys.exit(main())
