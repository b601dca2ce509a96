"""A round trip to a reward service with a known right and a known wrong answer, by the protocol of training: what the
doctor and the driver ask before anything starts."""

import asyncio
import os
import socket
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

from openrlhf_gtpo.errors import UserError
from openrlhf_gtpo.rewards.client import RewardClient, RewardClientSettings, RewardError
from openrlhf_gtpo.rewards.protocols import Reward, RewardRequest
from openrlhf_gtpo.rewards.token import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE

__all__ = ["Answers", "ServiceUnusable", "ask_known_answers", "doubtful_services"]

CONNECT_SECONDS = 5.0
PROBE_SECONDS = 15.0
"""For the answer to two completions, before a run."""

QUESTION, REFERENCE = "What is 6 times 7?", "42"
RIGHT, WRONG = (f"6 times 7 is \\boxed{{{answer}}}." for answer in (42, 41))


class ServiceUnusable(UserError):
    """A reward service cannot be reached, refuses the token or does not speak the protocol."""


@dataclass(frozen=True)
class Answers:
    """What a service said of the two answers."""

    right: Reward
    wrong: Reward
    seconds: float
    """For both, in one request."""

    @property
    def fault(self) -> str | None:
        """What is wrong with them for GTPO, in one sentence."""
        for answer, reward, wanted in (("right", self.right, 1.0), ("wrong", self.wrong, 0.0)):
            # Some servers give -1 for a wrong answer, which training takes too.
            if reward.score != wanted and not (wanted == 0.0 and reward.score == -1.0):
                return (
                    f"It gave a {answer} answer the score {reward.score:g} instead of {wanted:g}, and GTPO needs "
                    "verified correctness: ask a service that grades, such as `math-reward serve`."
                )
        return None


def ask_known_answers(settings: RewardClientSettings) -> Answers:
    """Ask a service once.

    Args:
        settings: one URL, and a deadline of 0: nothing is tried again.

    Raises:
        ServiceUnusable: with what to do about it.
    """
    try:
        return asyncio.run(_ask(settings))
    except RewardError as error:
        raise ServiceUnusable(_what_to_do(settings, error)) from None


def doubtful_services(settings: RewardClientSettings) -> list[str]:
    """One sentence for each URL of a run that does not answer, or not as a service that grades mathematics does.

    Args:
        settings: of the run's reward client; each URL is asked once, and waited for `PROBE_SECONDS` at most.

    Raises:
        ServiceUnusable: no URL answers at all.
    """
    silent, others = [], []
    seconds = min(settings.timeout, PROBE_SECONDS)
    for url in settings.urls:
        one = RewardClientSettings((url,), token=settings.token, timeout=seconds, deadline=0.0)
        try:
            answers = ask_known_answers(one)
        except ServiceUnusable as fault:
            silent.append(f"The reward service {url} cannot be used. {fault}")
            continue
        if answers.fault:
            others.append(f"The reward service {url} grades something else than mathematics. {answers.fault}")
    if len(silent) == len(settings.urls):
        raise ServiceUnusable("\n".join(silent))
    return silent + others


async def _ask(settings: RewardClientSettings) -> Answers:
    client = RewardClient(settings)
    try:
        requests = [RewardRequest(text, REFERENCE, QUESTION, QUESTION + text) for text in (RIGHT, WRONG)]
        started = time.monotonic()
        found = await asyncio.gather(*map(client.reward, requests), return_exceptions=True)
        seconds = time.monotonic() - started
        for outcome in found:
            if isinstance(outcome, BaseException):
                raise outcome
        right, wrong = found
        assert isinstance(right, Reward)
        assert isinstance(wrong, Reward)
        return Answers(right, wrong, seconds)
    finally:
        await client.aclose()


def _what_to_do(settings: RewardClientSettings, error: RewardError) -> str:
    """The client's sentence, with what a look at the socket adds to it."""
    if "HTTP 401" in str(error) or "HTTP 403" in str(error):
        if settings.token is None:
            return (
                f"It wants a token: set {TOKEN_VARIABLE} to the one that the service was started with, or "
                f"{TOKEN_FILE_VARIABLE} to a file that holds it."
            )
        source = TOKEN_FILE_VARIABLE if os.environ.get(TOKEN_FILE_VARIABLE) else TOKEN_VARIABLE
        return f"It refuses the token of {source}: use the one that the service was started with."
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
        why = problem.strerror or str(problem) or type(problem).__name__
        return f"{host} cannot be reached on port {port} ({why}): fix the URL or the firewall."
    said = str(error).rstrip(".")
    return f"{said}." if "check " in said else f"{said}: check its log."
