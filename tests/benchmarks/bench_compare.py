"""Times `openrlhf-gtpo compare`: all methods beside GRPO alone, in one run, and how wide GTPO's interval is.

    python tests/benchmarks/bench_compare.py --run runs/quickstart --model runs/quickstart/warm_start/model
    python tests/benchmarks/bench_compare.py --model M --data D --reward.mode strict --prompts 96 --batch 8

Every flag is one of `compare`. GRPO alone is what one method costs: sampling, grading, and a gradient a group.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tables import markdown

ROOT = Path(__file__).resolve().parents[2]


def compared(flags: list[str], folder: Path) -> tuple[float, dict[str, Any]]:
    """Seconds, and what `compare` wrote."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-m", "openrlhf_gtpo", "compare", *flags, "--out", str(folder)], check=True)
    return time.perf_counter() - begin, json.loads((folder / "compare.json").read_text(encoding="utf-8"))


def main() -> None:
    flags = sys.argv[1:]
    if not flags or {"-h", "--help"} & set(flags):
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        alone, _ = compared([*flags, "--estimators", "grpo"], Path(folder, "alone"))
        seconds, said = compared(flags, Path(folder, "all"))
    reward = said["methods"]["GTPO"]["reward"]
    head = ["methods", "prompts with a gradient", "seconds", "of that of GRPO alone", "GTPO's reward"]
    cells = [len(said["methods"]), said["prompts with a gradient"], f"{seconds:.0f}", f"{seconds / alone:.2f}"]
    print(markdown(head, [[*cells, f"{reward['low']:.3f} to {reward['high']:.3f}"]]))


if __name__ == "__main__":
    main()
