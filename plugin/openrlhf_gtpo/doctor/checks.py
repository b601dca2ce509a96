"""All checks of the doctor, in the order in which they are shown. None raises."""

import contextlib
import queue
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from math_reward.client.settings import GRADE_PATH, speaks_grade
from openrlhf_gtpo.data import checks as dataset
from openrlhf_gtpo.data import tokenizer
from openrlhf_gtpo.data.findings import Finding, fault, skipped
from openrlhf_gtpo.doctor import hook, machine, packages, reward, room
from openrlhf_gtpo.errors import reason

__all__ = ["Announce", "Question", "examine"]


@dataclass(frozen=True)
class Question:
    """The command line of the doctor; None for a flag that was not given."""

    model: str | None = None
    data: Path | None = None
    input_key: str = "input"
    label_key: str = "label"
    max_len: int | None = None
    max_new_tokens: int | None = None
    reward_urls: tuple[str, ...] = ()
    out: Path | None = None
    device: str = "auto"
    """``auto``, ``cpu`` or ``gpu``, as given."""
    takes: str = "cpu"
    """``cpu`` or ``gpu``, as training would choose."""
    gpus: int | None = None
    """GPUs that train; None for all of this machine."""
    ray_address: str | None = None
    cluster: machine.Cluster | None = None
    """The cluster at that address, if it was asked before."""
    engine: bool = False


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


def examine(asked: Question, announce: Announce = lambda *_: None) -> Iterator[Finding]:
    """The findings, one check after the other. A check that raises or exceeds its timeout becomes a fault."""
    look = _Look(announce)
    imports = packages.IMPORT_SECONDS + MARGIN
    yield from look("Python", MOMENT, "", packages.check_python)
    yield from look("OpenRLHF", imports, "importing it and what it needs", packages.check_openrlhf)
    yield from look("vLLM", MOMENT, "", packages.check_vllm, asked.takes)
    for name in ("torch", "ray", "deepspeed", "transformers"):
        yield from look(name, MOMENT, "", packages.check_package, name)
    if asked.takes == "gpu":
        yield from look("flash-attn", MOMENT, "", packages.check_flash_attn)
        yield from look("compiler", imports, "importing torch", machine.check_compiler)
    yield from look("GPU", imports, "asking torch", machine.check_gpu, asked.device, asked.ray_address)
    yield from look("positions", imports, "", room.check_positions, asked.model, asked.max_len)
    yield from look("memory", imports, "", room.check_memory, asked.model, asked.takes, asked.gpus, asked.max_len)
    yield from look("entropy hook", imports, "importing vLLM", hook.check_hook)
    sampling = f"sampling with {asked.model}" if asked.engine and asked.model else ""
    seconds = 2 * hook.ENGINE_SECONDS + MARGIN
    yield from look("vLLM engine", seconds, sampling, hook.check_engine, asked.model, asked.takes, asked.engine)
    waits = "importing it" + (f", then joining {asked.ray_address}" if asked.ray_address and not asked.cluster else "")
    seconds = 2 * machine.RAY_SECONDS + MARGIN
    yield from look("Ray", seconds, waits, machine.check_ray, asked.ray_address, asked.takes, asked.cluster)
    yield from look("disk", MOMENT, "", machine.check_disk, asked.out, asked.model)
    with contextlib.ExitStack() as cleanup:
        yield from _service_and_data(asked, cleanup, look)


