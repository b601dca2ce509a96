"""Runs the service on a Ray cluster: the same application in replicas of Ray Serve, which come and go with the load.

``launch/reward_on_ray.sh`` runs this module, in the process that deploys the service; ``ray_replica.py`` runs in the
replicas. Only these two need Ray. Every node needs this package and its dependencies. The differences from
``math-reward serve``:

* **Where it listens.** Serve's HTTP proxies take the requests and hand them to the replicas, wherever these are. There
  is a proxy on the head node and on every node that has a replica, so the head node's URL is the one that stays.
* **The address of a client** is only written to the access log, as the proxy saw it: it allows or forbids nothing.
  Whether the service may run without a token is decided before it is deployed, by the address of the proxies.
* **The token** travels inside the application, which Ray keeps in memory. It is in no environment of a replica, no
  command line, no log and no status. (A ``runtime_env`` would show it in the dashboard.) But whoever may run code on
  the cluster may read Ray's memory, and so the token.
* **/metrics** is answered by one replica, a different one each time, so it is useful only with MAX_REPLICAS=1. For
  sums over the replicas use Serve's counts at Ray's own metrics endpoint (``ray_serve_*``: requests, errors and
  latencies for each deployment and replica). The page's list of recent verdicts is one replica's too.
* **The queue**: each replica has its own, so max_queued and workers count for each replica. Requests that wait in
  Serve for a replica do not count.
* **A replica that dies** loses its requests: they are answered with 500 and can be sent again. Its worker processes
  end with it, as those of the command do.
* **X-Request-ID**: the proxy makes one if there is none, and sends back any that it was given.
* **Connections**: the proxy is Ray's, so the limits of ``http/event_loop/`` do not apply. Batches lose nothing. Posts
  of a single item, as OpenRLHF's own client sends them, spend more time in the proxy than in grading.
"""

import argparse
import contextlib
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

from math_reward.commands.refusal import refuse

try:
    import httpx

    from math_reward.settings import Settings, SettingsError, load_settings
except ModuleNotFoundError as error:  # the library alone is installed
    if __name__ == "__main__":
        refuse(f"{error}, which the service on Ray needs: pip install 'math-reward[server,ray-serve]'.")
    raise

try:
    import ray
    from ray import serve
    from ray._private.services import canonicalize_bootstrap_address
    from ray.serve.config import HTTPOptions, ProxyLocation
    from ray.serve.context import _get_global_client
    from ray.serve.schema import LoggingConfig
except ImportError:
    _WITHOUT_RAY = 'The reward service on a Ray cluster needs Ray Serve: pip install "ray[serve]".'
    if __name__ == "__main__":
        refuse(_WITHOUT_RAY)
    raise ImportError(_WITHOUT_RAY) from None

from math_reward.commands.ray_replica import ANSWER_SECONDS, APPLICATION, Scale, application

CONNECT_SECONDS = 10.0
"""How long the cluster's head node may take to answer."""

START_SECONDS = 300.0
"""How long the first replica may take to be ready."""

NOTE_SECONDS = 20.0
"""After this the command prints what it is waiting for."""

FIND_SECONDS = 10.0
"""How long the command looks for replicas that have to drain."""


class CannotServe(Exception):
    """The service cannot be deployed; the message is one sentence."""


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
    """Counts the signals that tell this process to stop."""

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
    parser.add_argument("--min-replicas", type=int, default=1, help="the least number of replicas (1)")
    parser.add_argument("--max-replicas", type=int, default=4, help="the largest number of replicas (4)")
    parser.add_argument(
        "--ongoing-requests", type=float, default=16, help="requests under way that Serve aims at per replica (16)"
    )
    parser.add_argument(
        "--insecure", action="store_true", default=None, help="listen without a token on an address others can reach"
    )
    parser.add_argument("--detach", action="store_true", help="return when it is ready, and leave it running")
    parser.add_argument(
        "--stop", action="store_true", help="stop the service that runs on the cluster, whoever started it"
    )
    return parser.parse_args()


def _scale(arguments: argparse.Namespace, settings: Settings) -> Scale:
    if settings.port == 0:
        raise SettingsError("port: 0, a free port, would differ between the nodes: set PORT to 1 to 65535.")
    if not 1 <= arguments.min_replicas <= arguments.max_replicas:
        raise SettingsError(
            f"MIN_REPLICAS is {arguments.min_replicas} and MAX_REPLICAS {arguments.max_replicas}: MIN_REPLICAS must "
            "be at least 1 and at most MAX_REPLICAS."
        )
    if arguments.ongoing_requests <= 0:
        raise SettingsError(f"ONGOING_REQUESTS is {arguments.ongoing_requests:g}, but must be more than 0.")
    return Scale(arguments.min_replicas, arguments.max_replicas, arguments.ongoing_requests)


