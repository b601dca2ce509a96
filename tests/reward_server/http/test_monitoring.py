"""The files of docs/examples/monitoring: a real Prometheus scrapes a real service by their configuration, answers
every question of the Grafana dashboard, and raises an alert."""

import json
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from ..conftest import WaitFor

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples" / "monitoring"
PROMETHEUS = shutil.which("prometheus")
needs_prometheus = pytest.mark.skipif(PROMETHEUS is None, reason="prometheus is not installed (Debian: prometheus)")
TOKEN = "a-token-for-tests"


def panels() -> list[tuple[str, str]]:
    """Title and expression of everything that the dashboard shows."""
    board = json.loads((EXAMPLES / "grafana.json").read_text())
    return [(panel["title"], target["expr"]) for panel in board["panels"] for target in panel["targets"]]


class Prometheus:
    """Scrapes one service every second."""

    def __init__(self, port: int, folder: Path) -> None:
        config = yaml.safe_load((EXAMPLES / "prometheus.yml").read_text())
        (scraped,) = config["scrape_configs"]
        scraped["static_configs"] = [{"targets": [f"127.0.0.1:{port}"]}]
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config["rule_files"] = [str(EXAMPLES / name) for name in config["rule_files"]]
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = f"127.0.0.1:{free.getsockname()[1]}"
        assert PROMETHEUS is not None
        files = [f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"]
        self._log = (folder / "log").open("w")
        self.process = subprocess.Popen(
            [PROMETHEUS, *files, f"--web.listen-address={address}"], stdout=self._log, stderr=subprocess.STDOUT
        )
        self._url = f"http://{address}/api/v1/query"

    def values(self, expression: str) -> list[float]:
        """What Prometheus answers; nothing while it starts."""
        try:
            answer = httpx.get(self._url, params={"query": expression}, timeout=60).json()
        except (httpx.TransportError, ValueError):
            return []
        assert answer["status"] == "success", answer
        return [float(one["value"][1]) for one in answer["data"]["result"]]

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=120)
        self._log.close()


@pytest.fixture
def watched(serve: Callable[..., Any], tmp_path: Path) -> Iterator[tuple[Any, Prometheus]]:
    """A service behind a token, and the Prometheus that watches it."""
    server = serve("--workers", "2", "--deadline", "1", stub=True, MATH_REWARD_TOKEN=TOKEN).when_ready()
    prometheus = Prometheus(server.port, tmp_path)
    yield server, prometheus
    prometheus.stop()


@needs_prometheus
def test_a_real_prometheus_answers_every_panel_of_the_dashboard_and_raises_the_alert(
    watched: tuple[Any, Prometheus], wait_for: WaitFor
):
    server, prometheus = watched
    fraction = {"completion": r"\boxed{\frac{31}{4}}", "reference": "7.75"}
    items = [fraction, fraction, {"completion": "hang", "reference": "5"}]
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert server.client.post("/v1/grade", json={"items": items}, headers=headers).status_code == 200
    assert server.client.post("/v1/grade", json={"items": items}).status_code == 401
    wait_for(lambda: prometheus.values("sum(math_reward_items_total)") == [3])

    for title, expression in panels():
        asked = expression.replace("$__rate_interval", "1h").replace("$instance", ".*").replace("$job", ".*")
        wait_for(lambda asked=asked: bool(prometheus.values(asked)))  # type: ignore[misc]
        assert "$" not in asked, title
    assert prometheus.values('sum by (status) (math_reward_requests_total{status="401"})') == [1]
    assert prometheus.values("sum(math_reward_deadline_kills_total)") == [1]
    assert prometheus.values('ALERTS{alertname="MathRewardDown"}') == []

    server.process.terminate()
    wait_for(lambda: prometheus.values('ALERTS{alertname="MathRewardDown",alertstate="pending"}') == [1])
