"""The reward services that a command line names: each is sent a right and a wrong answer, by the protocol of
training."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from math_reward.client import Client, ClientError, Item, Result, Settings
from openrlhf_gtpo.checks import Finding
from openrlhf_gtpo.flags import service_urls
from openrlhf_gtpo.rewards.client import sentence

QUESTION, REFERENCE = "What is 6 times 7?", "42"
ITEMS = [Item(f"6 times 7 is \\boxed{{{answer}}}.", REFERENCE, QUESTION) for answer in (42, 41)]
SECONDS = 15.0


def check(flags: Mapping[str, Any]) -> Iterator[Finding]:
    """One finding for each service. One that does not answer is a fault only where none does."""
    urls = service_urls(flags)
    found = [ask(Settings((url,), verify=flags["reward.ca_file"], reward_models=True)) for url in urls]
    some_work = any(finding.state != "fault" for finding in found)
    for finding in found:
        yield replace(finding, state="warning") if some_work and finding.state == "fault" else finding


def ask(settings: Settings) -> Finding:
    """Whether a service, by settings with one URL, tells a right answer from a wrong one."""
    name = f"reward {settings.urls[0]}"
    log = logging.getLogger("math_reward.client")
    level = log.level
    log.setLevel(logging.ERROR)  # it warns that it will try again, which is not so here
    try:
        with Client(**vars(replace(settings, timeout=SECONDS, deadline=0.0))) as client:
            right, wrong = (result for result in client.grade_many(ITEMS) if isinstance(result, Result))
    except ClientError as error:
        said = sentence(error)
        if settings.urls[0] not in said:
            said = f"The reward service {settings.urls[0]} cannot be used: {said}"
        return Finding(name, "fault", said)
    finally:
        log.setLevel(level)
    if right.score != 1 or wrong.score not in (0, -1):
        gave = f"{settings.urls[0]} gave a right answer the score {right.score:g} and a wrong one {wrong.score:g}"
        return Finding(name, "warning", f"{gave}, not 1 and 0: use one that grades, such as `math-reward serve`.")
    return Finding(name, "ok", f"It gave a right answer {right.reward:g} and a wrong one {wrong.reward:g}.")
