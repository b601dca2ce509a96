"""How long GTPO's and GRPO-S's shaping takes beside OpenRLHF's own group-normalised advantages (GRPO), on one batch.

    python tests/benchmarks/bench_shaping.py [--n 1024 --t 2048 --g 16 --repeat 7 --threads 1]

Theirs is `RemoteExperienceMaker.compute_advantages_and_returns` of the installed OpenRLHF with the estimator
group_norm, on one Experience that holds the whole batch: its best case, since it loops over the columns of each. The
runs are interleaved and the medians compared. Ray gives an actor one thread: `--threads 1` measures what a training
run sees.
"""

import argparse
import os
import statistics
import sys
import time
from types import SimpleNamespace

# Read when torch loads its threads. Threads that spin while they wait take the cores from those that still work, as
# soon as the machine does anything else, and every elementwise operation then lasts a time slice of the scheduler.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch

from openrlhf_gtpo.cpu.platform import STUBS, environment
from openrlhf_gtpo.shaping import grpo_s, gtpo

os.environ.update(environment())  # after torch has read the number of threads, which stays the user's
sys.path.insert(0, str(STUBS))

from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker
from tables import markdown


def experience_maker(samples_per_prompt: int) -> RemoteExperienceMaker:
    """OpenRLHF's experience maker with what compute_advantages_and_returns reads, and no models."""
    args = SimpleNamespace(
        algo=SimpleNamespace(advantage=SimpleNamespace(estimator="group_norm", gamma=1.0)),
        rollout=SimpleNamespace(n_samples_per_prompt=samples_per_prompt),
        reward=SimpleNamespace(clip_range=None),
    )
    no_kl = SimpleNamespace(value=0.0)
    return RemoteExperienceMaker(None, None, None, None, no_kl, SimpleNamespace(args=args), None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=1024, help="responses (1024)")
    parser.add_argument("--t", type=int, default=2048, help="columns: the longest prompt and response (2048)")
    parser.add_argument("--g", type=int, default=16, help="responses to each prompt (16)")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="PyTorch's; its own choice")
    args = parser.parse_args()
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

    def group_norm() -> None:
        experience = Experience(
            action_mask=mask, rewards=correct.float(), kl=torch.zeros(mask.shape), index=list(range(n))
        )
        maker.compute_advantages_and_returns([experience])

    ways = {
        "OpenRLHF group_norm": group_norm,
        "gtpo": lambda: gtpo(entropy, mask, correct, group),
        "gtpo, gaps in the mask": lambda: gtpo(entropy, gaps, correct, group),
        "grpo_s": lambda: grpo_s(entropy, mask, correct, group),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(args.repeat + 1):
        for name, call in ways.items():
            start = time.perf_counter()
            call()
            if turn:  # the first warms up
                seconds[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    base = medians["OpenRLHF group_norm"]
    print(f"N = {n}, T = {t}, G = {g}, {args.threads} threads, median of {args.repeat}\n")
    print(markdown(["", "ms", "ratio"], ([name, f"{1e3 * s:.1f}", f"{s / base:.3f}"] for name, s in medians.items())))


if __name__ == "__main__":
    main()
