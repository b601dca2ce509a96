"""A reward service that is killed and started again, and what stands before it and gives wrong answers."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx

from ..fake_reward_server import Answer, Post, free_port

MATH_REWARD = str(Path(sys.executable).with_name("math-reward"))


class Service:
    """The project's reward service, to be killed and started again on its port."""

    def __init__(self, **variables: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.start(**variables)

    def start(self, **variables: str) -> None:
        """With these environment variables of its own, such as ``MATH_REWARD_TOKEN``."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MATH_REWARD")}
        self.process = subprocess.Popen(
            [MATH_REWARD, "serve", "--port", str(self.port), "--workers", "1", "--exit-on-stdin-close"],
            stdin=subprocess.PIPE,  # so that it ends with a pytest that is killed
            env={**environment, **variables},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 120
        while not self._is_ready():
            assert time.monotonic() < deadline, "the reward service did not start"
            time.sleep(0.2)

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz", timeout=10).status_code == 200
        except httpx.HTTPError:
            return False

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Trouble:
    """Stands before the real service and, now and then, answers in its place."""

    FAULTS = (
        Answer(500),
        Answer(429, headers={"Retry-After": "1"}),
        Answer(503),
        Answer(200, b"<html>Bad gateway</html>"),
        Answer(200, {"results": []}),
        Answer(200, b'{"results": [{"reward": NaN, "correct": true}]}'),
        Answer(drop=True),
    )
    EVERY = 3
    SLOW = 10.0

    def __init__(self, url: str) -> None:
        self.url = url
        self.posts = 0
        self.faults = 0
        self._lock = threading.Lock()

    def __call__(self, post: Post) -> Answer:
        with self._lock:
            self.posts += 1
            number = self.posts
            if number % self.EVERY == 0 and self.faults < len(self.FAULTS):
                self.faults += 1
                return self.FAULTS[self.faults - 1]
        try:
            token = {name: value for name, value in post.headers.items() if name.lower() == "authorization"}
            answer = httpx.post(f"{self.url}{post.path}", json=post.payload, headers=token, timeout=120)
        except httpx.HTTPError:
            return Answer(drop=True)  # the service is down: so is what stands before it
        return Answer(answer.status_code, answer.content, delay=self.SLOW if number == 2 else 0.0)
