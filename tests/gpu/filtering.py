"""Simulates the seconds of generation of a step whose groups are filtered: a prompt drawn for each filtered one, or
more at once, of which the first that teach are used, by place. Speeds are the likely ones of docs/gpu.md.

python tests/gpu/filtering.py          # a minute for each line; needs no GPU and no package"""

import math
import random
import statistics

PROMPTS, RESPONSES, ENGINES, LONGEST = 128, 16, 8, 4096
ALONE, FULL, AT_ONCE = 0.008, 6000, 256
"""Seconds of a token alone; tokens a second of an engine with so many responses at once. In between, each response
adds as much to a token's seconds."""
SLOPE = (AT_ONCE / FULL - ALONE) / (AT_ONCE - 1)


def step(share: float, at_once: int, seed: int) -> tuple[float, int]:
    """Seconds, and prompts drawn, where this share of the groups is filtered."""
    rng = random.Random(seed)
    engines: list[dict[tuple[int, int], float]] = [{} for _ in range(ENGINES)]  # (place, response) -> tokens left
    left: list[int] = []  # of each place, the responses that have not ended
    kept: list[int] = []

    def draw() -> None:
        engine = min(engines, key=len)
        for response in range(RESPONSES):
            length = rng.lognormvariate(math.log(1000) - 0.245, 0.7)
            engine[len(left), response] = min(LONGEST, max(30, int(length)))
        left.append(RESPONSES)

    for _ in range(at_once):
        draw()
    seconds = 0.0
    while True:
        awaited = [place for place, count in enumerate(left) if count]
        if at_once > PROMPTS and sum(place < min(awaited, default=len(left)) for place in kept) >= PROMPTS:
            return seconds, len(left)
        while len(kept) + sum(count > 0 for count in left) < PROMPTS:
            for _ in range(max(1, at_once - PROMPTS)):
                draw()
        if not any(left):
            return seconds, len(left)
        a_token = [ALONE + SLOPE * (len(engine) - 1) for engine in engines]
        passed = min(min(engine.values()) * each for engine, each in zip(engines, a_token, strict=True) if engine)
        seconds += passed
        for engine, each in zip(engines, a_token, strict=True):
            for name in list(engine):
                engine[name] -= passed / each
                if engine[name] < 1e-6:
                    del engine[name]
                    left[name[0]] -= 1
                    if not left[name[0]] and rng.random() >= share:
                        kept.append(name[0])


if __name__ == "__main__":
    print(f"without a filter {step(0, PROMPTS, 1)[0]:.0f} s; share filtered | prompts at once: seconds, prompts drawn")
    for share in (0.2, 0.3, 0.5, 0.6):
        runs = {at_once: [step(share, at_once, seed) for seed in range(2)] for at_once in (128, 256, 384)}
        means = {
            at_once: [statistics.mean(one) for one in zip(*found, strict=True)] for at_once, found in runs.items()
        }
        print(share, *(f"| {n}: {seconds:.0f}, {drawn:.0f}" for n, (seconds, drawn) in means.items()), flush=True)
