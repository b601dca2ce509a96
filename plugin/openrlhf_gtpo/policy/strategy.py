"""Runs in the driver, the controller and the training actors: OpenRLHF's strategy with a shorter log.

Before the first step, OpenRLHF's strategy prints all flags and the layers of every model, hundreds of lines. The flags
are in run.json, and a model's layers in its config.json."""

from typing import Any

from openrlhf.utils.deepspeed.deepspeed import DeepspeedStrategy

from openrlhf_gtpo.openrlhf_internals import rebuilt_as


class Strategy(DeepspeedStrategy):
    """OpenRLHF's strategy, which prints texts but no objects. It is pickled to the actors."""

    def print(self, *msg: Any) -> None:
        """As OpenRLHF's, if all parts are texts."""
        if all(isinstance(part, str) for part in msg):
            super().print(*msg)


def with_few_words(get_strategy: Any) -> Any:
    """OpenRLHF's ``get_strategy``, changed to return a `Strategy`."""
    return lambda args: rebuilt_as(Strategy, get_strategy(args))
