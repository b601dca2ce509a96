"""How long a run takes on GPUs, before it is started: arithmetic out of named inputs, each a range with its source.

The wall time of a run, on `gpus` that generate and train in turn:

    step = written / (gpus * speed) + longest * alone + 8 * parameters * trained / (gpus * PEAK * utilization) + fixed
    run  = start + steps * step + evaluations * (evaluated / (gpus * speed) + longest * alone)

Training takes 6 floating-point operations a parameter and token, and log-probabilities of the policy before the update
2 more (Kaplan et al., arXiv 2001.08361, section 2.1). Attention and reading the prompts are left out. A response that
is still being written when all others have ended holds up a step: `alone` is what one of its tokens takes.
docs/training.md explains the inputs. Nothing on several GPUs was measured by us."""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, fields

from openrlhf_gtpo.driver.model_size import KNOWN, Model
from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.settings import Settings

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
    """That generate, and train in turn."""
    steps: int
    responses: int
    """That a step trains on."""
    longest: int
    """Most tokens of a response."""
    evaluations: int
    evaluated: int
    """Responses of an evaluation."""
    trainers: int = 0
    """GPUs that train, where these are others than those that generate."""
    peak: float = PEAK


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
        training=shape.steps * operations / ((shape.trainers or shape.gpus) * shape.peak * value("utilization")),
        fixed=shape.steps * value("fixed"),
        evaluation=shape.evaluations * (shape.evaluated * value("length") / rate + last),
        start=value("start"),
    )


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
STUDIED_LENGTH = 4096
"""Most tokens of a response in the study of 7B."""


@dataclass(frozen=True)
class Kind:
    """A kind of GPU, by NVIDIA's data sheets."""

    peak: float
    """Floating-point operations a second in bfloat16 without sparsity."""
    bandwidth: float
    """Of its memory, bytes a second."""


KINDS = {
    "H100": Kind(PEAK, 3.35e12),
    "H200": Kind(PEAK, 4.8e12),
    "B200": Kind(2250e12, 8e12),
    "A100": Kind(312e12, 2.04e12),
    "L40S": Kind(362e12, 0.864e12),
    "L4": Kind(121e12, 0.3e12),
}
"""Longer names first where one begins another."""
KIND_VARIABLE = "GPU_KIND"
"""Environment variable with the kind of GPU, for a plan on a machine without one."""


def kind() -> str | None:
    """The kind of this machine's GPU, else what GPU_KIND says, else H100; None for one that is not in the table.

    Raises:
        SettingsError: GPU_KIND is none of the table.
    """
    import torch

    if torch.cuda.device_count():
        name = torch.cuda.get_device_name(0)
        return next((known for known in KINDS if known in name), None)
    given = os.environ.get(KIND_VARIABLE) or "H100"
    if given not in KINDS:
        raise SettingsError(f"{KIND_VARIABLE} is {given}, but what is known is {', '.join(KINDS)}.")
    return given


def inputs_of(model: Model, settings: Settings, on: Kind) -> Inputs:
    """The inputs for a policy of any size: between 1.5B's and 7B's as a power of the size; below as 1.5B's; above,
    time grows with it. Writing goes with the memory's bandwidth, and a response takes the same share of
    --rollout.max_new_tokens as in the study of 7B."""
    flags = settings.flags
    longest = flags["rollout.max_new_tokens"] or flags["data.max_len"]
    least, most = (PARAMETERS[name] for name in ("1.5b", "7b"))
    faster = on.bandwidth / KINDS["H100"].bandwidth

    def of_size(name: str, size: float, direction: int, factor: float = 1.0) -> Input:
        small, large = getattr(SMALL_MATH, name), getattr(LARGE, name)
        place = min(1.0, max(0.0, math.log(size / least) / math.log(most / least)))
        beyond = max(1.0, size / most) ** direction * factor
        low, likely, high = (small.at(case) * (large.at(case) / small.at(case)) ** place * beyond for case in CASES)
        return Input(low, likely, high, large.unit, "computed", f"from {large.source}")

    low, likely, high = (LARGE.length.at(case) * longest / STUDIED_LENGTH for case in CASES)
    return Inputs(
        speed=of_size("speed", model.parameters, -1, faster),
        alone=of_size("alone", model.parameters / flags["vllm.tensor_parallel_size"], 1, 1 / faster),
        utilization=LARGE.utilization,
        length=Input(low, likely, high, "tokens", "assumed", LARGE.length.source),
        prompt=LARGE.prompt,
        fixed=of_size("fixed", model.parameters, 1),
        start=LARGE.start,
        filtering=LARGE.filtering,
    )


def rows(model: Model, settings: Settings) -> list[tuple[str, str]]:
    """The estimate for people, as rows of the plan."""
    flags, name = settings.flags, kind()
    if name is None:
        known = ", ".join(KINDS)
        return [("hours", f"not estimated for this machine's GPU; {KIND_VARIABLE} on a machine without one: {known}")]
    trainers = flags["actor.num_nodes"] * flags["actor.num_gpus_per_node"]
    engines = (flags["vllm.num_engines"] or 0) * flags["vllm.tensor_parallel_size"]
    apart = not flags["train.colocate_all"]
    steps = settings.max_steps
    shape = Shape(
        parameters=model.parameters,
        gpus=engines,
        trainers=trainers if apart else 0,
        steps=steps or 1,
        responses=settings.responses_a_step,
        longest=flags["rollout.max_new_tokens"] or flags["data.max_len"],
        evaluations=0,
        evaluated=0,
        peak=KINDS[name].peak,
    )
    inputs, filters = inputs_of(model, settings, KINDS[name]), flags["algo.dynamic_filtering_enable"]
    found = {case: seconds(shape, inputs, case, filters) for case in CASES}
    gpus = engines + trainers if apart else engines
    if steps is None:
        a_step = [found[case].total - found[case].start for case in ("likely", "low", "high")]
        return [("hours", "{:,.0f} s a step likely, {:,.0f} to {:,.0f}, ".format(*a_step) + f"on {gpus} x {name}")]
    likely, low, high = (found[case].total / 3600 for case in ("likely", "low", "high"))
    writing, learning = (getattr(found["likely"], part) / found["likely"].total for part in ("generation", "training"))

    def ends(name: str, scale: float = 1.0, digits: str = ",.0f") -> str:
        one: Input = getattr(inputs, name)
        least, most = sorted((one.low * scale, one.high * scale))
        return f"{one.likely * scale:{digits}} ({least:{digits}} to {most:{digits}})"

    told = [
        (
            "hours",
            f"{likely:.1f} likely, {low:.1f} to {high:.1f}, for {steps:,} steps on {gpus} x {name}: {writing:.0%} of "
            f"it writing, {learning:.0%} learning; computed, never measured as a whole",
        ),
        (
            "",
            f"assumed: responses of {ends('length')} tokens, {ends('speed')} tokens a second written on each GPU, "
            f"{ends('utilization', 100)} % of its peak in training; without evaluations"
            + (f", {ends('filtering')} times the responses for dynamic filtering" if filters else ""),
        ),
    ]
    if (price := flags["price"]) is not None:
        costs = [gpus * price * hours for hours in (likely, low, high)]
        told.append(("cost", "{:,.0f} likely, {:,.0f} to {:,.0f}, ".format(*costs) + f"at {price:g} a GPU-hour"))
    return told
