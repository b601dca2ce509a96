"""The OpenAPI document against a live service: whatever follows it, or nearly, never gives a 5xx."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def test_schemathesis_finds_no_server_error(serve: Callable[..., Any], tmp_path: Path):
    pytest.importorskip("schemathesis", reason="schemathesis is in the extra 'test'")
    server = serve("--workers", "1").when_ready()
    command = [
        *[str(Path(sys.executable).with_name("schemathesis")), "run", server.url + "/openapi.json"],
        *["--checks", "not_a_server_error,status_code_conformance,content_type_conformance"],
        *["--checks", "response_schema_conformance", "--phases", "examples,coverage,fuzzing"],
        *["--max-examples", "10", "--seed", "1", "--generation-database", "none", "--no-color"],
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SCHEMATHESIS_")}

    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=200)

    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
    statuses = server.client.get("/metrics").text
    assert re.search(r'requests_total\{route="/v1/grade",status="200"\} (?!0\.0)', statuses)  # It reached the grader.
    # While a slow machine starts the grading processes, /readyz rightly says 503.
    assert not re.search(r'requests_total\{route="(?!/readyz")[^"]*",status="5..?"\} (?!0\.0)', statuses)
