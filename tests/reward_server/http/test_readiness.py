"""When the service is ready: its workers grade the known items rightly, and in time."""

import asyncio
import functools
import logging
from types import ModuleType

import httpx
import pytest
from fastapi import FastAPI

from math_reward.app import create_app
from math_reward.http import operations
from math_reward.pool.pool import Pool
from math_reward.settings import Settings

from ...refusals import assert_refusal


async def readiness(app: FastAPI) -> httpx.Response:
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app")
    async with app.router.lifespan_context(app), client:
        while (
            "No worker graded" in (response := await client.get("/readyz")).text
        ):  # The first takes its time to start.
            pass
        return response


async def test_a_grader_that_approves_everything_is_not_ready(
    stub_graders: ModuleType, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("math_reward.app.Pool", functools.partial(Pool, grader=stub_graders.approve))
    app = create_app(Settings(workers=1))
    response = await readiness(app)

    assert response.status_code == 503
    assert_refusal(response.json()["detail"], "wrong", "'correct'")


async def test_a_service_whose_workers_hang_is_not_ready(stub_graders: ModuleType, monkeypatch: pytest.MonkeyPatch):
    grader = stub_graders.NotToBeLoaded("hangs")
    monkeypatch.setattr("math_reward.app.Pool", functools.partial(Pool, grader=grader))
    monkeypatch.setattr(operations, "CHECK_SECONDS", 0.2)
    app = create_app(Settings(workers=1, deadline=60))
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app")
    async with app.router.lifespan_context(app), client:
        response = await client.get("/readyz")

    assert response.status_code == 503
    assert_refusal(response.json()["detail"], "No worker graded the known answers within 0.2 s")


async def test_a_flood_of_readiness_checks_costs_the_workers_one(monkeypatch: pytest.MonkeyPatch):
    app, checks = create_app(Settings(workers=1)), []
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app")
    grade = Pool.grade
    monkeypatch.setattr(Pool, "grade", lambda *given, **named: (checks.append(given), grade(*given, **named))[1])
    monkeypatch.setattr(operations, "FRESH_SECONDS", 0.0)

    async with app.router.lifespan_context(app), client:
        while (await client.get("/readyz")).status_code != 200:
            pass
        monkeypatch.setattr(operations, "FRESH_SECONDS", 60.0)
        checks.clear()
        answers = await asyncio.gather(*[client.get("/readyz") for _ in range(100)])

    assert {answer.status_code for answer in answers} == {200}
    assert len(checks) == 1


async def test_a_service_whose_workers_cannot_start_is_not_ready(
    stub_graders: ModuleType, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    grader = stub_graders.NotToBeLoaded("exits")
    monkeypatch.setattr("math_reward.app.Pool", functools.partial(Pool, grader=grader))
    monkeypatch.setattr("math_reward.pool.pool.NO_WORKER_SECONDS", 0.2)
    app = create_app(Settings(workers=1))
    with caplog.at_level(logging.ERROR):
        response = await readiness(app)

    assert response.status_code == 503
    assert_refusal(response.json()["detail"], "exit code 9")
    assert "exit code 9" in caplog.text
