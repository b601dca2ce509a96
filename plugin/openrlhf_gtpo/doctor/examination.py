"""All checks in the order in which the doctor shows them. None raises."""

import contextlib
import queue
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from math_reward.client.settings import GRADE_PATH, speaks_grade
from openrlhf_gtpo.checks import data, files, flags, hook, machine, packages, services
from openrlhf_gtpo.checks.findings import Finding, fault, ok, skipped
from openrlhf_gtpo.data import tokenizer
from openrlhf_gtpo.errors import reason
from openrlhf_gtpo.settings import Settings


@dataclass(frozen=True)
class Question:
    """What the doctor is asked."""

    settings: Settings | None
    """Of the training command; None where it cannot be read, without OpenRLHF."""
    whole: bool = True
    """Whether it is a whole training command, with a policy and prompts."""
    of_the_platform: Callable[[Settings], list[str]] = lambda settings: []
    """As `flags.check_flags` takes it."""
    device: str = "auto"
    """``auto``, ``cpu`` or ``gpu``, as given."""
    takes: str = "cpu"
    """``cpu`` or ``gpu``, as training would choose."""
    ray_address: str | None = None
    cluster: machine.Cluster | None = None
    """The cluster at that address, if it was asked before."""
    engine: bool = False
    vllm_url: str | None = None
    """Of a running vLLM server."""


Announce = Callable[[str, str, float], None]
"""Called before a slow check with its name, what it waits for, and its timeout in seconds."""

MOMENT = 30.0
"""Timeout in seconds of a check that waits for nothing."""
MARGIN = 30.0
"""Seconds added to the time limit that a check has itself."""
FILE_SECONDS = 900.0
"""Timeout for reading every row of a large file on a slow disk."""
HUB_SECONDS = 300.0
"""Timeout for a tokenizer that may have to be downloaded."""
SERVICE_SECONDS = 120.0
"""Timeout for the start of the built-in reward service, or for each service that is named."""
IMPORTS = packages.IMPORT_SECONDS + MARGIN


def examine(asked: Question, announce: Announce = lambda *_: None) -> Iterator[Finding]:
    """The findings, one check after the other. A check that raises or exceeds its timeout becomes a fault."""
    look = _Look(announce)
    yield from look("Python", MOMENT, "", packages.check_python)
    yield from look("OpenRLHF", IMPORTS, "importing it and what it needs", packages.check_openrlhf)
    yield from look("vLLM", MOMENT, "", packages.check_vllm, asked.takes)
    for name in ("torch", "ray", "deepspeed", "transformers"):
        yield from look(name, MOMENT, "", packages.check_package, name)
    if asked.takes == "gpu":
        yield from look("flash-attn", MOMENT, "", packages.check_flash_attn)
        yield from look("compiler", IMPORTS, "importing torch", machine.check_compiler)
    yield from look("GPU", IMPORTS, "asking torch", machine.check_gpu, asked.device, asked.ray_address)
    yield from look("entropy hook", IMPORTS, "importing vLLM", hook.check_hook)
    yield from look("entropy plugin", MOMENT, "", hook.check_plugin)
    if asked.vllm_url:
        seconds = hook.SERVED_SECONDS + MARGIN
        yield from look("vLLM server", seconds, f"asking {asked.vllm_url}", hook.check_served, asked.vllm_url)
    waits = "importing it" + (f", then joining {asked.ray_address}" if asked.ray_address and not asked.cluster else "")
    seconds = 2 * machine.RAY_SECONDS + MARGIN
    yield from look("Ray", seconds, waits, machine.check_ray, asked.ray_address, asked.takes, asked.cluster)
    if asked.settings is None:
        yield skipped("flags", "Not checked: the training command cannot be read without OpenRLHF.")
        return
    with contextlib.ExitStack() as cleanup:
        yield from _of_the_command(asked, asked.settings, look, cleanup)


