"""The service on a Ray cluster: the same application in replicas of Ray Serve, which come and go with the load.

``launch/reward_on_ray.sh`` is the command; this module is what it runs, and the only one that needs Ray. Every node
needs this package and its dependencies. What differs from ``math-reward serve``:

* **Where it listens.** Serve's HTTP proxies take the requests and hand them to the replicas, wherever these are. There
  is a proxy on the head node and on every node that has a replica, so the head node's URL is the one that stays.
* **The address of a client** is the one that the proxy saw, and goes no further than the access log: nothing is
  allowed or forbidden by it. Whether the service may do without a token is decided before it is deployed, by the
  address that the proxies listen on.
* **The token** travels inside the application that is deployed, which Ray keeps in memory, and is in no environment
  of a replica, no command line, no log and no status. (A ``runtime_env`` would show it in the dashboard.)
* **/metrics** is answered by one replica, a different one each time: good for a look at one, or with MAX_REPLICAS=1.
  For the sum over the replicas use what Serve counts itself at Ray's own metrics endpoint (``ray_serve_*``: requests,
  errors and latencies per deployment and replica). The page's list of recent verdicts is one replica's too.
* **The queue**: each replica has one of its own, so max_queued counts per replica, as do workers. What waits in Serve,
  before a replica takes it, counts nowhere.
* **A replica that dies** takes its requests with it: they are answered with 500 and can be asked again. Its worker
  processes end with it, as those of the command do.
* **X-Request-ID**: the proxy makes one up where there is none and sends back whatever it was given.
* What the command does so that thousands of connections do not hold each other up (accepting a few at a time,
  collecting garbage between requests) is not done: the proxy is Ray's. Batches lose nothing by that; posts of a single
  item, as OpenRLHF's own client sends them, have a proxy in front of them that does more than the grading.
* Whoever may run code on the cluster may read what Ray keeps in memory, and so the token.

The application always has the path "/": AuthAndLimits knows the service's paths, and a prefix would change them.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import io
import logging
import os
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

import httpx
from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from math_reward.app import create_app
from math_reward.commands.refusal import refuse
from math_reward.http.lifecycle import Lifecycle
from math_reward.settings import Settings, SettingsError, load_settings

try:
    import ray
    from ray import serve
    from ray._private.services import canonicalize_bootstrap_address
    from ray.serve.config import AutoscalingConfig, HTTPOptions, ProxyLocation
    from ray.serve.context import _get_global_client
    from ray.serve.schema import LoggingConfig
except ImportError:
    _WITHOUT_RAY = 'The reward service on a Ray cluster needs Ray Serve: pip install "ray[serve]".'
    if __name__ == "__main__":
        refuse(_WITHOUT_RAY)
    raise ImportError(_WITHOUT_RAY) from None

APPLICATION = "math-reward"
"""The application's name in Serve; a cluster has one."""

MAX_ONGOING_REQUESTS = 2048
"""Requests that a replica takes at once. It has a queue of its own and says when that is full."""

UPSCALE_SECONDS = 5.0
"""How long the load has to be high before there are more replicas: a step's rewards are asked for all at once."""

CONNECT_SECONDS = 10.0
"""How long the cluster's head node may take to answer."""

START_SECONDS = 300.0
"""How long the first replica may take to be ready."""

NOTE_SECONDS = 20.0
"""After this a word is said about what is being waited for."""

FIND_SECONDS = 10.0
"""How long the replicas are looked for that are to drain."""

ANSWER_SECONDS = 1.0
"""What requests have to be answered once they are given up."""


@dataclasses.dataclass(frozen=True)
class Scale:
    """Between how many replicas there are, and the requests under way per replica that Serve aims at."""

    min_replicas: int
    max_replicas: int
    ongoing_requests: float


class CannotServe(Exception):
    """The service cannot be deployed; the message is one sentence."""


# In a replica


class Replica:
    """The application and its pool of workers, in a process of their own."""

    lifecycle = Lifecycle()
    """Of this process, which has one replica."""

    def __init__(self, drain_seconds: float) -> None:
        self._drain_seconds = drain_seconds
        self._drain_until: float | None = None

    async def drain(self) -> tuple[str, int, float]:
        """Takes no new work from now on. May be called again.

        Returns: the replica, its requests under way, and the seconds that these have left.
        """
        loop = asyncio.get_running_loop()
        if self._drain_until is None:
            self._drain_until = loop.time() + self._drain_seconds
            self.lifecycle.draining = True
            loop.call_at(self._drain_until, self.lifecycle.give_up)
        left = max(0.0, self._drain_until - loop.time())
        return serve.get_replica_context().replica_id.unique_id, self.lifecycle.in_flight, left


