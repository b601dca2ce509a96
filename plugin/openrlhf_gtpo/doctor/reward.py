"""Checks the reward services: sends each a correct and a wrong answer, by the protocol of training."""

import contextlib

from math_reward.client import Settings
from math_reward.client.settings import speaks_grade
from openrlhf_gtpo.data.findings import Finding, fault, ok
from openrlhf_gtpo.rewards.embedded import EmbeddedServiceError, start_embedded_service
from openrlhf_gtpo.rewards.probe import ServiceUnusable, ask_known_answers

__all__ = ["check_rewards"]


def check_rewards(urls: tuple[str, ...], cleanup: contextlib.ExitStack) -> tuple[list[Finding], Settings | None]:
    """One finding for each URL; without URLs, the built-in service is started and checked.

    Args:
        urls: of ``--reward_url``.
        cleanup: stops the built-in service when it is closed.

    Returns:
        The findings; and the settings of a service that passed, if possible one with verdicts, or None.
    """
    if not urls:
        return _embedded(cleanup)
    findings, working = [], None
    for url in urls:
        try:
            settings = Settings((url,), deadline=0.0, reward_models=True)
        except ValueError as error:  # about the token, since the URL was checked before
            return [fault("reward token", str(error))], None
        found = _round_trip(f"reward {url}", settings)
        findings.append(found)
        if found.state == "ok" and (working is None or (speaks_grade(url) and not speaks_grade(working.urls[0]))):
            working = settings
    return findings, working


def _embedded(cleanup: contextlib.ExitStack) -> tuple[list[Finding], Settings | None]:
    name = "reward service"
    try:
        service = cleanup.enter_context(start_embedded_service(workers=1))
    except EmbeddedServiceError as error:
        return [fault(name, str(error))], None
    settings = Settings((service.url,), token=service.token, deadline=0.0)
    found = _round_trip(name, settings)
    return [found], settings if found.state == "ok" else None


def _round_trip(name: str, settings: Settings) -> Finding:
    try:
        answers = ask_known_answers(settings)
    except ServiceUnusable as unusable:
        return fault(name, str(unusable))
    if answers.fault:
        return fault(name, answers.fault)
    graded = f"It gave a right answer {answers.right.reward:g} and a wrong one {answers.wrong.reward:g}"
    return ok(name, f"{graded}, in {answers.seconds * 1e3:.0f} ms for both in one request.")