def _service_and_data(asked: Question, cleanup: contextlib.ExitStack, look: "_Look") -> Iterator[Finding]:
    """The checks that need a model's tokenizer or a reward service."""
    service: Any = None

    def rewards() -> list[Finding]:
        nonlocal service
        findings, service = reward.check_rewards(asked.reward_urls, cleanup)
        return findings

    waits = " and ".join(asked.reward_urls) or "the built-in one"
    seconds = SERVICE_SECONDS * max(1, len(asked.reward_urls))
    yield from look("reward service", seconds, f"asking {waits} for two verdicts", rewards)
    loaded: Any = None

    def template() -> Finding:
        nonlocal loaded
        if asked.model is None:
            return skipped("chat template", "Not checked: give --model.")
        try:
            loaded = tokenizer.load(asked.model)
        except Exception as error:  # transformers raises many kinds
            return fault(
                "chat template",
                f"The tokenizer of {asked.model} cannot be loaded ({reason(error)}): give a folder with the model and "
                "its tokenizer, or the id of a model in the Hugging Face cache.",
            )
        return tokenizer.check_template(loaded, asked.model)

    waits = f"loading the tokenizer of {asked.model}" if asked.model else ""
    yield from look("chat template", HUB_SECONDS, waits, template)
    if asked.data is None:
        yield from dataset.all_skipped(dataset.NAMES, "give --data")
        return
    yield from _data(asked, asked.data, loaded, service, look)


def _data(asked: Question, path: Path, loaded: Any, service: Any, look: "_Look") -> Iterator[Finding]:
    found: Any = None
    rows: Any = None

    def form() -> Finding:
        nonlocal found, rows
        finding, found = dataset.check_rows(path, asked.input_key, asked.label_key)
        if found is not None:
            rows = dataset.sample(path, found, asked.input_key, asked.label_key)
        return finding

    yield from look(dataset.ROWS, FILE_SECONDS, f"reading {path}", form)
    if rows is None:
        yield from dataset.all_skipped(dataset.NAMES[1:], f"{path} could not be read")
        return
    yield from look(dataset.LABELS, MOMENT, "", dataset.check_labels, path, found, asked.label_key)
    if not rows:
        yield from dataset.all_skipped(dataset.NAMES[2:], "no row has both a prompt and a label")
        return
    yield from look(dataset.REPEATS, MOMENT, "", dataset.check_repeats, path, found)
    if asked.model is None or asked.max_len is None:
        missing = " and ".join(
            flag for flag, value in (("--model", asked.model), ("--max_len", asked.max_len)) if value is None
        )
        yield skipped(dataset.LENGTHS, f"Not checked: give {missing}.")
    elif loaded is None:
        yield skipped(dataset.LENGTHS, "Not checked: there is no tokenizer, see the line about the chat template.")
    else:
        yield from look(
            dataset.LENGTHS,
            HUB_SECONDS,
            f"tokenizing {len(rows):,} prompts",
            dataset.check_lengths,
            *(path, found, rows, loaded, asked.max_len, asked.max_new_tokens),
        )
    if service is None:
        yield skipped(dataset.REFERENCES, "Not checked: no reward service grades, see the line about it.")
    elif not speaks_grade(service.urls[0]):
        yield skipped(
            dataset.REFERENCES,
            "Not checked: OpenRLHF's protocol cannot report a bad reference, so give the URL of a service that "
            f"ends in {GRADE_PATH}.",
        )
    else:
        seconds = dataset.GRADING_SECONDS + MARGIN
        waits = f"having {len(rows):,} references graded"
        yield from look(dataset.REFERENCES, seconds, waits, dataset.check_references, path, found, rows, service)


class _Look:
    """Runs a check with a timeout."""

    def __init__(self, announce: Announce) -> None:
        self.announce = announce

    def __call__(
        self, name: str, seconds: float, waits: str, check: Callable[..., Finding | list[Finding]], *arguments: Any
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
        answer: queue.SimpleQueue[Finding | list[Finding] | Exception] = queue.SimpleQueue()

        def run() -> None:
            try:
                answer.put(check(*arguments))
            except Exception as error:
                answer.put(error)

        threading.Thread(target=run, name=name, daemon=True).start()
        try:
            found = answer.get(timeout=seconds)
        except queue.Empty:
            doing = f" ({waits})" if waits else ""
            return [fault(name, f"The check did not end within {seconds:g} s{doing}: see what it waits for.")]
        if isinstance(found, Exception):
            at = traceback.extract_tb(found.__traceback__)[-1]
            return [
                fault(
                    name,
                    f"The check itself failed ({type(found).__name__}: {reason(found)}, in {Path(at.filename).name}, "
                    f"line {at.lineno}): fix what it names, or report it.",
                )
            ]
        return [found] if isinstance(found, Finding) else found