class OneRequestId:
    """ASGI middleware: leaves out the answer's X-Request-ID, since Serve's proxy adds the same one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_without_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [header for header in message.get("headers", ()) if header[0] != b"x-request-id"]
                message = {**message, "headers": headers}
            await send(message)

        await self._app(scope, receive, send_without_id)


def _app_of_this_process(settings: Settings) -> FastAPI:
    # A Ray worker's main module is a script that imports Ray, and multiprocessing runs the main module's file again in
    # every process that it starts: each grading process would load Ray, and take a second to begin.
    vars(sys.modules["__main__"]).pop("__file__", None)
    app = create_app(settings, Replica.lifecycle)
    app.add_middleware(OneRequestId)
    return app


def application(settings: Settings, scale: Scale) -> Any:
    """The service as an application of Serve. It carries the settings, and so the token, to the replicas."""

    def build() -> FastAPI:
        return _app_of_this_process(settings)

    deployment = serve.deployment(
        name=APPLICATION,
        max_ongoing_requests=MAX_ONGOING_REQUESTS,
        autoscaling_config=AutoscalingConfig(
            min_replicas=scale.min_replicas,
            max_replicas=scale.max_replicas,
            target_ongoing_requests=scale.ongoing_requests,
            upscale_delay_s=UPSCALE_SECONDS,
        ),
        ray_actor_options={"num_cpus": settings.workers},
        graceful_shutdown_wait_loop_s=0.5,
        # A replica that is one too many has as long for what it was doing as the whole service has when it stops.
        graceful_shutdown_timeout_s=settings.drain_seconds + ANSWER_SECONDS,
        logging_config=LoggingConfig(enable_access_log=False),  # The service has its own.
    )(serve.ingress(build)(Replica))
    return deployment.bind(settings.drain_seconds)


# In the command


def main() -> None:
    """Entry point of ``launch/reward_on_ray.sh``. Exit codes: 0 done, 1 it could not be deployed, 2 wrong usage."""
    arguments = _parse()
    try:
        if arguments.stop:
            _connect()
            _stop(_Signals())
            return
        settings = load_settings(
            host=arguments.host, port=arguments.port, workers=arguments.workers, insecure=arguments.insecure
        )
        scale = _scale(arguments, settings)
        _connect()
        _serve(settings, scale, _Signals(), detach=arguments.detach)  # After Ray, which has handlers of its own.
    except SettingsError as error:
        refuse(str(error))
    except CannotServe as error:
        print(f"math-reward: {error}", file=sys.stderr)
        sys.exit(1)


class _Signals:
    """How often this process was told to stop."""

    def __init__(self) -> None:
        self.count = 0
        self.told = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._hear)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        self.told.set()


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="reward_on_ray.sh",
        allow_abbrev=False,
        description="Runs the reward service on a Ray cluster.",
        epilog="Everything else is set as MATH_REWARD_<NAME>, as for math-reward serve.",
    )
    parser.add_argument("--host", default="0.0.0.0", help="address to listen on, on every node (0.0.0.0)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on (8000)")
    parser.add_argument("--workers", type=int, default=2, help="grading processes, and CPUs, of a replica (2)")
    parser.add_argument("--min-replicas", type=int, default=1, help="replicas that there always are (1)")
    parser.add_argument("--max-replicas", type=int, default=4, help="replicas that there may be (4)")
    parser.add_argument(
        "--ongoing-requests", type=float, default=16, help="requests under way per replica that is aimed at (16)"
    )
    parser.add_argument(
        "--insecure", action="store_true", default=None, help="listen without a token on an address others can reach"
    )
    parser.add_argument("--detach", action="store_true", help="return when it is ready, and leave it running")
    parser.add_argument("--stop", action="store_true", help="take down what runs on the cluster, whoever started it")
    return parser.parse_args()


def _scale(arguments: argparse.Namespace, settings: Settings) -> Scale:
    if settings.port == 0:
        raise SettingsError("port: 0, a free one, is not for several nodes: name a port from 1 to 65535.")
    if not 1 <= arguments.min_replicas <= arguments.max_replicas:
        raise SettingsError(
            f"There are to be {arguments.min_replicas} to {arguments.max_replicas} replicas: MIN_REPLICAS needs to be "
            "at least 1 and no more than MAX_REPLICAS."
        )
    if arguments.ongoing_requests <= 0:
        raise SettingsError(f"ONGOING_REQUESTS needs to be more than 0, not {arguments.ongoing_requests:g}.")
    return Scale(arguments.min_replicas, arguments.max_replicas, arguments.ongoing_requests)


def _connect() -> None:
    """Joins the cluster. Raises CannotServe."""
    address = os.environ.get("RAY_ADDRESS") or "auto"
    if "://" in address or address == "local":
        raise CannotServe(
            f"RAY_ADDRESS is {address}, but needs to be HOST:PORT of a cluster's head node, or unset on a node of it; "
            "to deploy from elsewhere: ray job submit --working-dir . -- bash launch/reward_on_ray.sh"
        )
    where = "here" if address == "auto" else f"at RAY_ADDRESS={address}"
    try:
        address = canonicalize_bootstrap_address(address) or address
        host, _, port = address.rpartition(":")
        # Ray itself tries for minutes, also where it remembers a cluster that has ended.
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError) as error:
        raise CannotServe(
            f"There is no Ray cluster {where} ({_last_line(error)}): start one with `ray start --head`."
        ) from None
    logging.getLogger("ray.serve").setLevel(logging.ERROR)


def _serve(settings: Settings, scale: Scale, signals: _Signals, detach: bool) -> None:
    """Deploys, waits until it is ready, and stays until it is told to stop. Raises CannotServe."""
    if _status() is not None:
        raise CannotServe(f"{APPLICATION} runs on this cluster already: stop it first (--stop).")
    _check_proxies(settings)
    try:
        urls = _deploy(settings, scale, signals)
    except CannotServe:
        _take_down()
        raise
    if urls:
        replicas = f"{scale.min_replicas} to {scale.max_replicas} replicas"
        print(f"{APPLICATION} is ready: {replicas} of {settings.workers} workers.")
        print(f"--reward.remote_url {','.join(urls)}", flush=True)
        if detach:
            print("It goes on running. To stop it: bash launch/reward_on_ray.sh --stop", flush=True)
            return
        while not signals.told.wait(timeout=2):
            if _status() is None:
                print(f"{APPLICATION} was taken down by somebody else.", flush=True)
                return
    _stop(signals)


def _check_proxies(settings: Settings) -> None:
    """Raises CannotServe where Serve runs already and listens elsewhere: its proxies are all applications' alike."""
    client = _get_global_client(raise_if_no_controller_running=False)  # Serve has no public name for this.
    if client is None:
        return
    there = client.http_config
    if (there.host, there.port) != (settings.host, settings.port) or there.root_path:
        raise CannotServe(
            f"Ray Serve runs on this cluster already and listens on {there.host} port {there.port}"
            f"{' below ' + there.root_path if there.root_path else ''}: set HOST={there.host} and PORT={there.port}, "
            "with no root path, or stop it with `serve shutdown`."
        )


