"""How long a step waits for rewards after its last token, beside the time of its generation: a simulated batch of long
responses through the real client and the real service.

    python tests/benchmarks/bench_reward_wait.py [--responses 1024 --tokens 4096 --seconds 60 --seed 0]

Nothing is generated: the responses "end" at times that are spread as those of a batch do (most in the middle of the
generation, a few at its very end), and each is sent to the service when it ends, as a rollout actor does. A response
is as long as TOKENS tokens of mathematical prose, some four characters each, and ends in a boxed expression that has
to be parsed. The service is the built-in one, on the same machine.
"""

import argparse
import asyncio
import random
import sys
import time

from math_reward.client import Item, Settings
from openrlhf_gtpo.rewards.client import RewardClient
from openrlhf_gtpo.rewards.embedded import start_embedded_service

PROSE = "So we write $x_{%d} = \\frac{%d}{%d} + \\sqrt{%d}$, and by the previous step it follows that it is larger. "
SHARE = 0.05  # of the generation's time that the wait is to stay below


def responses(count: int, tokens: int, source: random.Random) -> list[Item]:
    found = []
    for i in range(count):
        parts, length = [], 0
        while length < 4 * tokens:
            parts.append(PROSE % tuple(source.randrange(2, 99) for _ in range(4)))
            length += len(parts[-1])
        a, b = source.randrange(2, 99), source.randrange(2, 99)
        answer = f"\\frac{{{a}}}{{{b}}} + \\sqrt{{{a * a * b}}}"
        reference = f"{a}/{b} + {a}\\sqrt{{{b}}}" if i % 2 else f"{a}/{b} + {a + 1}\\sqrt{{{b}}}"
        completion = "".join(parts) + f"So it is $\\boxed{{{answer}}}$."
        found.append(Item(completion, reference, prompt=f"Problem {i}."))
    return found


async def simulate(batch: list[Item], seconds: float, settings: Settings) -> tuple[float, int]:
    """Seconds from the last token to the last reward, and how many were correct."""
    source = random.Random(1)
    ends = sorted(seconds * source.betavariate(4, 2) for _ in batch)
    ends = [end * seconds / ends[-1] for end in ends]
    client = RewardClient(settings)
    begin = time.monotonic()

    async def one(request: Item, end: float) -> float:
        await asyncio.sleep(begin + end - time.monotonic())
        return (await client.reward(request)).reward

    try:
        rewards = await asyncio.gather(*(one(request, end) for request, end in zip(batch, ends, strict=True)))
        return time.monotonic() - begin - ends[-1], int(sum(rewards))
    finally:
        client.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--responses", type=int, default=1024)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--seconds", type=float, default=60.0, help="of the simulated generation")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    batch = responses(args.responses, args.tokens, random.Random(args.seed))
    size = sum(len(request.completion) for request in batch) / 2**20
    with start_embedded_service() as service:
        settings = Settings((service.url,), token=service.token)
        wait, correct = asyncio.run(simulate(batch, args.seconds, settings))
    if correct != args.responses // 2:
        sys.exit(f"{correct} of {args.responses} responses were graded as correct, and half of them are.")
    share = wait / args.seconds
    print(f"{args.responses:,} responses, {size:.0f} MiB of text, generated in {args.seconds:g} s (simulated)")
    print(f"last token to last reward {wait:.3f} s = {share:.2%} of the generation (wanted: below {SHARE:.0%})")


if __name__ == "__main__":
    main()
