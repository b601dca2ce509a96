"""The table of routes: what is not in it does not answer, and what is open says so there."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from math_reward.app import create_app
from math_reward.http.routes import TABLE
from math_reward.settings import Settings

from ...refusals import assert_refusal

TOKEN = "a-token-for-tests"
DOCS = Path(__file__).parents[3] / "docs" / "reward-service.md"


@pytest.fixture(scope="module")
def ask(serve: Callable[..., Any]) -> httpx.Client:
    return serve("--workers", "1", MATH_REWARD_TOKEN=TOKEN).when_ready().client


@pytest.mark.parametrize("route", TABLE, ids=lambda route: f"{route.method} {route.path}")
def test_a_route_that_the_table_does_not_open_needs_the_token(ask: httpx.Client, route: Any):
    asked = ask.request(route.method, route.path)
    closed = asked.status_code == 401
    gone = asked.status_code == 404 and route.path == "/docs"  # with a token there is none
    assert (closed, asked.status_code == 200 or gone) == (route.token, not route.token)


async def test_a_route_that_is_not_in_the_table_does_not_answer():
    app = create_app(Settings(workers=1))
    app.get("/secrets")(lambda: {"all": "of them"})
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app") as client:
        answers = [await client.get(path) for path in ("/secrets", "/redoc", "/docs/oauth2-redirect", "/v1/grade/")]
    assert [answer.status_code for answer in answers] == [404] * 4


def test_the_documentation_has_the_routes_of_the_table_and_names_the_open_ones():
    page = DOCS.read_text()
    documented = re.findall(r"`(GET|POST) (/\S*)`", page.split("## Routes")[1])
    (open_ones,) = re.findall(r"needs `Authorization: Bearer TOKEN`, except (.*?)\.\n", page, re.DOTALL)
    parts_of_the_page = {"/page.css", "/page.js", "/", "/docs"}  # "the page's empty form"; /docs is off with a token

    assert set(documented) == {(route.method, route.path) for route in TABLE if not route.path.startswith("/page.")}
    assert set(re.findall(r"`(/\S*)`", open_ones)) == {r.path for r in TABLE if not r.token} - parts_of_the_page


@pytest.mark.parametrize(
    ("method", "path", "status", "named"),
    [
        ("POST", "/v1/grad", 404, ["There is no POST /v1/grad: did you mean POST /v1/grade?"]),
        ("POST", "/grade", 404, ["did you mean POST /v1/grade"]),
        ("GET", "/health", 404, ["GET /healthz"]),
        ("GET", "/" + "x" * 5000, 404, ["/openapi.json"]),
        ("GET", "/v1/grade", 405, ["/v1/grade takes POST, not GET."]),
        ("POST", "/healthz", 405, ["takes GET, not POST"]),
        ("BREW", "/", 405, ["takes GET, not BREW"]),
    ],
)
def test_a_wrong_route_is_refused_with_the_one_that_was_meant(
    ask: httpx.Client, method: str, path: str, status: int, named: list[str]
):
    refused = ask.request(method, path, headers={"Authorization": f"Bearer {TOKEN}"})

    assert (refused.status_code, refused.headers["Content-Type"]) == (status, "application/problem+json")
    assert_refusal(refused.json()["detail"], *named)
    assert len(refused.json()["detail"]) < 300
    assert refused.headers.get("Allow") == (named[0].split()[-3].rstrip(",") if status == 405 else None)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/"])
def test_head_is_answered_as_get_without_the_body(ask: httpx.Client, path: str):
    head, get = ask.head(path), ask.get(path)

    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["Content-Type"] == get.headers["Content-Type"]
    assert int(head.headers["Content-Length"]) > 0
