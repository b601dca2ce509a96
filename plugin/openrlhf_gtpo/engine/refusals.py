"""What an engine with the hook cannot do is refused where vLLM reads settings and requests, in one sentence each."""

from collections.abc import Callable
from typing import Any

from openrlhf_gtpo.engine.hook import MARK, EntropyHookError, refuse_raw, version_found, wrap
from openrlhf_gtpo.engine.versions import INSTALL_TESTED


def install() -> None:
    """Prepare this process. Calling it again changes nothing.

    Raises:
        EntropyHookError: this vLLM has other names.
    """
    from vllm.engine.arg_utils import EngineArgs

    if getattr(EngineArgs, MARK, False):
        return
    try:
        from vllm.entrypoints.generate.beam_search.offline import BeamSearchOfflineMixin
        from vllm.entrypoints.generate.beam_search.online import BeamSearchOnlineMixin

        for beams in (BeamSearchOnlineMixin, BeamSearchOfflineMixin):
            wrap(beams, beam_search=_refused)
        wrap(EngineArgs, create_engine_config=_without_raw_modes)
        setattr(EngineArgs, MARK, True)
    except (ImportError, AttributeError) as error:
        raise EntropyHookError(
            f"What entropies cannot go with cannot be refused in vLLM {version_found()} ({error}): {INSTALL_TESTED}."
        ) from error


def _without_raw_modes(create: Callable[..., Any]) -> Callable[..., Any]:
    def hooked(self: Any, *args: Any, **kwargs: Any) -> Any:
        refuse_raw(self.logprobs_mode)
        return create(self, *args, **kwargs)

    return hooked


def _refused(search: Callable[..., Any]) -> Callable[..., Any]:
    def hooked(*args: Any, **kwargs: Any) -> Any:
        # A ValueError is HTTP 400 with this text.
        raise ValueError(
            "Beam search adds log-probabilities up, and in this engine one of them is an entropy: use another engine, "
            "without OPENRLHF_GTPO_ENTROPY=1."
        )

    return hooked
