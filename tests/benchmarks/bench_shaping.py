"""How long GTPO's and GRPO-S's shaping takes beside OpenRLHF's own group-normalised advantages (GRPO), on one batch.

    python tests/benchmarks/bench_shaping.py [--n 1024 --t 2048 --g 16 --repeat 7 --micro-batch 1024 --threads 2]

Theirs is `RemoteExperienceMaker.compute_advantages_and_returns` of the installed OpenRLHF with the estimator
group_norm. It loops over the columns of every Experience, so one Experience that holds the whole batch (the default
here) is its best case; OpenRLHF itself makes one for each `--rollout.micro_batch_size` responses (1 unless set). "one
pass" reads both inputs and writes both outputs once and computes nothing: what no shaping can be faster than. The
runs are interleaved and the medians compared. Peak memory is what PyTorch allocated on top of the arguments, results
included. Ray gives an actor one thread: `--threads 1` measures what a training run sees.
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace

# Read when torch loads its threads. Threads that spin while they wait take the cores from those that still work, as
# soon as the machine does anything else, and every elementwise operation then lasts a time slice of the scheduler.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch

from openrlhf_gtpo.cpu.environment import STUBS, cpu_environment
from openrlhf_gtpo.shaping import grpo_s, gtpo

os.environ.update(cpu_environment())  # after torch has read the number of threads, which stays the user's
sys.path.insert(0, str(STUBS))

from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker


def experience_maker(samples_per_prompt: int) -> RemoteExperienceMaker:
    """OpenRLHF's experience maker with what compute_advantages_and_returns reads, and no models."""
    args = SimpleNamespace(
        algo=SimpleNamespace(advantage=SimpleNamespace(estimator="group_norm", gamma=1.0)),
        rollout=SimpleNamespace(n_samples_per_prompt=samples_per_prompt),
        reward=SimpleNamespace(clip_range=None),
    )
    no_kl = SimpleNamespace(value=0.0)
    return RemoteExperienceMaker(None, None, None, None, no_kl, SimpleNamespace(args=args), None)


def experiences(mask: torch.Tensor, correct: torch.Tensor, size: int) -> list[Experience]:
    """The batch in Experiences of `size` responses, as they stand after the actor's forward pass."""
    return [
        Experience(
            action_mask=mask[i : i + size],
            rewards=correct[i : i + size].float(),
            kl=torch.zeros(mask[i : i + size].shape),
            index=list(range(i, min(i + size, len(mask)))),
        )
        for i in range(0, len(mask), size)
    ]


def peak_mib(call: Callable[[], object]) -> float:
    """The most memory that was allocated at once during the call."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        call()
    held = peak = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=1024, help="responses")
    parser.add_argument("--t", type=int, default=2048, help="columns: the longest prompt and response")
    parser.add_argument("--g", type=int, default=16, help="responses to each prompt")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--micro-batch", type=int, help="responses in each of OpenRLHF's Experiences; n unless set")
    parser.add_argument("--threads", type=int, help="PyTorch's threads; its own choice unless set")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    n, t, g = args.n, args.t, args.g

    generator = torch.Generator().manual_seed(0)
    group = torch.arange(n) // g
    correct = torch.rand(n, generator=generator) < 0.5
    begin = torch.randint(0, t // 8, (n // g + 1,), generator=generator)[group]  # the prompt's length
    length = torch.randint(t // 8, t + 1, (n,), generator=generator)
    columns = torch.arange(t)
    # int64, as OpenRLHF's samples generator makes it
    mask = ((columns >= begin[:, None]) & (columns < (begin + length)[:, None])).long()
    gaps = mask * (columns % 512 >= 32)  # turns of a dialogue
    entropy = torch.rand(n, t, generator=generator) ** 4 * 3

    maker = experience_maker(g)
    size = args.micro_batch or n

    def theirs() -> float:
        batch = experiences(mask, correct, size)
        start = time.perf_counter()
        maker.compute_advantages_and_returns(batch)
        return time.perf_counter() - start

    ours = {
        "gtpo": lambda: gtpo(entropy, mask, correct, group),
        "gtpo, gaps in the mask": lambda: gtpo(entropy, gaps, correct, group),
        "grpo_s": lambda: grpo_s(entropy, mask, correct, group),
    }
    outputs = torch.zeros(n, t), torch.zeros(n, t)

    def one_pass() -> None:
        outputs[0].copy_(entropy)
        outputs[1].copy_(mask)

    ours["one pass"] = one_pass
    seconds: dict[str, list[float]] = {name: [] for name in ("OpenRLHF group_norm", *ours)}
    for turn in range(args.repeat + 1):
        taken = {"OpenRLHF group_norm": theirs()}
        for name, call in ours.items():
            start = time.perf_counter()
            call()
            taken[name] = time.perf_counter() - start
        if turn:  # the first warms up
            for name, value in taken.items():
                seconds[name].append(value)

    peaks = {name: peak_mib(call) for name, call in ours.items()}
    peaks["OpenRLHF group_norm"] = peak_mib(theirs)
    base = statistics.median(seconds["OpenRLHF group_norm"])
    print(f"N = {n}, T = {t}, G = {g}, {size} responses an Experience, {torch.get_num_threads()} threads, ", end="")
    print(f"median of {args.repeat}; one (N, T) float32 tensor is {n * t * 4 / 2**20:.0f} MiB")
    inputs = (entropy.nbytes + mask.nbytes) / 2**20
    floor = statistics.median(seconds["one pass"])
    print(f"{'':24}{'ms':>10}{'ratio':>10}{'of a pass':>11}{'peak MiB':>10}{'of inputs':>11}")
    for name, values in seconds.items():
        median = statistics.median(values)
        print(
            f"{name:24}{1e3 * median:10.2f}{median / base:10.4f}{median / floor:11.2f}"
            f"{peaks[name]:10.0f}{peaks[name] / inputs:11.2f}"
        )


if __name__ == "__main__":
    main()