def _deploy(settings: Settings, scale: Scale, signals: _Signals) -> list[str]:
    """Returns the URLs when the service is ready; none where it was told to stop meanwhile. Raises CannotServe."""
    try:
        serve.start(
            proxy_location=ProxyLocation.EveryNode,
            http_options=HTTPOptions(host=settings.host, port=settings.port),
            logging_config=LoggingConfig(enable_access_log=False),
        )
        serve.run_many(
            [serve.RunTarget(application(settings, scale), name=APPLICATION, route_prefix="/")],
            wait_for_applications_running=False,
        )
    except Exception as error:  # Whatever Ray has to say.
        why = _last_line(error)
        if "FieldDescriptor" in why:
            why = f'Ray {ray.__version__} needs an older protobuf on every node: pip install "protobuf<7".'
        raise CannotServe(f"Ray Serve could not deploy the service: {why}") from error
    begin = time.monotonic()
    noted = False
    with httpx.Client(trust_env=False, timeout=10) as client:
        while not signals.told.wait(timeout=0.25):
            status = _status()
            why = "Serve does not know it any more" if status is None else ""
            if status is not None and status.status in ("DEPLOY_FAILED", "UNHEALTHY"):
                why = " ".join([status.message, *(d.message for d in status.deployments.values())])
            if why:
                raise CannotServe(f"The service could not be started: {' '.join(why.split())}")
            urls = _urls(settings)
            if status is not None and status.status == "RUNNING":
                not_ready = _not_ready(client, urls)
                if urls and not not_ready:
                    return urls
            else:
                not_ready = _no_replica(settings)
            waited = time.monotonic() - begin
            if waited > START_SECONDS:
                raise CannotServe(f"The service was not ready within {START_SECONDS:g} s: {not_ready}")
            if waited > NOTE_SECONDS and not noted:
                noted = True
                print(f"math-reward: still waiting: {not_ready}", file=sys.stderr, flush=True)
    return []


