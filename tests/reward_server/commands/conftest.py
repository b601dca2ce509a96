"""The files that the commands read."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    """Writes rows, or lines that are no rows, to a file and gives its path."""

    def rows(*rows: Any, name: str = "rows.jsonl") -> str:
        lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
        content = b"".join(line + b"\n" for line in lines)
        path = tmp_path / name
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return str(path)

    return rows
