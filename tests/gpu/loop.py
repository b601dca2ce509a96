"""The third call, and a part of the fourth: the doctor's training alone, with every log.

    python3 tests/gpu/loop.py --out FOLDER --only loop,resume [--device cpu]

Where flash-attn is not installed the policy computes attention with torch's, and samples are not packed.
"""

import argparse
import importlib.util
import os
import shutil
import sys
import tarfile
import traceback
from pathlib import Path

from openrlhf_gtpo import doctor
from openrlhf_gtpo.cpu.platform import STUBS

RAY_LOGS = Path("/tmp/ray/session_latest/logs")
PARTS = {
    "loop": (3, ()),
    "resume": (5, ("--ckpt.load_enable",)),
    "lora": (3, ("--ds.lora.rank=8", "--ds.lora.alpha=16")),
}
"""Name -> the step to train up to, and flags of its own."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="loop,resume")
    parser.add_argument("--device", choices=["cpu", "gpu"], default="gpu")
    args = parser.parse_args()
    if args.device == "gpu" and importlib.util.find_spec("flash_attn") is None:
        print("flash-attn is not installed: attention is torch's, and samples are not packed.")
        doctor.FLAGS["gpu"][0] = "--ds.attn_implementation=sdpa"  # in the place of packing
        # OpenRLHF imports it in any case.
        os.environ["PYTHONPATH"] = os.pathsep.join([str(STUBS), os.environ.get("PYTHONPATH", "")])
    work = Path("/tmp/openrlhf-gtpo-loop") if args.device == "gpu" else args.out / "work"
    work.mkdir(parents=True, exist_ok=True)
    doctor.make_task(work, args.device)
    failed = 0
    for part in args.only.split(","):
        steps, flags = PARTS[part]
        try:
            print(f"{part}: {doctor.train(work, args.device, steps, *flags)}", flush=True)
        except Exception:  # the other parts are still tried
            traceback.print_exc()
            failed = 1
        for log in (work / "trained").glob("*.log"):
            shutil.copy(log, args.out / f"{part}_{log.name}")
    if RAY_LOGS.is_dir():
        with tarfile.open(args.out / "ray_logs.tar.gz", "w:gz") as file:
            file.add(RAY_LOGS.resolve(), "ray_logs")
    return failed


if __name__ == "__main__":
    sys.exit(main())
