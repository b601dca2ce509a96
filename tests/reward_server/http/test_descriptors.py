"""A service that runs out of descriptors grades again once it has some."""

import contextlib
import socket
import subprocess
import sys
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


FIRST_REQUEST = r"""
import asyncio, sys
from math_reward.app import create_app
from math_reward.settings import Settings

async def answer(app, method, path, body=b""):
    sent, headers = [], [(b"content-length", str(len(body)).encode()), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": headers, "client": None}
    parts = iter([{"type": "http.request", "body": body}])
    async def receive():
        for part in parts:
            return part
        await asyncio.Event().wait()  # the asker stays
    async def send(message):
        sent.append(message)
    await app(scope, receive, send)
    return sent[0]["status"]

async def main():
    app = create_app(Settings(workers=1))
    async with app.router.lifespan_context(app):
        while await answer(app, "GET", "/readyz") != 200:
            await asyncio.sleep(0.05)
        before = set(sys.modules)
        status = await answer(app, "POST", "/v1/grade", b'{"items": [{"completion": "42", "reference": "42"}]}')
        print(status, sorted(set(sys.modules) - before))

asyncio.run(main())
"""


def test_the_first_request_imports_nothing_for_which_a_file_would_have_to_be_opened():
    done = subprocess.run([sys.executable, "-c", FIRST_REQUEST], capture_output=True, text=True, timeout=120)
    assert done.stdout == "200 []\n", done.stderr
