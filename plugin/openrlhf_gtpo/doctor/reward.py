"""The reward service: a round trip with a known right and a known wrong answer, by the protocol of training."""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

from openrlhf_gtpo.doctor.findings import Finding, fault, ok, reason
from openrlhf_gtpo.embedded_reward import EmbeddedServiceError, start_embedded_service
from openrlhf_gtpo.reward_protocols import GRADE_PATH, Reward, RewardRequest
from openrlhf_gtpo.rewards import RewardClient, RewardClientSettings, RewardError
from openrlhf_gtpo.settings import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE, SettingsError, reward_token

__all__ = ["check_rewards", "probe_rewards", "says_verdicts"]

CONNECT_SECONDS = 5.0
PROBE_SECONDS = 15.0
"""For the answer to two completions, before a run."""
QUESTION, REFERENCE = "What is 6 times 7?", "42"
RIGHT, WRONG = (f"6 times 7 is \\boxed{{{answer}}}." for answer in (42, 41))


def check_rewards(
    urls: tuple[str, ...], cleanup: contextlib.ExitStack
) -> tuple[list[Finding], RewardClientSettings | None]:
    """One finding for each URL; without any, the built-in service is started and asked.

    Args:
        urls: where ``--reward_url`` says.
        cleanup: stops the built-in service when it is closed.

    Returns:
        The findings, and how to ask a service that grades as it should, if possible one that gives verdicts; None if
        there is no such.
    """
    if not urls:
        return _embedded(cleanup)
    findings, working = [], None
    source = TOKEN_FILE_VARIABLE if os.environ.get(TOKEN_FILE_VARIABLE) else TOKEN_VARIABLE
    try:
        token = reward_token()
    except SettingsError as error:
        return [fault("reward token", str(error))], None
    for url in urls:
        try:
            settings = RewardClientSettings((url,), token=token, deadline=0.0)
        except ValueError as error:  # the URL was looked at before
            findings.append(fault(f"reward {url}", f"{source} cannot be used ({reason(error)}): set it anew."))
            continue
        found = _round_trip(f"reward {url}", settings)
        findings.append(found)
        if found.state == "ok" and (working is None or (says_verdicts(url) and not says_verdicts(working.urls[0]))):
            working = settings
    return findings, working


def probe_rewards(urls: Sequence[str], seconds: float = PROBE_SECONDS) -> tuple[list[str], list[str]]:
    """What training asks before it starts anything: a round trip to each URL, with the token of the environment.

    Args:
        urls: as `RewardClientSettings` takes them; none asks nothing.
        seconds: after which an answer is not waited for any longer.

    Returns:
        Sentences, each with its URL, for which no run can get a reward: nobody answers, or the token is refused. And
        sentences of services that answer, but not as one that grades mathematics does.
    """
    unanswered: list[str] = []
    others: list[str] = []
    try:
        token = reward_token()
    except SettingsError as error:
        return ([str(error)] if urls else []), []
    for url in urls:
        try:
            settings = RewardClientSettings((url,), token=token, deadline=0.0, timeout=seconds)
        except ValueError as error:
            unanswered.append(f"{url}: {error}.")
            continue
        try:
            right, wrong, _ = asyncio.run(_ask(settings))
        except RewardError as error:
            unanswered.append(f"{url}: {_what_to_do(settings, error)}")
            continue
        if fault_found := _wrong_score(right, wrong):
            others.append(f"{url}: {fault_found}")
    return unanswered, others


def says_verdicts(url: str) -> bool:
    """Whether a URL speaks the protocol of the project's own service, as the client decides it."""
    path = urlsplit(url).path.rstrip("/")
    return not path or path.endswith(GRADE_PATH)


def _embedded(cleanup: contextlib.ExitStack) -> tuple[list[Finding], RewardClientSettings | None]:
    name = "reward service"
    try:
        service = cleanup.enter_context(start_embedded_service(workers=1))
    except EmbeddedServiceError as error:
        return [fault(name, str(error))], None
    settings = RewardClientSettings((service.url,), token=service.token, deadline=0.0)
    found = _round_trip(name, settings)
    return [found], settings if found.state == "ok" else None


def _round_trip(name: str, settings: RewardClientSettings) -> Finding:
    try:
        right, wrong, seconds = asyncio.run(_ask(settings))
    except RewardError as error:
        return fault(name, _what_to_do(settings, error))
    if wrong_score := _wrong_score(right, wrong):
        return fault(name, wrong_score)
    graded = f"It gave a right answer {right.reward:g} and a wrong one {wrong.reward:g}, in {seconds * 1e3:.0f} ms"
    return ok(name, f"{graded} for both in one request.")


def _wrong_score(right: Reward, wrong: Reward) -> str | None:
    """A sentence where the known answers did not get the scores that they deserve."""
    for answer, reward, wanted in (("right", right, 1.0), ("wrong", wrong, 0.0)):
        # Some servers give -1 for a wrong answer, which training takes too.
        if reward.score != wanted and not (wanted == 0.0 and reward.score == -1.0):
            return (
                f"It gave a {answer} answer the score {reward.score:g} instead of {wanted:g}, and GTPO needs verified "
                "correctness: ask a service that grades, such as `math-reward serve`."
            )
    return None


async def _ask(settings: RewardClientSettings) -> tuple[Reward, Reward, float]:
    """The rewards of the right and of the wrong answer, and the seconds that both took in one request."""
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
        return right, wrong, seconds
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
        return f"Nothing listens on {where}: start the service there by `math-reward serve`, or mend the URL."
    except socket.gaierror:
        return f"The host name {host} is not known here: mend the URL or the name service."
    except OSError as problem:
        return f"{host} cannot be reached on port {port} ({reason(problem)}): mend the URL or the firewall."
    said = str(error).rstrip(".")
    return f"{said}." if "check " in said else f"{said}: check its log."
