"""The metrics that Prometheus reads at /metrics."""

import asyncio
import copy
import itertools
import os
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from math_reward import __version__
from math_reward.grader import Verdict
from math_reward.http.lifecycle import Lifecycle
from math_reward.pool.item import Graded
from math_reward.pool.pool import RESTARTS, Pool, PoolCounters

METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable by which prometheus_client learns that several processes count together, in this folder."""

WORK_ROUTES = ("/v1/grade", "/get_reward")

POOL_SECONDS = 1.0
"""How old the pool's counts may be where another process of the service is asked."""

REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
GRADING_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Metrics:
    """The service's metrics, in a registry of their own.

    It counts requests and items itself, and takes over the pool's own counts. Where several processes serve, they
    count in files of one folder, which outlive them; `math_reward.commands.serve_processes` makes it.
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
        self._pool_gauges = {
            name: Gauge(f"math_reward_{name}", text, registry=self._registry, multiprocess_mode="livesum")
            for name, text in (
                ("queued_items", "Items that wait for a worker."),
                ("requests_in_flight", "POST requests being answered."),
                ("workers", "Worker processes that are alive."),
            )
        }
        self._deadline_kills = Counter(
            "math_reward_deadline_kills", "Items that ran into the deadline.", registry=self._registry
        )
        self._restarts = self._labelled("worker_restarts", "Worker processes replaced, by reason.", "reason")
        self._cache_hits = self._labelled("cache_hits", "Hits of the grader's caches.", "cache")
        self._cache_misses = self._labelled("cache_misses", "Misses of the grader's caches.", "cache")
        self._questions = self._labelled("judge_questions", "Questions to the judge, by its answer.", "answer")
        self._seen = PoolCounters()
        self._reloaded = Gauge(
            "math_reward_last_reload_successful",
            "1 if the service uses what it read last of a file that SIGHUP reads again, 0 if it kept the one before.",
            ["file"],
            registry=self._registry,
            multiprocess_mode="livemin",
        )
        build = Gauge(
            "math_reward_build_info",
            "Always 1.",
            ["version"],
            registry=self._registry,
            multiprocess_mode="livemax",
        )
        build.labels(__version__).set(1)
        # From the start, since Prometheus sees no increase in a time series that begins with its first event.
        for reason in RESTARTS:
            self._restarts.labels(reason)
        for route, status in itertools.product(WORK_ROUTES, ("200", "401", "422", "429", "503")):
            self._requests.labels(route, status)
        for verdict in (Verdict.BAD_REFERENCE, Verdict.ERROR, Verdict.TIMEOUT):
            self._items.labels(verdict.value, "none")
        for answer in pool.counters.judge_questions:
            self._questions.labels(answer)
        self._pool = pool
        self._lifecycle = lifecycle

    def _labelled(self, name: str, text: str, label: str) -> Counter:
        return Counter(f"math_reward_{name}", text, [label], registry=self._registry)

    def request(self, route: str, status: int, seconds: float, token_name: str | None) -> None:
        """Counts a request that was answered; ``token_name`` is None where its token has no name, or it has none."""
        if token_name is not None:
            self._by_token.labels(token_name, str(status)).inc()
        self._requests.labels(route, str(status)).inc()
        self._request_seconds.labels(route).observe(seconds)

    def file_read(self, file: str, *, is_used: bool) -> None:
        """Notes whether the service uses what it read of a file, ``certificate`` or ``tokens``."""
        self._reloaded.labels(file).set(is_used)

    def items(self, graded: Iterable[Graded]) -> None:
        """Counts items that were answered."""
        for one in graded:
            stage = one.grade.stage
            self._items.labels(one.grade.verdict.value, "none" if stage is None else stage.value).inc()
            self._grading_seconds.observe(one.seconds)

    def exposition(self) -> bytes:
        """Prometheus' text format. Where several processes serve, of all of them."""
        self.read_pool()
        if METRICS_FOLDER not in os.environ:
            return generate_latest(self._registry)
        everything = CollectorRegistry()
        MultiProcessCollector(everything)
        return generate_latest(everything)

    async def keep_pool_read(self) -> None:
        """Reads the pool's counts every POOL_SECONDS, for another process that is asked, or outlives this one."""
        while True:
            self.read_pool()
            await asyncio.sleep(POOL_SECONDS)

    def read_pool(self) -> None:
        """Takes over what the pool has counted since the last time."""
        self._pool_gauges["queued_items"].set(self._pool.queued)
        self._pool_gauges["requests_in_flight"].set(self._lifecycle.in_flight)
        self._pool_gauges["workers"].set(len(self._pool.pids))
        now, seen = self._pool.counters, self._seen
        self._deadline_kills.inc(now.deadline_kills - seen.deadline_kills)
        for metric, counts, before in (
            (self._restarts, now.restarts, seen.restarts),
            (self._cache_hits, now.cache_hits, seen.cache_hits),
            (self._cache_misses, now.cache_misses, seen.cache_misses),
            (self._questions, now.judge_questions, seen.judge_questions),
        ):
            for label, count in counts.items():
                metric.labels(label).inc(count - before[label])
        self._seen = copy.deepcopy(now)
