"""Starts a program as the ranks of a process group on this machine."""

import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

from .. import preloaded


def run(ranks: int, script: Path, *arguments: object) -> list[Any]:
    """What each rank printed in its last line, as JSON."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {**os.environ, "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    started = [
        subprocess.Popen(
            [preloaded.python(), str(script), *map(str, arguments)],
            env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    said = [rank.communicate(timeout=240) for rank in started]
    errors = "".join(error[-3000:] for _, error in said)
    assert [rank.returncode for rank in started] == [0] * ranks, errors
    return [json.loads(out.splitlines()[-1]) for out, _ in said]
