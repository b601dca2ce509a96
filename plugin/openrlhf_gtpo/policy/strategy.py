"""Lives in the driver, the controller and the training actors: OpenRLHF's strategy, which says less.

OpenRLHF's strategy prints all flags and the layers of every model before the first step, hundreds of lines. The flags
are in run.json, and a model's layers in its config.json."""

from typing import Any

from openrlhf.utils.deepspeed.deepspeed import DeepspeedStrategy

from openrlhf_gtpo.openrlhf_internals import rebuilt_as

__all__ = ["Strategy", "with_few_words"]


class Strategy(DeepspeedStrategy):
    """OpenRLHF's, which prints sentences and no objects. It travels to the actors as it is."""

    def print(self, *msg: Any) -> None:
        """As OpenRLHF's, for what is a text."""
        if all(isinstance(part, str) for part in msg):
            super().print(*msg)


def with_few_words(get_strategy: Any) -> Any:
    """OpenRLHF's ``get_strategy``, which returns a `Strategy`."""
    return lambda args: rebuilt_as(Strategy, get_strategy(args))
