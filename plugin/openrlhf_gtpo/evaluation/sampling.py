"""Samples responses with vLLM, with the entropy of every token; on a GPU or on the CPU."""

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from openrlhf_gtpo.engine import one_message
from openrlhf_gtpo.seeds import derived
from openrlhf_gtpo.vllm_entropy import check_hook, engine_kwargs, entropies, sampling_kwargs


@dataclass(frozen=True)
class SamplingSettings:
    """How to sample; temperature 0 is greedy."""

    n: int
    temperature: float
    top_p: float
    max_new_tokens: int
    seed: int
    param_dtype: str = "auto"
    """``bf16`` or ``fp32``; ``auto`` is what the model was saved in, on a CPU what training takes there."""


@dataclass(frozen=True)
class Sample:
    """One response as it was sampled."""

    text: str
    tokens: int
    entropy: float
    """Mean over its tokens, nats; 0 for an empty response."""
    truncated: bool


class Sampler:
    """A vLLM engine with the entropy hook.

    Args:
        model: folder or hub id.
        device: ``cpu`` or ``gpu``.
        tensor_parallel_size: GPUs of the engine.
    """

    def __init__(self, model: str, settings: SamplingSettings, device: str, tensor_parallel_size: int) -> None:
        engine: dict[str, Any] = {"tensor_parallel_size": tensor_parallel_size}
        if device == "cpu":
            from openrlhf_gtpo.cpu.platform import prepare_process

            prepare_process()
        import vllm

        from openrlhf_gtpo.cpu.precision import param_dtype, vllm_dtype

        if device == "cpu":
            # In the precision of training's rollouts and eager as they are: what is measured is what was trained.
            engine |= {"dtype": vllm_dtype(param_dtype(settings.param_dtype)), "enforce_eager": True}
        elif settings.param_dtype != "auto":
            engine["dtype"] = vllm_dtype(settings.param_dtype)

        self._settings = settings
        self._llm = vllm.LLM(model=model, seed=settings.seed, **engine, **engine_kwargs(), **one_message.switch_on())
        check_hook(self._llm.collective_rpc("entropy_hook_report"))
        self._parameters = vllm.SamplingParams(
            n=settings.n,
            temperature=settings.temperature,
            top_p=settings.top_p,
            max_tokens=settings.max_new_tokens,
            **sampling_kwargs(),
        )

    def __enter__(self) -> "Sampler":
        return self

    def __exit__(self, *_: object) -> None:
        """End the engine. One that lasts until the interpreter ends keeps Triton's objects, of which nanobind then
        says in forty lines that they leaked."""
        self._llm.llm_engine.engine_core.shutdown()
        del self._llm
        gc.collect()

    def sample(self, chats: Sequence[Sequence[dict[str, str]]], numbers: Sequence[int]) -> list[list[Sample]]:
        """n responses to each chat, by the model's chat template.

        Args:
            chats: messages each.
            numbers: each chat's number in its benchmark; with the seed it decides its random numbers, so that an
                evaluation that was interrupted goes on as it would have.
        """
        parameters = []
        for number in numbers:
            mine = self._parameters.clone()
            mine.seed = derived(self._settings.seed, "eval", number)  # vLLM adds a response's place in its group
            parameters.append(mine)
        outputs = self._llm.chat([list(chat) for chat in chats], parameters, use_tqdm=False)
        return [[_sample(completion) for completion in output.outputs] for output in outputs]


def _sample(completion: Any) -> Sample:
    values = entropies(completion)
    return Sample(
        text=completion.text,
        tokens=len(values),
        entropy=sum(values) / len(values) if values else 0.0,
        truncated=completion.finish_reason == "length",
    )
