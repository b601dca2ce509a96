"""What can be seen from outside: metrics, request ids, the access log, the settings at the start."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ..conftest import WaitFor

TOKEN = "a-token-for-tests"


@pytest.fixture(scope="module")
def server(serve: Callable[..., Any]) -> Any:
    """A service with a token, an access log and a short deadline."""
    options = ["--workers", "1", "--deadline", "1", "--access-log"]
    live = serve(*options, stub=True, MATH_REWARD_TOKEN=TOKEN).when_ready()
    live.client.headers["Authorization"] = f"Bearer {TOKEN}"
    return live


def samples(server: Any) -> dict[tuple[str, ...], float]:
    """The metrics: (name, values of the labels in the order of their names ...) -> value."""
    families = text_string_to_metric_families(server.client.get("/metrics").text)
    return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


def test_metrics_count_requests_items_kills_and_restarts(server: Any, wait_for: WaitFor):
    before = samples(server)
    fraction = {"completion": r"\boxed{\frac{31}{4}}", "reference": "7.75"}
    items = [fraction, fraction, {"completion": "So?", "reference": "5"}, {"completion": "hang", "reference": "5"}]
    assert server.client.post("/v1/grade", json={"items": items}).status_code == 200
    assert server.client.post("/v1/grade", json={}).status_code == 422
    assert server.client.get("/nothing/here").status_code == 404
    wait_for(
        lambda: samples(server)["math_reward_workers", "slow"] == samples(server)["math_reward_workers", "fast"] == 1
    )

    after = samples(server)

    def grown(*name: str) -> float:
        return after.get(name, 0) - before.get(name, 0)

    assert grown("math_reward_requests_total", "/v1/grade", "200") == 1
    assert grown("math_reward_requests_total", "/v1/grade", "422") == 1
    assert grown("math_reward_requests_total", "other", "404") == 1
    assert grown("math_reward_request_seconds_count", "/v1/grade") == 2
    assert grown("math_reward_items_total", "exact", "correct") == 2
    assert grown("math_reward_items_total", "none", "no_answer") == 1
    assert grown("math_reward_items_total", "none", "timeout") == 1
    assert grown("math_reward_grading_seconds_count") == 4
    assert grown("math_reward_grading_seconds_sum") > 0.9
    assert grown("math_reward_deadline_kills_total") == 1
    assert grown("math_reward_worker_restarts_total", "head_start") == 1
    assert grown("math_reward_worker_restarts_total", "deadline") == 1
    assert after["math_reward_queued_items",] == after["math_reward_requests_in_flight",] == 0


def test_the_access_log_has_a_json_line_per_request_but_for_probes(server: Any, wait_for: WaitFor):
    server.client.post("/v1/grade", json={"items": []}, headers={"X-Request-ID": "mine-1"})
    server.client.post("/v1/grade", json={"items": []}, headers={"Authorization": "no", "X-Request-ID": "mine-2"})
    server.client.get("/healthz", headers={"X-Request-ID": "mine-3"})
    server.client.get("/openapi.json", headers={"X-Request-ID": "mine-4"})
    wait_for(lambda: any("mine-4" in line for line in server.log()))

    lines = [json.loads(line) for line in server.log() if line.startswith("{")]
    mine = {line["request_id"]: line for line in lines if line["request_id"].startswith("mine")}
    assert mine.keys() == {"mine-1", "mine-2", "mine-4"}
    assert [mine[name]["status"] for name in mine] == [200, 401, 200]
    assert mine["mine-1"].keys() == {"time", "request_id", "client", "method", "path", "status", "seconds"}
    assert (mine["mine-1"]["method"], mine["mine-1"]["path"]) == ("POST", "/v1/grade")
    assert mine["mine-1"]["client"] == "127.0.0.1"
    assert 0 < mine["mine-1"]["seconds"] < 10


def test_a_request_id_goes_back_and_is_made_up_where_there_is_no_good_one(server: Any):
    def answered(*given: str) -> str:
        headers = {"X-Request-ID": given[0]} if given else {}
        return server.client.get("/healthz", headers=headers).headers["X-Request-ID"]

    assert answered("abc-123") == "abc-123"
    made_up = {answered(), answered("two words"), answered("x" * 129), answered("")}
    assert len(made_up) == 4
    assert all(len(one) == 32 and int(one, 16) for one in made_up)


def test_the_settings_are_shown_at_the_start_without_the_token(server: Any):
    (line,) = [line for line in server.log() if line.startswith("math-reward settings:")]

    assert " deadline=1.0 " in line
    assert line.endswith(" token=set")
    assert TOKEN not in "\n".join(server.log())
