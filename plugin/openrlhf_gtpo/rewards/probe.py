"""A test request to a reward service, with one correct and one wrong answer, by the protocol of training. The doctor
and the driver send it before anything starts."""

import os
import socket
import time
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from math_reward.client import Cause, Client, ClientError, Item, Result, Settings
from math_reward.client.settings import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE
from openrlhf_gtpo.errors import UserError, reason
from openrlhf_gtpo.rewards.client import sentence

CONNECT_SECONDS = 5.0
PROBE_SECONDS = 15.0
"""Timeout of the test request before a run."""

QUESTION, REFERENCE = "What is 6 times 7?", "42"
RIGHT, WRONG = (f"6 times 7 is \\boxed{{{answer}}}." for answer in (42, 41))


class ServiceUnusable(UserError):
    """A reward service cannot be reached, refuses the token or does not speak the protocol."""


@dataclass(frozen=True)
class Answers:
    """A service's rewards for the two answers."""

    right: Result
    wrong: Result
    seconds: float
    """For both, in one request."""

    @property
    def fault(self) -> str | None:
        """One sentence if GTPO cannot use these rewards; None if it can."""
        for answer, reward, wanted in (("right", self.right, 1.0), ("wrong", self.wrong, 0.0)):
            # Some servers give -1 for a wrong answer, which training accepts too.
            if reward.score != wanted and not (wanted == 0.0 and reward.score == -1.0):
                return (
                    f"It gave a {answer} answer the score {reward.score:g} instead of {wanted:g}, and GTPO needs "
                    "verified correctness: use a service that grades, such as `math-reward serve`."
                )
        return None


def ask_known_answers(settings: Settings) -> Answers:
    """Send the test request once.

    Args:
        settings: with one URL and a deadline of 0, so that nothing is retried.

    Raises:
        ServiceUnusable: there was no valid answer. The sentence says what to do.
    """
    items = [Item(text, REFERENCE, QUESTION) for text in (RIGHT, WRONG)]
    try:
        with Client(**vars(settings)) as client:
            started = time.monotonic()
            right, wrong = (result for result in client.grade_many(items) if isinstance(result, Result))
            return Answers(right, wrong, time.monotonic() - started)
    except ClientError as error:
        raise ServiceUnusable(_what_to_do(settings, error)) from None


def doubtful_services(settings: Settings) -> list[str]:
    """One sentence for each URL of a run that does not answer, or that does not grade mathematics.

    Args:
        settings: of the run's reward client. Each URL is asked once, for at most `PROBE_SECONDS`.

    Raises:
        ServiceUnusable: no URL answers.
    """
    silent, others = [], []
    seconds = min(settings.timeout, PROBE_SECONDS)
    for url in settings.urls:
        one = replace(settings, urls=(url,), timeout=seconds, deadline=0.0)
        try:
            answers = ask_known_answers(one)
        except ServiceUnusable as fault:
            silent.append(f"The reward service {url} cannot be used. {fault}")
            continue
        if answers.fault:
            others.append(f"The reward service {url} does not grade mathematics. {answers.fault}")
    if len(silent) == len(settings.urls):
        raise ServiceUnusable("\n".join(silent))
    return silent + others


def _what_to_do(settings: Settings, error: ClientError) -> str:
    """A sentence with the fix, from the client's error and an attempt to connect."""
    if error.cause is Cause.TOKEN:
        if settings.token is None:
            return (
                f"It requires a token: set {TOKEN_VARIABLE} to one of its tokens, or "
                f"{TOKEN_FILE_VARIABLE} to a file that holds it."
            )
        source = TOKEN_FILE_VARIABLE if os.environ.get(TOKEN_FILE_VARIABLE) else TOKEN_VARIABLE
        return f"It refuses the token of {source}: use one that it knows."
    if error.cause is not Cause.UNREACHABLE:
        return sentence(error)
    parts = urlsplit(settings.urls[0])
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((host, port), CONNECT_SECONDS).close()
    except ConnectionRefusedError:
        where = f"port {port} of {host}"
        return f"Nothing listens on {where}: start the service there by `math-reward serve`, or fix the URL."
    except socket.gaierror:
        return f"The host name {host} is not known here: fix the URL or the name service."
    except OSError as problem:
        why = problem.strerror or reason(problem)
        return f"{host} cannot be reached on port {port} ({why}): fix the URL or the firewall."
    return sentence(error)