def _connect() -> None:
    """Joins the cluster. Raises CannotServe."""
    address = os.environ.get("RAY_ADDRESS") or "auto"
    if "://" in address or address == "local":
        raise CannotServe(
            f"RAY_ADDRESS is {address}, but needs to be HOST:PORT of a cluster's head node, or unset on a node of it; "
            "to deploy from elsewhere: ray job submit --working-dir . -- bash launch/reward_on_ray.sh."
        )
    where = "here" if address == "auto" else f"at RAY_ADDRESS={address}"
    try:
        address = canonicalize_bootstrap_address(address) or address
        host, _, port = address.rpartition(":")
        # Ray would try for minutes, even for a cluster that has ended.
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
    """Deploys the service, waits until it is ready, and stays until it is told to stop. Raises CannotServe."""
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
            print("It keeps running. To stop it: bash launch/reward_on_ray.sh --stop", flush=True)
            return
        while not signals.told.wait(timeout=2):
            if _status() is None:
                print(f"{APPLICATION} was stopped by somebody else.", flush=True)
                return
    _stop(signals)


def _check_proxies(settings: Settings) -> None:
    """Raises CannotServe if Serve runs already and listens elsewhere: all its applications share the same proxies."""
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
    """Returns the URLs when the service is ready, or none if it was told to stop meanwhile. Raises CannotServe."""
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
    except Exception as error:  # Ray raises many kinds.
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
    """Serve's status of the application; None if it does not run."""
    return serve.status().applications.get(APPLICATION)


def _no_replica(settings: Settings) -> str:
    free = ray.available_resources().get("CPU", 0)
    needs = f"each needs {settings.workers} free CPUs on one node"
    return f"no replica runs yet; {needs}, and the cluster has {free:g} in all."


def _urls(settings: Settings) -> list[str]:
    """The URLs of the proxies, that of the head node first."""
    if settings.host not in ("0.0.0.0", "::"):
        hosts = [settings.host]
    else:
        proxies = {node for node, status in serve.status().proxies.items() if status == "HEALTHY"}
        nodes = [node for node in ray.nodes() if node["NodeID"] in proxies]
        nodes.sort(key=lambda node: "node:__internal_head__" not in node["Resources"])
        hosts = list(dict.fromkeys(node["NodeManagerAddress"] for node in nodes))
    return [f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}" for host in hosts]


def _not_ready(client: httpx.Client, urls: list[str]) -> str:
    """Why the service is not ready at one of the URLs; empty if it is ready at all."""
    for url in urls:
        try:
            response = client.get(f"{url}/readyz")
        except httpx.HTTPError as error:
            return f"{url}/readyz cannot be reached ({_last_line(error)})."
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
    """Tells every replica to drain. Returns when all have, when their time is over, or when ``hurry`` says so.

    This comes before Serve is taken down: then Serve would answer 404, which a client takes for an answer. A replica
    that drains answers 503, and the client goes to the next URL.
    """
    if not _running():
        return
    handle = serve.get_app_handle(APPLICATION)
    in_flight: dict[str, int] = {}
    end = time.monotonic() + FIND_SECONDS
    while time.monotonic() < end and not hurry():
        try:
            # Serve chooses the replica that answers, so many calls are needed to find all.
            replica, in_flight[replica], left = handle.drain.remote().result(timeout_s=FIND_SECONDS)
        except Exception as error:
            print(f"math-reward: The service could not be drained: {_last_line(error)}", file=sys.stderr, flush=True)
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
    """Removes the application, and Serve's proxies if no other application needs them; then leaves the cluster."""
    # Meanwhile Ray prints on standard output which processes it has ended.
    with contextlib.redirect_stdout(io.StringIO()):
        if set(serve.status().applications) - {APPLICATION}:
            serve.delete(APPLICATION)
        else:
            serve.shutdown()
        ray.shutdown()


def _last_line(error: Exception) -> str:
    """The last line of an exception's message: the errors that Ray passes on begin with their traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


if __name__ == "__main__":
    main()
