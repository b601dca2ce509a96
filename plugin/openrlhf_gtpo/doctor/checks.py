"""Every check, in the order in which they are shown; none of them raises."""

import contextlib
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openrlhf_gtpo.data import checks as dataset
from openrlhf_gtpo.data import tokenizer
from openrlhf_gtpo.data.findings import Finding, fault, reason, skipped
from openrlhf_gtpo.doctor import hook, machine, packages, reward, room
from openrlhf_gtpo.rewards.protocols import GRADE_PATH

__all__ = ["Question", "examine"]


@dataclass(frozen=True)
class Question:
    """What is to be examined, as the command line says; None is not given."""

    model: str | None = None
    data: Path | None = None
    input_key: str = "input"
    label_key: str = "label"
    max_len: int | None = None
    max_new_tokens: int | None = None
    reward_urls: tuple[str, ...] = ()
    out: Path | None = None
    device: str = "auto"
    """``auto``, ``cpu`` or ``gpu``, as asked for."""
    takes: str = "cpu"
    """``cpu`` or ``gpu``, as training would take it."""
    gpus: int | None = None
    """That train; None is as many as there are here."""
    ray_address: str | None = None
    engine: bool = False


def examine(asked: Question) -> Iterator[Finding]:
    """The findings, one check after the other. Whatever a check raises becomes a fault."""
    yield from _guarded("Python", packages.check_python)
    yield from _guarded("OpenRLHF", packages.check_openrlhf)
    yield from _guarded("vLLM", packages.check_vllm, asked.takes)
    for name in ("torch", "ray", "deepspeed", "transformers"):
        yield from _guarded(name, packages.check_package, name)
    if asked.takes == "gpu":
        yield from _guarded("flash-attn", packages.check_flash_attn)
    yield from _guarded("GPU", machine.check_gpu, asked.device, asked.ray_address)
    yield from _guarded("memory", room.check_memory, asked.model, asked.takes, asked.gpus, asked.max_len)
    yield from _guarded("entropy hook", hook.check_hook)
    yield from _guarded("vLLM engine", hook.check_engine, asked.model, asked.takes, asked.engine)
    yield from _guarded("Ray", machine.check_ray, asked.ray_address, asked.takes)
    yield from _guarded("disk", machine.check_disk, asked.out, asked.model)
    with contextlib.ExitStack() as cleanup:
        yield from _service_and_data(asked, cleanup)


def _service_and_data(asked: Question, cleanup: contextlib.ExitStack) -> Iterator[Finding]:
    """What needs a model's tokenizer or a reward service."""
    service: Any = None

    def rewards() -> list[Finding]:
        nonlocal service
        findings, service = reward.check_rewards(asked.reward_urls, cleanup)
        return findings

    yield from _guarded("reward service", rewards)
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
                "its tokenizer, or the id of one that is in the cache of the Hugging Face hub.",
            )
        return tokenizer.check_template(loaded, asked.model)

    yield from _guarded("chat template", template)
    if asked.data is None:
        yield from dataset.all_skipped(dataset.NAMES, "give --data")
        return
    yield from _data(asked, asked.data, loaded, service)


def _data(asked: Question, path: Path, loaded: Any, service: Any) -> Iterator[Finding]:
    found: Any = None
    rows: Any = None

    def form() -> Finding:
        nonlocal found, rows
        finding, found = dataset.check_rows(path, asked.input_key, asked.label_key)
        if found is not None:
            rows = dataset.sample(path, found, asked.input_key, asked.label_key)
        return finding

    yield from _guarded(dataset.ROWS, form)
    if rows is None:
        yield from dataset.all_skipped(dataset.NAMES[1:], f"{path} could not be read")
        return
    yield from _guarded(dataset.LABELS, dataset.check_labels, path, found, asked.label_key)
    if not rows:
        yield from dataset.all_skipped(dataset.NAMES[2:], "no row has both a prompt and a label")
        return
    yield from _guarded(dataset.REPEATS, dataset.check_repeats, path, found)
    if asked.model is None or asked.max_len is None:
        missing = " and ".join(
            flag for flag, value in (("--model", asked.model), ("--max_len", asked.max_len)) if value is None
        )
        yield skipped(dataset.LENGTHS, f"Not checked: give {missing}.")
    elif loaded is None:
        yield skipped(dataset.LENGTHS, "Not checked: there is no tokenizer, see the line about the chat template.")
    else:
        yield from _guarded(
            dataset.LENGTHS,
            dataset.check_lengths,
            *(path, found, rows, loaded, asked.max_len, asked.max_new_tokens),
        )
    if service is None:
        yield skipped(dataset.REFERENCES, "Not checked: no reward service grades, see the line about it.")
    elif not reward.says_verdicts(service.urls[0]):
        yield skipped(
            dataset.REFERENCES,
            "Not checked: OpenRLHF's protocol has no word for a bad reference, so give the URL of a service that "
            f"ends in {GRADE_PATH}.",
        )
    else:
        yield from _guarded(dataset.REFERENCES, dataset.check_references, path, found, rows, service)


def _guarded(name: str, check: Callable[..., Finding | list[Finding]], *arguments: Any) -> list[Finding]:
    """What a check finds; an exception that nobody thought of is a fault with a sentence, too."""
    try:
        found = check(*arguments)
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        return [
            fault(
                name,
                f"The check itself failed ({type(error).__name__}: {reason(error)}, in {Path(at.filename).name}, line "
                f"{at.lineno}): mend what it names, or report it.",
            )
        ]
    return [found] if isinstance(found, Finding) else found
