"""How many GPU-hours a study costs on H100s: arithmetic out of named inputs, each a range with its source.

The wall time of a run, on `gpus` that generate and train in turn:

    step = written / (gpus * speed) + longest * alone + 8 * parameters * trained / (gpus * PEAK * utilization) + fixed
    run  = start + steps * step + evaluations * (evaluated / (gpus * speed) + longest * alone)

Training takes 6 floating-point operations a parameter and token, and log-probabilities of the policy before the update
2 more (Kaplan et al., arXiv 2001.08361, section 2.1). Attention and reading the prompts are left out. A response that
is still being written when all others have ended holds up a step: `alone` is what one of its tokens takes. GPU-hours
are the sum over runs of gpus times wall time. docs/studies/entropy_gpu.md explains the inputs and has the results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

from openrlhf_gtpo.driver.model_size import KNOWN
from openrlhf_gtpo.tables import markdown

PEAK = 989e12
"""Floating-point operations a second of an H100 SXM in bfloat16 without sparsity, NVIDIA's data sheet."""
TRAINED, SCORED = 6, 2
"""Floating-point operations a parameter and token: forward and backward pass; forward pass alone."""
CASES = ("low", "likely", "high")


@dataclass(frozen=True)
class Input:
    """A quantity, cheapest value first."""

    low: float
    likely: float
    high: float
    unit: str
    kind: str
    """Where the likely value is from: `ours` or `others` (measured by us, by others), `computed`, `assumed`."""
    source: str

    def at(self, case: str) -> float:
        return float(getattr(self, case))


@dataclass(frozen=True)
class Inputs:
    """What the machine and the policy bring, for one size of policy and one kind of prompts."""

    speed: Input
    """Tokens that the engine of one GPU writes, hook and log-probabilities included."""
    alone: Input
    utilization: Input
    """Share of `PEAK` that training reaches."""
    length: Input
    """Tokens of a response."""
    prompt: Input
    """Tokens of a prompt."""
    fixed: Input
    """Of a step: reward, sleeping and waking, weights to the engine, optimizer."""
    start: Input
    """Of a run: processes, weights, compiled graphs."""
    filtering: Input
    """How many times as many responses an arm with dynamic filtering generates."""


@dataclass(frozen=True)
class Shape:
    """The numbers of a run that its command line has."""

    parameters: int
    gpus: int
    steps: int
    responses: int
    """That a step trains on."""
    longest: int
    """Most tokens of a response."""
    evaluations: int
    evaluated: int
    """Responses of an evaluation."""


@dataclass(frozen=True)
class Seconds:
    """Wall time of one run by part."""

    generation: float
    training: float
    fixed: float
    evaluation: float
    start: float

    @property
    def total(self) -> float:
        return sum(getattr(self, part.name) for part in fields(self))


def seconds(shape: Shape, inputs: Inputs, case: str, filters: bool = False) -> Seconds:
    """The wall time of a run.

    Args:
        shape: of the run.
        inputs: of its policy and prompts.
        case: one of `CASES`: every input at that end.
        filters: whether dynamic filtering makes it generate more than it trains on.
    """
    value: Callable[[str], float] = lambda name: getattr(inputs, name).at(case)  # noqa: E731
    rate, last = shape.gpus * value("speed"), shape.longest * value("alone")
    more = value("filtering") if filters else 1.0
    written = shape.responses * value("length") * more
    trained = shape.responses * (value("length") + value("prompt"))
    operations = (TRAINED + SCORED) * shape.parameters * trained
    return Seconds(
        generation=shape.steps * (written / rate + last),
        training=shape.steps * operations / (shape.gpus * PEAK * value("utilization")),
        fixed=shape.steps * value("fixed"),
        evaluation=shape.evaluations * (shape.evaluated * value("length") / rate + last),
        start=value("start"),
    )


