"""Makes a response a function of weights, prompt and seed on a CPU, whatever else the engine generates beside it.

vLLM alone stops at the first seed of a request on a CPU, and in bfloat16 the last bits of a row depend on how many
rows are beside it. On a GPU vLLM's own batch invariance does what this module does on a CPU."""

from collections.abc import Callable
from typing import Any

import torch

from openrlhf_gtpo.engine.hook import EntropyHookError, version_found, wrap
from openrlhf_gtpo.engine.versions import INSTALL_TESTED

__all__ = ["DrawGenerator", "install"]

ROWS = 8
"""The fewest rows that a linear layer is given. Kernels for a few rows add up in another order: in bfloat16 up to 4
rows on CPUs with AMX, in float32 up to 3 on CPUs without AVX-512."""

DRAW = 4
"""What vLLM believes one draw of a row's noise adds to a generator's offset."""

_MASK = 2**64 - 1


class DrawGenerator(torch.Generator):
    """A generator whose noise is a function of a seed and the number of the draw, like the counter-based ones on GPUs.

    vLLM draws noise for each row of a batch, also where it does not use it because the prompt is not complete yet. It
    takes such a draw back by an offset, which a CPU's generators do not have.
    """

    draws = 0

    @classmethod
    def like(cls, generator: torch.Generator) -> "DrawGenerator":
        """One with the same seed."""
        new = cls()
        new.seed_of_request = generator.initial_seed()
        return new

    def __init__(self) -> None:
        super().__init__()
        self.seed_of_request = 0

    def next_draw(self) -> None:
        """Begin the noise of the next token."""
        self.manual_seed(_mixed(self.seed_of_request, self.draws))
        self.draws += 1

    def get_offset(self) -> int:
        return DRAW * self.draws

    def set_offset(self, offset: int) -> torch.Generator:
        self.draws = offset // DRAW
        return self


def _mixed(seed: int, draw: int) -> int:
    """A seed of 32 bits, which is all that torch's generator on a CPU takes (the finaliser of SplitMix64)."""
    x = (seed + (draw + 1) * 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return (x ^ (x >> 31)) >> 32


def install() -> None:
    """Prepare this process for engines; does nothing where vLLM does not run on a CPU. Calling it again changes
    nothing.

    Raises:
        EntropyHookError: this vLLM has other names.
    """
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    import vllm.model_executor.layers.utils as layers
    from vllm.v1.sample.ops.topk_topp_sampler import TopKTopPSampler
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    if hasattr(TopKTopPSampler.forward_cpu, "__wrapped__"):
        return
    try:
        gemm = layers.cpu_unquantized_gemm
        wrap(GPUModelRunner, _update_states=_with_draw_generators)
        wrap(TopKTopPSampler, forward_cpu=_beginning_draws)
    except AttributeError as error:
        raise EntropyHookError(
            f"Seeds of requests do not fit vLLM {version_found()} on a CPU ({error}): {INSTALL_TESTED}."
        ) from error
    layers.cpu_unquantized_gemm = _of_enough_rows(gemm)


def _with_draw_generators(update_states: Callable[..., Any]) -> Callable[..., Any]:
    def hooked(self: Any, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
        result = update_states(self, scheduler_output, *args, **kwargs)
        for new in scheduler_output.scheduled_new_reqs:
            request = self.requests[new.req_id]
            if request.generator is not None:
                request.generator = DrawGenerator.like(request.generator)
                self.input_batch.generators[self.input_batch.req_id_to_index[new.req_id]] = request.generator
        return result

    return hooked


def _beginning_draws(sample: Callable[..., Any]) -> Callable[..., Any]:
    def hooked(self: Any, logits: torch.Tensor, generators: dict[int, torch.Generator], *args: Any) -> Any:
        for generator in generators.values():
            if isinstance(generator, DrawGenerator):  # the runs that warm vLLM up have their own
                generator.next_draw()
        return sample(self, logits, generators, *args)

    return hooked


def _of_enough_rows(gemm: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def padded(layer: Any, x: torch.Tensor, *args: Any) -> torch.Tensor:
        rows = x.shape[0]
        if x.dim() != 2 or rows >= ROWS:
            return gemm(layer, x, *args)
        return gemm(layer, torch.nn.functional.pad(x, (0, 0, 0, ROWS - rows)), *args)[:rows]

    return padded
