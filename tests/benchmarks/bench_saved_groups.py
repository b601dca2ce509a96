"""What a large rollouts.jsonl costs: resuming a run, and its report.

    python tests/benchmarks/bench_saved_groups.py [--steps 3]

Writes steps of the paper's size (16 groups of 16 responses of 1,000 to 4,096 tokens, 26 MB) to a temporary folder.
Prints seconds, the memory beyond what importing took, and the size of the page; each in a process of its own.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORDS = [" the", " x", " =", "\n", "7", " so", " answer", " is", " \\frac", "{", "}", " we", " have", "equation"]


def write(folder: Path, steps: int) -> int:
    """A run with saved groups; the bytes of rollouts.jsonl."""
    draw = random.Random(0)

    def values(count: int) -> list[float]:
        return [float(f"{abs(draw.gauss(0, 1)):.7g}") for _ in range(count)]

    with (folder / "rollouts.jsonl").open("w") as rollouts, (folder / "metrics.jsonl").open("w") as metrics:
        for step in range(1, steps + 1):
            metrics.write(json.dumps({"step": step, "entropy/token_mean": 0.3}) + "\n")
            for row in range(256):
                n = draw.randint(1000, 4096)
                line = {
                    "step": step,
                    "group": row // 16,
                    "prompt": "What is 1+1?",
                    "label": "2",
                    "correct": row % 2 == 0,
                }
                line |= {"guide": False, "tokens": draw.choices(WORDS, k=n), "entropy": values(n)}
                rollouts.write(json.dumps(line | {"shaped_reward": values(n), "advantage": values(n)}) + "\n")
    return (folder / "rollouts.jsonl").stat().st_size


def measure(what: str, folder: Path) -> None:
    if what == "resume":
        from openrlhf_gtpo.controller.metrics import MetricsFile

        def work() -> object:
            return MetricsFile(folder / "rollouts.jsonl").begin(2)
    else:
        from openrlhf_gtpo.report.command import main as report

        def work() -> object:
            return report([str(folder)])

    before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    work()
    seconds, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{what}: {seconds:.2f} s, {(after - before) / 1024:.0f} MB of memory")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=3)
    steps = parser.parse_args().steps
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"rollouts.jsonl: {write(folder, steps) / 1e6:.1f} MB, {steps} steps")
        for what in ("report", "resume"):
            script = (
                f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import bench_saved_groups as it; "
            )
            script += f"it.measure({what!r}, it.Path({name!r}))"
            subprocess.run([sys.executable, "-c", script], check=True)
        print(f"the page: {(folder / 'report.html').stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
