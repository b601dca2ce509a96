"""One message a request from vLLM's EngineCore, where vLLM sends one a token.

Whoever asks for a request's final output alone, as a rollout does, has no use for its tokens one by one. Yet vLLM
encodes, sends and decodes each token with its log-probabilities, and the front-end, the process that asks, appends
them to lists: 4 and 15 µs of host time a token. Here the EngineCore keeps them until the request ends.

    vllm.LLM(model=..., **engine_kwargs(), **one_message.switch_on())

* `scheduler`: keeps a request's tokens and rows of log-probabilities (in the EngineCore)
* `kept_rows`: the rows, in arrays
* `front_end`: takes a response's rows as they came, and asks for what was kept before it aborts a request
* `vllm_internals`: every internal of vLLM that these use

The scheduler's interface is not a public one of vLLM. So each process checks what it uses at the start; where a vLLM
does not fit, everything stays as vLLM does it, and one line in the log says so.
"""

import logging
from typing import Any

__all__ = ["SCHEDULER", "switch_on"]

logger = logging.getLogger(__name__)

SCHEDULER = "openrlhf_gtpo.engine.one_message.scheduler.OneMessageScheduler"


def switch_on() -> dict[str, Any]:
    """Prepare this process to be the front-end of an engine that sends one message a request.

    Returns:
        An argument of the engine besides those of `openrlhf_gtpo.vllm_entropy.engine_kwargs`: ``vllm.LLM``,
        ``vllm.EngineArgs`` or ``vllm.AsyncEngineArgs``. Empty where the installed vLLM does not fit.
    """
    from openrlhf_gtpo.engine.one_message import front_end, vllm_internals

    misfit = vllm_internals.misfit()
    if misfit is not None:
        logger.warning("vLLM sends one message a token, not one a request: %s.", misfit)
        return {}
    front_end.install()
    return {"scheduler_cls": SCHEDULER}
