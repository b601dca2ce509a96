"""What commands that sample without a trainer have in common: the model that vLLM loads, its engine with the entropy
hook, and the reward service's client."""

import contextlib
import importlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from math_reward.client import Client, ClientError, Item, Result
from math_reward.nearest import beside
from openrlhf_gtpo.data.table import Row
from openrlhf_gtpo.device import choose_device
from openrlhf_gtpo.engine import one_message
from openrlhf_gtpo.engine.offline import offline_engine
from openrlhf_gtpo.errors import SettingsError, UserError, reason
from openrlhf_gtpo.rewards.embedded import start_embedded_service


def say(what: str) -> None:
    """A line of progress."""
    print(f"openrlhf-gtpo: {what}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def reward_client(urls: str | None, flag: str, deadline: float, out: Path) -> Iterator[Client]:
    """The client of the reward services. Without a URL, a built-in service runs as long as the context.

    Args:
        urls: with commas between them.
        flag: that named them, for an error.
        deadline: seconds of retries for one reward.
        out: folder for the built-in service's log.

    Raises:
        SettingsError: a URL cannot be used.
        UserError: the service did not start.
    """
    with contextlib.ExitStack() as stack:
        if urls is None:
            service = stack.enter_context(start_embedded_service(out / "reward_service.log"))
            client = Client(service.url, token=service.token, deadline=deadline)
        else:
            try:
                client = Client([part.strip() for part in urls.split(",")], deadline=deadline, reward_models=True)
            except ValueError as error:
                raise SettingsError(f"{flag}: {error}") from None
        yield stack.enter_context(client)


def question(row: Row) -> str:
    """A prompt as one text."""
    if isinstance(row.prompt, str):
        return row.prompt
    return "\n".join(str(message["content"]) for message in row.prompt)


def graded(client: Client, texts: Sequence[str], table: Sequence[Row], mode: str | None) -> list[Result]:
    """The service's grade of each text, a response to the prompt of its row.

    Raises:
        UserError: one has none.
    """
    how = {"mode": mode} if mode else None
    items = [Item(text, str(row.label), question(row), how) for text, row in zip(texts, table, strict=True)]
    try:
        return [result for result in client.grade_many(items) if isinstance(result, Result)]
    except ClientError as error:
        raise UserError(str(error)) from None


def merged(model: str, out: Path) -> str:
    """The model that an engine loads: the one that is named, or where that is a LoRA adapter, as a run with
    ``--ds.lora.rank`` writes it, ``OUT/merged``, its model with the adapter in the weights."""
    if not Path(model, "adapter_config.json").is_file():
        return model
    from peft import AutoPeftModelForCausalLM
    from transformers import AutoTokenizer

    try:
        whole = AutoPeftModelForCausalLM.from_pretrained(model, dtype="auto").merge_and_unload()
    except Exception as error:  # of peft, transformers and the hub
        raise SettingsError(
            f"--model {model} is a LoRA adapter, and it cannot be merged into its model ({reason(error)}): look at "
            "base_model_name_or_path in its adapter_config.json."
        ) from None
    whole.save_pretrained(out / "merged")
    AutoTokenizer.from_pretrained(model).save_pretrained(out / "merged")
    say(f"{model} is a LoRA adapter; with its model it is in {out / 'merged'}")
    return str(out / "merged")


def engine(model: str, device: str, seed: int, **arguments: Any) -> contextlib.AbstractContextManager[Any]:
    """A ``vllm.LLM`` with the entropy hook.

    Args:
        model: a folder or a hub id.
        device: cpu, gpu or auto.
        seed: of vLLM's own state.
        arguments: of ``vllm.LLM``.

    Raises:
        SettingsError: there is no such model.
    """
    from transformers import PretrainedConfig

    try:
        PretrainedConfig.get_config_dict(model)
    except OSError as error:
        raise SettingsError(f"--model {model} cannot be loaded ({reason(error)}){beside(model)}.") from None
    if choose_device(device) == "cpu":
        # In the precision of training's rollouts and eager as they are: what is measured is what was trained.
        arguments |= importlib.import_module("openrlhf_gtpo.cpu.platform").engine_on_a_cpu(model)
    say("starting vLLM")
    return offline_engine(model=model, seed=seed, **arguments, **one_message.switch_on())
