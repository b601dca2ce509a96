"""Puts the pieces that `pack.py` made together, as they come: python3 tests/gpu/unpack.py runs/gpu/1 SITE

Keeps pieces beside SITE and unpacks an archive into SITE once all of its pieces are there.
"""

import hashlib
import json
import shutil
import sys
import tarfile
from pathlib import Path


def unpack(call: Path, site: Path) -> list[str]:
    """Add a call's pieces.

    Args:
        call: the folder that came with the call.
        site: where packages go, for PYTHONPATH.

    Returns:
        A line for each archive: complete, or which pieces are missing.
    """
    kept = site.with_name(f"{site.name}-pieces")
    kept.mkdir(parents=True, exist_ok=True)
    site.mkdir(parents=True, exist_ok=True)
    archives = json.loads((call / "pieces.json").read_text())
    told = []
    for archive, pieces in archives.items():
        for name in pieces:
            if (call / name).is_file():
                shutil.copy(call / name, kept / name)
        missing = [name for name in pieces if not (kept / name).is_file()]
        if missing:
            told.append(f"{archive}: {', '.join(missing)} has not come yet")
            continue
        done = kept / f"{archive}.unpacked"
        if not done.exists():
            for name, digest in pieces.items():
                if hashlib.sha256((kept / name).read_bytes()).hexdigest() != digest:
                    raise SystemExit(f"unpack.py: {name} is damaged: run tests/gpu/pack.sh again.")
            whole = kept / archive
            with whole.open("wb") as file:
                for name in pieces:
                    file.write((kept / name).read_bytes())
            with tarfile.open(whole) as file:
                safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # which Python 3.11.2 has not
                file.extractall(site, **safely)
            whole.unlink()
            done.touch()
        told.append(f"{archive}: complete")
    return told


if __name__ == "__main__":
    print("\n".join(unpack(Path(sys.argv[1]), Path(sys.argv[2]))))
