"""The third call, and a part of the fourth: parts of the self-test alone, with every log.

    python3 tests/gpu/loop.py --out FOLDER --only loop,resume [--device cpu]

Where flash-attn is not installed the policy computes attention with torch's, and samples are not packed.
"""

import argparse
import importlib.util
import os
import shutil
import sys
import tarfile
from pathlib import Path

from openrlhf_gtpo.cpu.environment import STUBS
from openrlhf_gtpo.selftest import command, loop

RAY_LOGS = Path("/tmp/ray/session_latest/logs")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="loop,resume")
    parser.add_argument("--device", choices=["cpu", "gpu"], default="gpu")
    args = parser.parse_args()
    if args.device == "gpu" and importlib.util.find_spec("flash_attn") is None:
        print("flash-attn is not installed: attention is torch's, and samples are not packed.")
        unpacked = [flag for flag in loop.SHARED if flag != "--ds.packing_samples"]
        loop.SHARED = (*unpacked, "--ds.attn_implementation=sdpa")
        loop.LORA = (*loop.LORA, "--ds.attn_implementation=sdpa")
        # OpenRLHF imports it in any case.
        os.environ["PYTHONPATH"] = os.pathsep.join([str(STUBS), os.environ.get("PYTHONPATH", "")])
    work = Path("/tmp/openrlhf-gtpo-selftest") if args.device == "gpu" else args.out / "work"
    status = command.main(["--device", args.device, "--out", str(work), "--only", args.only])
    args.out.mkdir(parents=True, exist_ok=True)
    for path in (*work.glob("*.log"), work / "selftest.json", work / "selftest.html"):
        shutil.copy(path, args.out)
    if RAY_LOGS.is_dir():
        with tarfile.open(args.out / "ray_logs.tar.gz", "w:gz") as file:
            file.add(RAY_LOGS.resolve(), "ray_logs")
    return status


if __name__ == "__main__":
    sys.exit(main())