def gpu_hours(shape: Shape, inputs: Inputs, case: str, runs: int, filtering_runs: int = 0) -> float:
    """GPU-hours of a study.

    Args:
        shape, inputs, case: as of `seconds`.
        runs: all runs.
        filtering_runs: those of them whose arm filters.
    """
    plain, filtered = (seconds(shape, inputs, case, filters).total for filters in (False, True))
    return shape.gpus * ((runs - filtering_runs) * plain + filtering_runs * filtered) / 3600


LLM_FOUNDRY = "https://github.com/mosaicml/llm-foundry/blob/061f2c7ce64e655100286584a7629e2a09f827ba/scripts/train/benchmarking/README.md"
NEMO_RL = (
    "https://github.com/NVIDIA-NeMo/RL/blob/06beed91bac98a2c39a19435f6bbbbe71aa45720/docs/about/performance-summary.md"
)
GPUSTACK = (
    "https://github.com/gpustack/gpustack/blob/4650ef43c7f1e51661cbe0f10258bf6eb7274177/docs/performance-lab/references/"
    "the-impact-of-quantization-on-vllm-inference-performance.md"
)
SHAREGPT = "https://docs.gpustack.ai/latest/performance-lab/qwen3.5-9b/h100"
SMALL_VLLM = "https://github.com/simon-mo/vLLM-Benchmark/pull/1"
TRL_LENGTHS = "https://github.com/huggingface/trl/issues/6263"
OPEN_R1 = "https://github.com/huggingface/open-r1/issues/251"
VERL_LENGTHS = "https://github.com/huggingface/trl/issues/5697"

_FILTERING = Input(
    1.0, 2.0, 4.0, "times", "assumed", "half of the groups are all right or all wrong; grows as the policy learns"
)
_SPEED_SMALL = Input(
    28_900,
    18_000,
    6_300,
    "tokens/s",
    "ours",
    "one H100, 256 at once: likely with hook and log-probabilities, low cost without either (docs/check.md); high "
    f"cost: SGLang on one A100, 6,305, where vLLM had 2,195 ({SMALL_VLLM})",
)
_UTILIZATION = (
    "low cost: pretraining of 1B and 7B on H100s, sequences of 1,024 tokens, 42 to 43 % "
    f"({LLM_FOUNDRY}); likely and high are guesses: short packed batches with a large vocabulary reach less"
)
_FIXED = "low cost: ours, a whole step of a 0.1 B policy (docs/check.md)"
_START = "Ray, loading, torch.compile, CUDA graphs"


def _alone(low: float, likely: float, high: float, what: str) -> Input:
    return Input(low, likely, high, "s/token", "assumed", f"low cost: {what} read once at 3.35 TB/s, computed")


