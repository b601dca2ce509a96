"""vLLM's plugin: an entry point of the group ``vllm.general_plugins`` that puts the entropy hook into any vLLM.

    OPENRLHF_GTPO_ENTROPY=1 python -m vllm.entrypoints.openai.api_server --logprobs-mode processed_logprobs ...

vLLM calls `install` in each of its processes: the one that reads settings and requests, the engine and its workers.
``worker_extension_cls`` stays free for whoever uses vLLM. A plugin that cannot be imported is only logged by vLLM, one
that raises when it is called ends the process. So this module imports nothing that could fail.
"""

import os

VARIABLE = "OPENRLHF_GTPO_ENTROPY"
"""Of the environment: 1 switches the hook on."""

COPIED_BY_RAY = "VLLM_RAY_EXTRA_ENV_VARS_TO_COPY"
"""vLLM's list of further variables that its workers on other nodes get."""


def install() -> None:
    """Hook the samplers of this process, if `VARIABLE` is 1.

    Raises:
        EntropyHookError: the variable has another value, or this vLLM does not fit.
    """
    value = os.environ.get(VARIABLE, "")
    if value in ("", "0"):
        return
    from openrlhf_gtpo.engine import hook

    if value != "1":
        raise hook.EntropyHookError(f"{VARIABLE} is {value!r}: set it to 1 for entropies, or to 0.")
    hook.install()
    copied = [name for name in os.environ.get(COPIED_BY_RAY, "").split(",") if name.strip()]
    if VARIABLE not in copied:
        os.environ[COPIED_BY_RAY] = ",".join([*copied, VARIABLE])
