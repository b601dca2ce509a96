"""The metrics that Prometheus reads at /metrics."""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from math_reward import __version__
from math_reward.http.lifecycle import Lifecycle
from math_reward.pool.item import Graded
from math_reward.pool.pool import Pool

REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
GRADING_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Metrics:
    """The service's metrics, in a registry of their own.

    It counts requests and items itself, and reads the pool's own counts when Prometheus asks.
    """

    def __init__(self, pool: Pool, lifecycle: Lifecycle) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "math_reward_requests", "HTTP requests answered.", ["route", "status"], registry=self._registry
        )
        self._by_token = Counter(
            "math_reward_token_requests",
            "HTTP requests answered, by the name of their token, where tokens have names.",
            ["token", "status"],
            registry=self._registry,
        )
        self._request_seconds = Histogram(
            "math_reward_request_seconds",
            "From the head of a request to the end of its answer.",
            ["route"],
            buckets=REQUEST_BUCKETS,
            registry=self._registry,
        )
        self._items = Counter(
            "math_reward_items",
            "Items answered, by verdict and by the stage that decided (none: nothing was compared).",
            ["verdict", "stage"],
            registry=self._registry,
        )
        self._grading_seconds = Histogram(
            "math_reward_grading_seconds",
            "Time that an item took in its worker, without the queue.",
            buckets=GRADING_BUCKETS,
            registry=self._registry,
        )
        self._registry.register(_PoolCollector(pool, lifecycle))

    def request(self, route: str, status: int, seconds: float, token_name: str | None) -> None:
        """Counts a request that was answered; ``token_name`` is None where its token has no name, or it has none."""
        if token_name is not None:
            self._by_token.labels(token_name, str(status)).inc()
        self._requests.labels(route, str(status)).inc()
        self._request_seconds.labels(route).observe(seconds)

    def items(self, graded: Iterable[Graded]) -> None:
        """Counts items that were answered."""
        for one in graded:
            stage = one.grade.stage
            self._items.labels(one.grade.verdict.value, "none" if stage is None else stage.value).inc()
            self._grading_seconds.observe(one.seconds)

    def exposition(self) -> bytes:
        """Prometheus' text format."""
        return generate_latest(self._registry)


class _PoolCollector(Collector):
    def __init__(self, pool: Pool, lifecycle: Lifecycle) -> None:
        self._pool = pool
        self._lifecycle = lifecycle

    def collect(self) -> Iterator[Metric]:
        counters = self._pool.counters
        yield GaugeMetricFamily("math_reward_queued_items", "Items that wait for a worker.", self._pool.queued)
        yield GaugeMetricFamily(
            "math_reward_requests_in_flight", "POST requests being answered.", self._lifecycle.in_flight
        )
        yield GaugeMetricFamily("math_reward_workers", "Worker processes that are alive.", len(self._pool.pids))
        yield CounterMetricFamily(
            "math_reward_deadline_kills", "Items that ran into the deadline.", counters.deadline_kills
        )
        yield _labelled(
            "math_reward_worker_restarts", "Worker processes replaced, by reason.", "reason", counters.restarts.items()
        )
        yield _labelled("math_reward_cache_hits", "Hits of the grader's caches.", "cache", counters.cache_hits.items())
        yield _labelled(
            "math_reward_cache_misses", "Misses of the grader's caches.", "cache", counters.cache_misses.items()
        )
        version = GaugeMetricFamily("math_reward_build_info", "Always 1.", labels=["version"])
        version.add_metric([__version__], 1)
        yield version


def _labelled(name: str, documentation: str, label: str, values: Iterable[tuple[str, int]]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, documentation, labels=[label])
    for value, count in values:
        family.add_metric([value], count)
    return family
