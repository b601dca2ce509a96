"""A service that runs out of descriptors grades again once it has some."""

import contextlib
import socket
from collections.abc import Callable
from typing import Any

import httpx

from ..conftest import WaitFor

RIGHT = {"items": [{"completion": r"\boxed{42}", "reference": "42"}]}


def test_workers_that_die_while_there_is_no_descriptor_have_successors_afterwards(
    serve: Callable[..., Any], wait_for: WaitFor
):
    server = serve("--workers", "1", ulimit="-n 64").when_ready()
    with contextlib.ExitStack() as idle:
        for _ in range(100):
            idle.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=60))
        for process in server.everything()[1:]:
            process.kill()
        wait_for(lambda: any("Too many open files" in line for line in server.log()))

    def grades() -> bool:
        with contextlib.suppress(httpx.TransportError):
            return server.client.post("/v1/grade", json=RIGHT).status_code == 200
        return False

    wait_for(grades)
    wait_for(lambda: server.client.get("/readyz").status_code == 200)
    assert len(server.log()) < 20, "a line a minute, and not one a try"
