"""The service on a Ray cluster, for more load than one machine can grade: replicas of the application in Ray Serve.

``launch/reward_on_ray.sh`` runs this module. Every node needs this package, its dependencies and Ray Serve. Serve's
proxies, on the head node and on each node that has a replica, take the requests. So ``max_queued`` and ``workers``
count for each replica, ``/metrics`` is that of any one replica (Ray's own endpoint has sums), and once the service is
stopped the proxies answer 404. The token travels inside the application, which Ray keeps in memory: it is in no
environment of a replica, no command line and no status.
"""

import argparse
import logging
import signal
from typing import Any

from math_reward.commands.refusal import refuse

try:
    import ray
    from fastapi import FastAPI
    from ray import serve
    from ray.serve.config import AutoscalingConfig, HTTPOptions, ProxyLocation
    from ray.serve.schema import LoggingConfig

    from math_reward.app import create_app
    from math_reward.settings import Settings, SettingsError, load_settings
except ImportError as error:
    refuse(f"{error}, which the service on Ray needs: pip install 'math-reward[server,ray-serve]'.")

APPLICATION = "math-reward"
"""The application's name in Serve; a cluster has one."""

MAX_ONGOING_REQUESTS = 2048
"""How many requests a replica takes at once. It has a queue of its own and says when that is full."""

REPLICA_REQUESTS = 16
"""How many requests under way Serve aims at for each replica."""

UPSCALE_SECONDS = 5.0
"""How long the load must be high before more replicas start: a step asks for all its rewards at once."""


class Replica:
    """A replica of the application, and its pool of workers."""


def application(settings: Settings, min_replicas: int, max_replicas: int) -> Any:
    """The service as an application of Serve. It carries the settings, and so the token, to the replicas."""

    def build() -> FastAPI:
        return create_app(settings)

    deployment = serve.deployment(
        name=APPLICATION,
        max_ongoing_requests=MAX_ONGOING_REQUESTS,
        autoscaling_config=AutoscalingConfig(
            min_replicas=min_replicas,
            max_replicas=max_replicas,
            target_ongoing_requests=REPLICA_REQUESTS,
            upscale_delay_s=UPSCALE_SECONDS,
        ),
        ray_actor_options={"num_cpus": settings.workers},
        graceful_shutdown_timeout_s=settings.drain_seconds,
        logging_config=LoggingConfig(enable_access_log=False),  # The service has its own.
    )(serve.ingress(build)(Replica))
    return deployment.bind()


def main() -> None:
    """Entry point of ``launch/reward_on_ray.sh``: deploys the service, and stops it at SIGTERM or Ctrl-C."""
    arguments = _parse()
    if arguments.stop:
        _connect()
        serve.delete(APPLICATION)
        return
    try:
        settings = load_settings(
            host=arguments.host, port=arguments.port, workers=arguments.workers, insecure=arguments.insecure
        )
    except SettingsError as error:
        refuse(str(error))
    if not 1 <= arguments.min_replicas <= arguments.max_replicas:
        refuse("--min-replicas (MIN_REPLICAS) must be at least 1 and at most --max-replicas (MAX_REPLICAS).")
    _connect()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    serve.start(
        proxy_location=ProxyLocation.EveryNode,
        http_options=HTTPOptions(host=settings.host, port=settings.port),
        logging_config=LoggingConfig(enable_access_log=False),
    )
    serve.run(application(settings, arguments.min_replicas, arguments.max_replicas), name=APPLICATION)
    head = next(node for node in ray.nodes() if "node:__internal_head__" in node["Resources"])
    host = head["NodeManagerAddress"] if settings.host in ("0.0.0.0", "::") else settings.host
    print(f"{APPLICATION} is ready: --reward.remote_url http://{host}:{settings.port}", flush=True)
    if not arguments.detach:
        signal.sigwait({signal.SIGTERM, signal.SIGINT})
        serve.delete(APPLICATION)


def _connect() -> None:
    try:
        ray.init(address="auto", log_to_driver=False, logging_level=logging.ERROR)
    except ConnectionError as error:
        refuse(f"There is no Ray cluster here ({error}): start one with `ray start --head`, or set RAY_ADDRESS.")


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
        "--insecure", action="store_true", default=None, help="listen without a token on an address others can reach"
    )
    parser.add_argument("--detach", action="store_true", help="return when it is ready, and leave it running")
    parser.add_argument("--stop", action="store_true", help="stop the service that runs on the cluster")
    return parser.parse_args()


if __name__ == "__main__":
    main()
