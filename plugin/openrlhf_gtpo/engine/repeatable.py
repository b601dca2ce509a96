"""Makes a response a function of weights, prompt and seed on a CPU, whatever else the engine generates beside it.

vLLM alone stops at the first seed of a request on a CPU, and in bfloat16 the last bits of a row depend on how many
rows are beside it. On a GPU vLLM's own batch invariance does what this module does on a CPU."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from openrlhf_gtpo.engine.hook import EntropyHookError, version_found, wrap
from openrlhf_gtpo.engine.versions import INSTALL_TESTED

ROWS = 8
"""The fewest rows that a linear layer is given. Kernels for a few rows add up in another order: in bfloat16 up to 4
rows on CPUs with AMX, in float32 up to 3 on CPUs without AVX-512."""


class RewindableGenerator(torch.Generator):
    """A CPU's generator whose last draw can be taken back, with the numbers of the ordinary one.

    vLLM draws for each row of a batch, also for those that it does not sample from because their prompt is not
    complete yet. It takes these draws back by the generator's offset, which a CPU's does not have.
    """

    _before: torch.Tensor

    def begin_draw(self) -> None:
        """Remember the state, to which `set_offset` goes back."""
        self._before = self.get_state()

    def get_offset(self) -> int:
        return 0

    def set_offset(self, offset: int) -> torch.Generator:
        return self.set_state(self._before)


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
    from vllm.v1.sample.ops import topk_topp_sampler as sampling
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    if hasattr(sampling.TopKTopPSampler.forward_cpu, "__wrapped__"):
        return
    try:
        gemm, _ = layers.cpu_unquantized_gemm, sampling.random_sample
        wrap(GPUModelRunner, _update_states=_with_rewindable_generators)
        wrap(sampling.TopKTopPSampler, forward_cpu=_beginning_draws)
    except AttributeError as error:
        raise EntropyHookError(
            f"Seeds of requests do not fit vLLM {version_found()} on a CPU ({error}): {INSTALL_TESTED}."
        ) from error
    layers.cpu_unquantized_gemm = _of_enough_rows(gemm)
    sampling.random_sample = drawn


def drawn(
    probabilities: torch.Tensor, generators: Mapping[int, torch.Generator], use_fp64_gumbel: bool = False
) -> torch.Tensor:
    """Draw a token of each row by one number. vLLM draws one for each token of the vocabulary, which takes a CPU as
    long as a small model's layers.

    Args:
        probabilities: (rows, V) float, whose sum may be other than 1.
        generators: of rows with a seed of their own.
        use_fp64_gumbel: vLLM's; sums are in float64 in any case.

    Returns:
        (rows,) int64; no token of probability 0.
    """
    up_to = probabilities.cumsum(-1, dtype=torch.float64)
    chance = torch.rand(len(up_to), dtype=torch.float64)
    for row, generator in generators.items():
        chance[row] = torch.rand((), dtype=torch.float64, generator=generator)
    tokens = torch.searchsorted(up_to, (chance * up_to[:, -1])[:, None], right=True).squeeze(1)
    return tokens.clamp_(max=up_to.shape[1] - 1)  # of a row that is NaN, whose entropy will say so


def _with_rewindable_generators(update_states: Callable[..., Any]) -> Callable[..., Any]:
    def hooked(self: Any, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
        result = update_states(self, scheduler_output, *args, **kwargs)
        for new in scheduler_output.scheduled_new_reqs:
            request = self.requests[new.req_id]
            if request.generator is not None:
                generator = RewindableGenerator()
                generator.set_state(request.generator.get_state())
                request.generator = generator
                self.input_batch.generators[self.input_batch.req_id_to_index[new.req_id]] = generator
        return result

    return hooked


def _beginning_draws(sample: Callable[..., Any]) -> Callable[..., Any]:
    def hooked(self: Any, logits: torch.Tensor, generators: dict[int, torch.Generator], *args: Any) -> Any:
        for generator in generators.values():
            if isinstance(generator, RewindableGenerator):  # the runs that warm vLLM up have others
                generator.begin_draw()
        # The method for CPUs would draw noise for each token of all rows.
        return (
            self.forward_native(logits, generators, *args) if generators else sample(self, logits, generators, *args)
        )

    return hooked


def _of_enough_rows(gemm: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def padded(layer: Any, x: torch.Tensor, *args: Any) -> torch.Tensor:
        rows = x.shape[0]
        if x.dim() != 2 or rows >= ROWS:
            return gemm(layer, x, *args)
        return gemm(layer, torch.nn.functional.pad(x, (0, 0, 0, ROWS - rows)), *args)[:rows]

    return padded
