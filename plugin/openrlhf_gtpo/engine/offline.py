"""vLLM without a server, for a piece of work in this process."""

import contextlib
import gc
from collections.abc import Iterator
from typing import Any

from openrlhf_gtpo.vllm_entropy import check_hook, engine_kwargs


@contextlib.contextmanager
def offline_engine(**arguments: Any) -> Iterator[Any]:
    """A ``vllm.LLM`` with the entropy hook. It ends with the context: one that lasts until the interpreter ends keeps
    Triton's objects, of which nanobind then says in forty lines that they leaked.

    Args:
        arguments: of ``vllm.LLM``.

    Raises:
        EntropyMissing: a worker has no hook.
    """
    import vllm

    llm = vllm.LLM(**arguments, **engine_kwargs())
    try:
        check_hook(llm.collective_rpc("entropy_hook_report"))
        yield llm
    finally:
        llm.llm_engine.engine_core.shutdown()
        del llm
        gc.collect()