def _of_the_command(
    asked: Question, settings: Settings, look: "_Look", cleanup: contextlib.ExitStack
) -> Iterator[Finding]:
    """The checks of what the training command says."""
    model, service = settings.flags["actor.model_name_or_path"], None

    def of_flags() -> list[Finding]:
        findings = flags.check_flags(settings, asked.of_the_platform)
        return findings or [ok("flags", "OpenRLHF and the plugin take all of them.")]

    def of_files() -> list[Finding]:
        findings = [*files.check_named(settings, asked.whole), *files.check_contents(settings)]
        return findings or [ok("files", "Every model, data set and program that is named is there, or is a hub id.")]

    def rewards() -> list[Finding]:
        nonlocal service
        findings, service = services.check_rewards(settings, cleanup)
        return findings

    def policys_tokenizer() -> Any:
        try:
            return tokenizer.load(model)
        except Exception:  # of which the check of the chat template tells
            return None

    yield from look("flags", IMPORTS, "", of_flags)
    yield from look("files", IMPORTS, "", of_files)
    yield from look("positions", IMPORTS, "", files.check_positions, settings)
    yield from look("memory", IMPORTS, "", machine.check_memory, settings)
    sampling = f"sampling with {model}" if asked.engine and model else ""
    seconds = 2 * hook.ENGINE_SECONDS + MARGIN
    yield from look("vLLM engine", seconds, sampling, hook.check_engine, model, asked.takes, asked.engine)
    yield from look("disk", MOMENT, "", machine.check_disk, settings)
    urls = settings.service_urls or ()
    waits = f"asking {' and '.join(urls) or 'the built-in one'} for two verdicts"
    yield from look("reward service", SERVICE_SECONDS * max(1, len(urls)), waits, rewards)
    waits = f"loading the tokenizer of {model}" if model else ""
    yield from look("chat template", HUB_SECONDS, waits, files.check_template, settings)
    waits = f"reading {settings.flags['data.prompt_dataset']}" if settings.flags["data.prompt_dataset"] else ""
    yield from look("data", FILE_SECONDS + HUB_SECONDS, waits, data.check_data, settings, policys_tokenizer)
    yield from look(data.ANSWERS, FILE_SECONDS, "", data.check_answers, settings)
    if service is None:
        yield skipped(data.REFERENCES, "Not checked: no reward service grades, see the line about it.")
    elif not speaks_grade(service.urls[0]):
        yield skipped(
            data.REFERENCES,
            "Not checked: OpenRLHF's protocol cannot report a bad reference, so give the URL of a service that "
            f"ends in {GRADE_PATH}.",
        )
    else:
        seconds = data.GRADING_SECONDS + MARGIN
        yield from look(data.REFERENCES, seconds, "having them graded", data.check_references, settings, service)


class _Look:
    """Runs a check with a timeout."""

    def __init__(self, announce: Announce) -> None:
        self.announce = announce

    def __call__(
        self, name: str, seconds: float, waits: str, check: Callable[..., Finding | Iterable[Finding]], *arguments: Any
    ) -> list[Finding]:
        """The findings of a check. An exception becomes a fault with one sentence.

        Args:
            name: of the check.
            seconds: timeout, after which its thread is left running.
            waits: what the check waits for; "" if for nothing.
            check: called with ``arguments``.
            arguments: of the check.
        """
        if waits:
            self.announce(name, waits, seconds)
        answer: queue.SimpleQueue[list[Finding] | Exception] = queue.SimpleQueue()

        def run() -> None:
            try:
                outcome = check(*arguments)
                answer.put([outcome] if isinstance(outcome, Finding) else list(outcome))
            except Exception as error:
                answer.put(error)

        threading.Thread(target=run, name=name, daemon=True).start()
        try:
            outcome = answer.get(timeout=seconds)
        except queue.Empty:
            doing = f" ({waits})" if waits else ""
            return [fault(name, f"The check did not end within {seconds:g} s{doing}: see what it waits for.")]
        if isinstance(outcome, Exception):
            at = traceback.extract_tb(outcome.__traceback__)[-1]
            return [
                fault(
                    name,
                    f"The check itself failed ({type(outcome).__name__}: {reason(outcome)}, in "
                    f"{Path(at.filename).name}, line {at.lineno}): fix what it names, or report it.",
                )
            ]
        return outcome