def _status() -> Any:
    """Serve's status of the application; None where there is none."""
    return serve.status().applications.get(APPLICATION)


def _no_replica(settings: Settings) -> str:
    free = ray.available_resources().get("CPU", 0)
    needs = f"each needs {settings.workers} free CPUs on one node"
    return f"no replica runs yet; {needs}, and the cluster has {free:g} in all."


def _urls(settings: Settings) -> list[str]:
    """Where the proxies listen, the head node's first."""
    if settings.host not in ("0.0.0.0", "::"):
        hosts = [settings.host]
    else:
        proxies = {node for node, status in serve.status().proxies.items() if status == "HEALTHY"}
        nodes = [node for node in ray.nodes() if node["NodeID"] in proxies]
        nodes.sort(key=lambda node: "node:__internal_head__" not in node["Resources"])
        hosts = list(dict.fromkeys(node["NodeManagerAddress"] for node in nodes))
    return [f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}" for host in hosts]


def _not_ready(client: httpx.Client, urls: list[str]) -> str:
    """Why the service is not ready; empty where it is, at every URL."""
    for url in urls:
        try:
            response = client.get(f"{url}/readyz")
        except httpx.HTTPError as error:
            return f"{url}/readyz cannot be asked ({_last_line(error)})."
        if response.status_code != 200:
            return f"{url}/readyz answers {response.status_code}: {response.text}"
    return "" if urls else "no proxy of Ray Serve is healthy yet."


def _stop(signals: _Signals) -> None:
    """Drains the service and takes it down."""
    if _status() is None:
        print(f"{APPLICATION} does not run on this cluster.", flush=True)
        return
    _drain(hurry=lambda: signals.count > 1)
    _take_down()
    print(f"{APPLICATION} is stopped.", flush=True)


def _drain(hurry: Callable[[], bool]) -> None:
    """Tells every replica to drain; returns when all have, when their time is over, or when there is no more time.

    Before anything is taken down, since Serve answers 404 then, which a client takes for an answer. A replica that
    drains answers 503, and the client goes to the next URL.
    """
    if not _running():
        return
    handle = serve.get_app_handle(APPLICATION)
    in_flight: dict[str, int] = {}
    end = time.monotonic() + FIND_SECONDS
    while time.monotonic() < end and not hurry():
        try:
            # Serve chooses which replica is asked, so all are found by asking often.
            replica, in_flight[replica], left = handle.drain.remote().result(timeout_s=FIND_SECONDS)
        except Exception as error:
            print(f"math-reward: it could not be drained: {_last_line(error)}", file=sys.stderr, flush=True)
            return
        if left:
            end = max(end, time.monotonic() + left + ANSWER_SECONDS)
        if len(in_flight) >= _running() and not any(in_flight.values()):
            return
        time.sleep(0.05)


def _running() -> int:
    """How many replicas run."""
    status = _status()
    return 0 if status is None else sum(d.replica_states.get("RUNNING", 0) for d in status.deployments.values())


def _take_down() -> None:
    """Removes the application, and Serve's proxies where no other application needs them; leaves the cluster."""
    # Ray prints meanwhile, on standard output, that the processes have ended that it ends.
    with contextlib.redirect_stdout(io.StringIO()):
        if set(serve.status().applications) - {APPLICATION}:
            serve.delete(APPLICATION)
        else:
            serve.shutdown()
        ray.shutdown()


def _last_line(error: Exception) -> str:
    """The last line of what an exception says: the errors that Ray hands on begin with their traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


if __name__ == "__main__":
    # Under its own name, by which the replicas find what is in it.
    from math_reward.commands.ray_serve import main as main_by_name

    main_by_name()
