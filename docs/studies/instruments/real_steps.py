"""Part a of the study of the instruments: real steps beside what `openrlhf-gtpo compare` predicts of them.

    python docs/studies/instruments/real_steps.py --model runs/quickstart/warm_start/model --data prompts.jsonl \
        --out runs/real_steps --max_new_tokens 40

Needs 960 prompts and a policy that fits the memory some dozen times in float32, such as the quickstart's.
"""

import json

import numpy as np
import torch

from openrlhf_gtpo import sampling, surroundings
from openrlhf_gtpo.batch import RolloutBatch
from openrlhf_gtpo.compare import command, gradients, methods, rollouts
from openrlhf_gtpo.compare.rises import rises

PREDICTING, STEPS, BATCH, MEASURING, RESPONSES = 512, 12, 16, 256, 16
SIZES = (2e-5, 5e-5, 1.5e-4)
METHODS = ("GRPO", "GTPO, alpha2 0", "GTPO", "GTPO, alpha2 3", "GTPO, alpha2 3, shuffled", "GRPO-S, alpha2 1")


def main() -> None:
    parser = command._parser()
    args = parser.parse_args()
    vars(args)["shaping.alpha2"] = [0.1, 1.0, 3.0]
    rollouts.complete(args, "compare")
    chosen = [method for method in methods.methods(args) if method.name in METHODS]
    args.out.mkdir(parents=True, exist_ok=True)
    first = PREDICTING + STEPS * BATCH
    table = rollouts.table_of(args, first + MEASURING)
    with rollouts.grader(args) as grade, sampling.engine(args.model, "cpu", args.seed) as llm:
        sampler = rollouts.Sampler(llm, grade, args)
        groups = list(rollouts.sampled(sampler, table[:first], "compare"))
        args.n = RESPONSES
        measured = list(rollouts.sampled(sampler, table[first:], "measure"))
    args.n = 8
    gradients.COORDINATES = 1 << 40  # all
    policy = gradients.Policy(args.model, "cpu", args.temperature, args.seed)
    weights = command.weights_of(groups, chosen, args)
    size = len(policy.share)
    subset = np.random.default_rng(0).choice(size, min(size, 1 << 17), replace=False)
    total = {name: [np.zeros(size), np.zeros(size)] for name in METHODS}
    kept, steps = [], {name: np.zeros((STEPS, size), dtype=np.float32) for name in METHODS}
    for place, (group, one) in enumerate(zip(groups, weights, strict=True)):
        if not any(one[name].any() for name in METHODS):
            continue
        found = policy.gradients(RolloutBatch([group]), one)
        for name in METHODS:
            if place < PREDICTING:
                total[name][0] += found[name]
                total[name][1] += found[name].astype(float) ** 2
            else:
                steps[name][(place - PREDICTING) // BATCH] += found[name] / BATCH
        if place < PREDICTING:
            kept.append({key: value[subset] for key, value in found.items()})
    table_of = {key: np.stack([one[key] for one in kept]) for key in kept[0]}
    share = np.full(len(subset), size / len(subset), dtype=np.float32)
    targets = {key: table_of[key] for key in ("reward", "pass", "entropy")}
    predicted = rises({name: table_of[name] for name in METHODS}, targets, PREDICTING, BATCH, share)
    base = [parameter.detach().clone() for parameter in policy.parameters]
    whole = [RolloutBatch(measured[i : i + 8]) for i in range(0, MEASURING, 8)]
    batches = [policy.inputs(one, slice(None)) for one in whole]
    drawn, reward, baseline = before(whole)
    ours = logprobs(policy, batches)
    result: dict[str, object] = {}
    for name in METHODS:
        mean, square = (one / PREDICTING for one in total[name])
        mean2 = np.maximum((PREDICTING * mean**2 - square) / (PREDICTING - 1), 0)
        scale = np.sqrt(square / BATCH + (1 - 1 / BATCH) * mean2)
        real = {}
        for eta in SIZES:
            rise = []
            for step in steps[name]:
                move(policy, base, eta * np.divide(step, scale, out=np.zeros(size), where=scale > 0))
                after = logprobs(policy, batches)
                gain = (np.exp(after - drawn) - np.exp(ours - drawn)) * (reward - baseline)
                rise.append(gain.reshape(MEASURING, RESPONSES).mean(1))
            real[eta] = np.stack(rise)  # (steps, prompts)
        move(policy, base, np.zeros(size))
        result[name] = real
        print(name, {eta: f"{one.mean():+.5f}" for eta, one in real.items()}, flush=True)
    report(result, predicted, args.out)


def before(batches):
    """(n,) of each measuring response: log-probability as it was drawn, reward, and mean of the others'."""
    drawn = np.concatenate([(one.logprob * one.mask).sum(1).numpy() for one in batches])
    reward = np.concatenate([one.reward.numpy() for one in batches]).astype(float)
    groups = reward.reshape(-1, RESPONSES)
    others = (groups.sum(1, keepdims=True) - groups) / (RESPONSES - 1)
    return drawn, reward, others.ravel()


def logprobs(policy, batches):
    """(n,) log-probability of each response."""
    with torch.no_grad():
        return np.concatenate([policy.forward(one)[0].sum(1).double().numpy() for one in batches])


def move(policy, base, step):
    """Put the weights at ``base`` and a step, (size,)."""
    place = 0
    with torch.no_grad():
        for parameter, at in zip(policy.parameters, base, strict=True):
            own = step[place : place + at.numel()]
            parameter.copy_(at + torch.from_numpy(own.reshape(at.shape)).float())
            place += at.numel()


def report(result, predicted, out):
    """The table: bootstrap over steps and prompts, both methods on the same draw."""
    draw, record = np.random.default_rng(0), {}
    for eta in SIZES:
        ratio = result["GRPO"][eta].mean() / (
            eta * predicted["GRPO"]["reward"].value / 8
        )  # a group's gradient is a sum
        print(f"step {eta:g}: GRPO rises {result['GRPO'][eta].mean():+.5f}, real over predicted {ratio:.3f}")
        picks = [(draw.integers(0, STEPS, STEPS), draw.integers(0, MEASURING, MEASURING)) for _ in range(2000)]
        for name in METHODS[1:]:
            own, grpo = result[name][eta], result["GRPO"][eta]
            ratios = [own[np.ix_(s, p)].mean() / grpo[np.ix_(s, p)].mean() for s, p in picks]
            real = (own.mean() / grpo.mean(), *np.percentile(ratios, [2.5, 97.5]))
            figure = predicted[name]["reward"].over(predicted["GRPO"]["reward"])
            record[f"{name}, {eta:g}"] = {"real": real, "predicted": vars(figure)}
            print(f"  {name:26} real {real[0]:.3f} ({real[1]:.3f} to {real[2]:.3f})  predicted {figure}", flush=True)
    (out / "real_steps.json").write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    with surroundings.prepared():
        main()
