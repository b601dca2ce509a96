"""A reward server on a real socket that does what a test tells it to.

By itself it answers rightly in both protocols: a completion or query such as ``"0.25"`` earns the reward 0.25, and
``"13"`` one thirteenth; it is correct when it equals its reference, so that a reward that reaches the wrong caller is
noticed. In a test::

    with FakeRewardServer([Answer(500), Answer(delay=0.1)]) as server:   # a 500, then a slow answer, then right ones
        ...
        assert len(server.posts) == 2

As a program it can be killed: ``python fake_reward_server.py PORT SECONDS_PER_ANSWER``.
"""

import json
import socket
import ssl
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Answer:
    """``body``: None for the right answer, bytes as they are, anything else as JSON. ``drop``: hang up instead."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    drop: bool = False


@dataclass(frozen=True)
class Post:
    """One request as the server saw it; ``at`` is time.monotonic()."""

    path: str
    payload: dict[str, Any]
    headers: dict[str, str]
    at: float

    @property
    def items(self) -> list[dict[str, Any]]:
        """Those of the project's own protocol."""
        return self.payload["items"]

    @property
    def texts(self) -> list[str]:
        """The completions or queries of the batch."""
        if "items" in self.payload:
            return [item["completion"] for item in self.payload["items"]]
        return self.payload["query"]


def free_port() -> int:
    """A port where nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def graded(right: float, wrong: float) -> Callable[[Post], Answer]:
    """A service of the project's protocol with these rewards for the completions with 42 and with 41."""

    def answer(post: Post) -> Answer:
        rewards = [right if "42" in text else wrong for text in post.texts]
        results = [{"reward": r, "correct": r == 1, "verdict": "correct" if r == 1 else "wrong"} for r in rewards]
        return Answer(body={"results": results})

    return answer


def paid(text: object) -> float:
    """What a faultless server pays for a number: itself, or one over it, since rewards are from 0 to 1."""
    return min(number := float(str(text)), 1 / max(number, 1))


def right_answer(post: Post) -> dict[str, Any]:
    """The answer of a faultless server."""
    if "items" not in post.payload:
        return {"rewards": [paid(query) for query in post.texts]}
    return {
        "results": [
            {
                "reward": paid(item["completion"]),
                "correct": item["completion"] == item["reference"],
                "verdict": "correct" if item["completion"] == item["reference"] else "wrong",
                "answer": item["completion"],
                "reference": item["reference"],
                "detail": None,
                "stage": "string",
                "seconds": 0.001,
            }
            for item in post.payload["items"]
        ]
    }


def finds(text: str) -> Callable[[Post], Answer]:
    """To be ``always``: every completion with ``text`` in it is correct, and has its answer there; an empty reference
    cannot be read."""

    def graded_one(completion: str) -> dict[str, Any]:
        place = completion.find(text)
        span = None if place < 0 else [place, place + len(text)]
        verdict = "correct" if place >= 0 else "wrong"
        return {"reward": float(place >= 0), "correct": place >= 0, "verdict": verdict, "span": span}

    def graded(post: Post) -> Answer:
        results = [
            graded_one(item["completion"])
            if item["reference"]
            else {"reward": 0.0, "correct": False, "verdict": "bad_reference"}
            for item in post.payload["items"]
        ]
        return Answer(body={"results": results})

    return graded


class FakeRewardServer:
    """Gives ``answers`` in turn, then whatever ``always`` makes of each request."""

    def __init__(
        self,
        answers: Iterable[Answer] = (),
        always: Callable[[Post], Answer] = lambda post: Answer(),
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.posts: list[Post] = []
        self.connections = 0
        self.most_at_once = 0
        self._at_once = 0
        self._answers = deque(answers)
        self._always = always
        self._lock = threading.Lock()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # head and body in one packet

            def setup(self) -> None:
                super().setup()
                with fake._lock:
                    fake.connections += 1

            def do_POST(self) -> None:
                payload = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                post = Post(self.path, payload, dict(self.headers), time.monotonic())
                with fake._lock:
                    fake.posts.append(post)
                    fake._at_once += 1
                    fake.most_at_once = max(fake.most_at_once, fake._at_once)
                    answer = fake._answers.popleft() if fake._answers else fake._always(post)
                time.sleep(answer.delay)
                with fake._lock:  # before the answer: its reader may be quicker with the next request
                    fake._at_once -= 1
                if answer.drop:
                    self.close_connection = True
                    return
                body = right_answer(post) if answer.body is None else answer.body
                content = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(answer.status)
                for name, value in {"Content-Length": str(len(content)), **answer.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None:
                """Requests are kept in ``posts``; the terminal is left alone."""

        class Server(ThreadingHTTPServer):
            request_queue_size = 128
            daemon_threads = True
            block_on_close = False  # a handler that sleeps must not hold up the end of its test

            def handle_error(self, request: Any, client_address: Any) -> None:
                """A client that hung up in the middle of an answer is a test's doing."""

        self._server = Server(("127.0.0.1", port), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
            self.url = f"https://127.0.0.1:{self.port}"

    def serve_forever(self) -> None:
        self._server.serve_forever(poll_interval=0.02)

    def __enter__(self) -> "FakeRewardServer":
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()


if __name__ == "__main__":
    delay = float(sys.argv[2])
    server = FakeRewardServer(always=lambda post: Answer(delay=delay), port=int(sys.argv[1]))
    print("listening", flush=True)
    server.serve_forever()