SMALL_GSM8K = Inputs(
    speed=_SPEED_SMALL,
    alone=_alone(0.001, 0.004, 0.008, "3.1 GB of weights"),
    utilization=Input(0.42, 0.25, 0.12, "of 989 TFLOP/s", "assumed", _UTILIZATION),
    length=Input(
        250,
        300,
        450,
        "tokens",
        "others",
        f"median 274 (Qwen2.5-0.5B-Instruct), 315 (Math-1.5B-Instruct): {TRL_LENGTHS}",
    ),
    prompt=Input(100, 130, 180, "tokens", "assumed", "question and chat template"),
    fixed=Input(4, 7, 15, "s", "assumed", _FIXED),
    start=Input(60, 120, 300, "s", "assumed", _START),
    filtering=_FILTERING,
)
SMALL_MATH = Inputs(
    speed=_SPEED_SMALL,
    alone=SMALL_GSM8K.alone,
    utilization=SMALL_GSM8K.utilization,
    length=Input(
        450,
        640,
        1_000,
        "tokens",
        "others",
        f"639 (Qwen2.5-Math-7B on MATH: {OPEN_R1}), 600 to 700 (0.5B: {VERL_LENGTHS})",
    ),
    prompt=Input(100, 150, 250, "tokens", "assumed", "question and chat template"),
    fixed=SMALL_GSM8K.fixed,
    start=SMALL_GSM8K.start,
    filtering=_FILTERING,
)
LARGE = Inputs(
    speed=Input(
        10_000,
        6_000,
        3_700,
        "tokens/s",
        "computed",
        f"Qwen3-8B in BF16, vLLM 0.9.2, one H100, ShareGPT: others measured 13,305 in all ({GPUSTACK}), of which "
        f"45 % are written (281,412 of 623,470 in {SHAREGPT}); high cost: times 18,000 / 28,900, what hook and "
        "log-probabilities cost us at 1.5B; low cost: prompts are short here, so that more of the time is for writing",
    ),
    alone=_alone(0.0045, 0.008, 0.012, "15.2 GB of weights"),
    utilization=Input(0.42, 0.25, 0.12, "of 989 TFLOP/s", "assumed", _UTILIZATION),
    length=Input(
        640,
        1_000,
        2_000,
        "tokens",
        "others",
        f"low cost 639 ({OPEN_R1}); likely 1,060 with the prompt (8B, {NEMO_RL}); high cost: responses that grow",
    ),
    prompt=Input(100, 150, 250, "tokens", "assumed", "question and chat template"),
    fixed=Input(6, 12, 25, "s", "assumed", "sleeping, waking and gathering 7.6 B parameters over 8 GPUs"),
    start=Input(120, 240, 600, "s", "assumed", _START),
    filtering=_FILTERING,
)
INPUTS = {("1.5b", "gsm8k"): SMALL_GSM8K, ("1.5b", "math"): SMALL_MATH, ("7b", "dapo17k"): LARGE}
PARAMETERS = {"1.5b": KNOWN["Qwen2.5-1.5B"].parameters, "7b": KNOWN["Qwen2.5-7B"].parameters}


def table(studies: Sequence[tuple[str, Shape, Inputs, int, int]]) -> str:
    """GPU-hours of studies, in Markdown.

    Args:
        studies: title, shape, inputs, runs, and those of them whose arm filters.
    """
    rows = []
    for title, shape, inputs, runs, filtering in studies:
        hours = [gpu_hours(shape, inputs, case, runs, filtering) for case in CASES]
        wall = seconds(shape, inputs, "likely").total / 3600
        rows.append([title, runs, f"{wall:.1f}", *(f"{value:,.0f}" for value in hours)])
    head = ["study", "runs", "hours of a run, likely", "GPU-hours, low", "likely", "high"]
    return markdown(head, rows)


def parts(studies: Sequence[tuple[str, Shape, Inputs, int, int]]) -> str:
    """Shares of a run's wall time without filtering, at the likely inputs, in Markdown."""
    rows = []
    for title, shape, inputs, *_ in studies:
        found = seconds(shape, inputs, "likely")
        shares = [f"{100 * getattr(found, part.name) / found.total:.0f} %" for part in fields(found)]
        rows.append([title, *shares])
    return markdown(["study", *(part.name for part in fields(Seconds))], rows)


def one_at_a_time(studies: Sequence[tuple[str, Shape, Inputs, int, int]]) -> str:
    """GPU-hours with one input at its low and high end and the others likely, in Markdown."""
    rows = []
    for part in fields(Inputs):
        cells = []
        for _, shape, inputs, runs, filtering in studies:
            one: Input = getattr(inputs, part.name)
            ends = [
                gpu_hours(shape, replace(inputs, **{part.name: replace(one, likely=end)}), "likely", runs, filtering)
                for end in (one.low, one.high)
            ]
            cells.append(f"{ends[0]:,.0f} to {ends[1]:,.0f}")
        rows.append([part.name, *cells])
    return markdown(["input", *(title for title, *_ in studies)], rows)


def inputs_table(inputs: Inputs) -> str:
    """All inputs with their sources, in Markdown."""
    rows = []
    for part in fields(inputs):
        one: Input = getattr(inputs, part.name)
        rows.append([part.name, *(f"{one.at(case):,g}" for case in CASES), one.unit, one.kind, one.source])
    return markdown(["input", *(f"{case} cost" for case in CASES), "unit", "likely value is", "source"], rows)
