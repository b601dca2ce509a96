"""The metrics that Prometheus reads at /metrics."""

import functools
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client import Counter as Total
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from math_reward import __version__
from math_reward.grader import Verdict
from math_reward.http.lifecycle import Lifecycle
from math_reward.http.log import Log
from math_reward.pool.item import Graded
from math_reward.pool.pool import RESTARTS, Pool

REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
GRADING_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Metrics:
    """The service's metrics, in a registry of their own."""

    def __init__(self, pool: Pool, lifecycle: Lifecycle, log: Log) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Counts(pool, log))
        self._requests = self._counter("requests", "HTTP requests answered.", "route", "status")
        self._request_seconds = Histogram(
            "math_reward_request_seconds",
            "From the head of a request to the end of its answer.",
            ["route"],
            buckets=REQUEST_BUCKETS,
            registry=self._registry,
        )
        self._items = self._counter(
            "items",
            "Items answered, by verdict and by the stage that decided (none: nothing was compared).",
            "verdict",
            "stage",
        )
        self._grading_seconds = Histogram(
            "math_reward_grading_seconds",
            "Time that an item took in its worker, without the queue.",
            buckets=GRADING_BUCKETS,
            registry=self._registry,
        )
        self._gauge("queued_items", "Items that wait for a worker.").set_function(lambda: pool.queued)
        self._gauge("requests_in_flight", "POST requests being answered.").set_function(lambda: lifecycle.in_flight)
        workers = Gauge("math_reward_workers", "Worker processes that are alive.", ["lane"], registry=self._registry)
        for lane in pool.workers:
            workers.labels(lane).set_function(functools.partial(lambda name: pool.workers[name], lane))
        build = Gauge("math_reward_build_info", "Always 1.", ["version"], registry=self._registry)
        build.labels(__version__).set(1)
        # From the start, since Prometheus sees no increase in a time series that begins with its first event.
        for route, status in itertools.product(("/v1/grade", "/get_reward"), ("200", "401", "422", "429", "503")):
            self._requests.labels(route, status)
        for verdict in (Verdict.BAD_REFERENCE, Verdict.ERROR, Verdict.TIMEOUT):
            self._items.labels(verdict.value, "none")

    def _counter(self, name: str, text: str, *labels: str) -> Total:
        return Total(f"math_reward_{name}", text, labels, registry=self._registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"math_reward_{name}", text, registry=self._registry)

    def request(self, route: str, status: int, seconds: float) -> None:
        """Counts a request that was answered."""
        self._requests.labels(route, str(status)).inc()
        self._request_seconds.labels(route).observe(seconds)

    def items(self, graded: Iterable[Graded]) -> None:
        """Counts items that were answered."""
        counts: Counter[tuple[str, str]] = Counter()
        for one in graded:
            counts[one.verdict, one.stage or "none"] += 1
            self._grading_seconds.observe(one.seconds)
        for labels, count in counts.items():
            self._items.labels(*labels).inc(count)

    def exposition(self) -> bytes:
        """Prometheus' text format."""
        return generate_latest(self._registry)


class _Counts(Collector):
    """What the pool and the log count."""

    def __init__(self, pool: Pool, log: Log) -> None:
        self._pool, self._log = pool, log

    def collect(self) -> Iterator[CounterMetricFamily]:
        counts = self._pool.restarts
        name, text = "math_reward_deadline_kills", "Items that ran into the deadline."
        yield CounterMetricFamily(name, text, value=counts["deadline"])
        name, text = "math_reward_log_lines_dropped", "Lines of the log that nobody read in time."
        yield CounterMetricFamily(name, text, value=self._log.dropped)
        name, text = "math_reward_worker_restarts", "Worker processes replaced, by reason."
        restarts = CounterMetricFamily(name, text, labels=["reason"])
        for reason in RESTARTS:
            restarts.add_metric([reason], counts[reason])
        yield restarts
