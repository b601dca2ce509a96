"""Checks the reward services: sends each a correct and a wrong answer, by the protocol of training."""

import contextlib
import dataclasses

from math_reward.client import Settings as ClientSettings
from math_reward.client.settings import speaks_grade
from openrlhf_gtpo.checks.findings import Finding, fault, ok, skipped
from openrlhf_gtpo.rewards.embedded import EmbeddedServiceError, start_embedded_service
from openrlhf_gtpo.rewards.probe import ServiceUnusable, ask_known_answers
from openrlhf_gtpo.settings import Settings


def check_rewards(settings: Settings, cleanup: contextlib.ExitStack) -> tuple[list[Finding], ClientSettings | None]:
    """One finding for each service; without one, the built-in service is started and checked.

    Args:
        settings: of the command line.
        cleanup: stops the built-in service when it is closed.

    Returns:
        The findings; and the settings of a service that passed, if possible one with verdicts, or None.
    """
    if settings.rewards_are_embedded:
        return _embedded(cleanup)
    try:
        client = settings.reward_client()
    except ValueError as error:  # about the token: the flags have a check of their own
        return [fault("reward token", str(error))], None
    if client is None:
        return [skipped("reward service", "Not checked: a program or a model gives the rewards.")], None
    findings, working = [], None
    for url in client.urls:
        one = dataclasses.replace(client, urls=(url,), deadline=0.0)
        finding = _round_trip(f"reward {url}", one)
        findings.append(finding)
        if finding.state == "ok" and (working is None or (speaks_grade(url) and not speaks_grade(working.urls[0]))):
            working = one
    return findings, working


def _embedded(cleanup: contextlib.ExitStack) -> tuple[list[Finding], ClientSettings | None]:
    name = "reward service"
    try:
        service = cleanup.enter_context(start_embedded_service(workers=1))
    except EmbeddedServiceError as error:
        return [fault(name, str(error))], None
    settings = ClientSettings((service.url,), token=service.token, deadline=0.0)
    finding = _round_trip(name, settings)
    return [finding], settings if finding.state == "ok" else None


def _round_trip(name: str, settings: ClientSettings) -> Finding:
    try:
        answers = ask_known_answers(settings)
    except ServiceUnusable as unusable:
        return fault(name, str(unusable))
    if answers.fault:
        return fault(name, answers.fault)
    graded = f"It gave a right answer {answers.right.reward:g} and a wrong one {answers.wrong.reward:g}"
    return ok(name, f"{graded}, in {answers.seconds * 1e3:.0f} ms for both in one request.")
