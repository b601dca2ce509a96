"""openrlhf-gtpo compare: how far a step along each estimator's gradient raises the expected reward and pass@k, and
what it costs in entropy, relative to GRPO's step: on the same rollouts of one policy, with 95 % intervals over
prompts."""

import argparse
import contextlib
import json
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from openrlhf_gtpo import sampling
from openrlhf_gtpo.batch import Group, RolloutBatch
from openrlhf_gtpo.compare import methods as compared
from openrlhf_gtpo.compare import rollouts
from openrlhf_gtpo.compare.picture import page, picture
from openrlhf_gtpo.compare.rises import Figure, leave_one_out, rises
from openrlhf_gtpo.device import choose_device
from openrlhf_gtpo.errors import SettingsError, UserError
from openrlhf_gtpo.flags import COUNT, Parser
from openrlhf_gtpo.sampling import say
from openrlhf_gtpo.seeds import derived

EVERY = 15
"""Seconds between lines of progress."""
FEWEST = 8
"""Groups with a gradient, below which intervals say nothing."""


def main(argv: Sequence[str]) -> int:
    """Sample, grade, compute gradients, and write compare.json and compare.png.

    Raises:
        SettingsError: the command line or a file is refused.
        UserError: there is nothing to compare, or a reward or an estimator failed.
    """
    args = _parser().parse_args(argv)
    rollouts.complete(args, "compare")
    if args.k >= args.n:
        raise SettingsError(f"--k is {args.k}, but pass@k's gradient needs k below --n, which is {args.n}.")
    estimators = compared.methods(args)
    table = rollouts.table_of(args, args.prompts)
    args.out.mkdir(parents=True, exist_ok=True)
    args.model = sampling.merged(args.model, args.out)
    device = choose_device(args.device)
    from openrlhf_gtpo.compare.gradients import check_memory

    check_memory(args.model, device)
    with rollouts.grader(args) as grade, rollouts.engine(args, device) as llm:
        groups: list[Group] = []
        with contextlib.suppress(KeyboardInterrupt):
            groups.extend(rollouts.sampled(rollouts.Sampler(llm, grade, args), table, "compare"))
    gradients, prompts = _gradients(groups, estimators, args, device)
    found = _figures(gradients, [method.name for method in estimators], prompts, args)
    about = {
        "model": args.model,
        "data": args.data,
        "prompts": prompts,
        "prompts with a gradient": len(gradients["entropy"]),
        "responses to each": args.n,
        "pass rate": float(np.mean([one.is_correct for group in groups for one in group.policy])),
        "prompts of an update": args.batch,
        "steps": "plain" if args.plain else "Adam's",
        "k": args.k,
    }
    record = {**about, "methods": {name: {key: vars(one) for key, one in row.items()} for name, row in found.items()}}
    (args.out / "compare.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    picture(found, f"pass@{args.k}", args.out / "compare.png")
    print(report(found, about))
    print(f"Written to {args.out / 'compare.json'} and {args.out / 'compare.png'}.")
    if args.html:
        page(found, about, sentences(found), args.html)
        print(f"Written to {args.html}.")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="openrlhf-gtpo compare", description=__doc__)
    rollouts.add_flags(parser, 256, "prompts, the first of the data")
    compared.add_flags(parser)
    add = parser.add_argument
    add("--k", type=COUNT, default=4, help="of pass@k, below n")
    add("--batch", type=COUNT, help="prompts of an update (16)")
    add("--plain", action="store_true", help="plain gradient steps in place of Adam's")
    add("--html", metavar="FILE", help="write a page too")
    return parser


def _gradients(
    groups: Sequence[Group], estimators: Sequence[compared.Method], args: argparse.Namespace, device: str
) -> tuple[dict[str, np.ndarray], int]:
    """(n, K) each, of the n groups that have a gradient: "reward", "pass", "entropy" and each method's; and (K,)
    "share". With the number of prompts that they are of. Ctrl-C ends it with the groups that are done."""
    from openrlhf_gtpo.compare.gradients import Policy

    if not groups:
        raise UserError("Interrupted before the first responses were graded: there is nothing to compare.")
    weights = weights_of(groups, estimators, args)
    active = [i for i, one in enumerate(weights) if any(table.any() for table in one.values())]
    rate = np.mean([one.is_correct for group in groups for one in group.policy])
    if not active:
        raise rollouts.none_mixed(len(groups), float(rate))
    policy = Policy(args.model, device, args.temperature, args.seed)
    order = np.random.default_rng(derived(args.seed, "order") % 2**63).permutation(active)
    found: list[dict[str, np.ndarray]] = []
    begin = said = time.monotonic()
    try:
        for done, place in enumerate(order, start=1):
            found.append(policy.gradients(RolloutBatch([groups[place]]), weights[place]))
            now = time.monotonic()
            if now - said > EVERY or done == len(order):
                left, said = (now - begin) / done * (len(order) - done), now
                say(f"gradients of {done} of {len(order)} groups, {left:.0f} s left (Ctrl-C: go on with these)")
    except KeyboardInterrupt:
        say(f"interrupted: {len(found)} of {len(order)} groups are compared")
    if len(found) < FEWEST:
        raise UserError(
            f"Only {len(found)} groups have a gradient, of {len(groups)} prompts with a pass rate of {rate:.2f}, and "
            f"intervals need {FEWEST}: take more prompts (--prompts) or more responses to each (--n)."
        )
    keys = list(found[0])
    # One after the other, so that memory holds them once.
    stacked = {key: np.stack([one.pop(key) for one in found]) for key in keys}
    return {**stacked, "share": policy.share}, round(len(groups) * len(found) / len(order))


def weights_of(
    groups: Sequence[Group], estimators: Sequence[compared.Method], args: argparse.Namespace
) -> list[dict[str, Any]]:
    """For each group the weights of its tokens, (n, T) for each method; those of "reward" and "pass" are what makes
    the gradients of the expected reward (leave-one-out REINFORCE, arXiv 2402.14740) and of pass@k without bias.

    Methods see as many groups at once as an update has.
    """
    import torch

    found = []
    for first in range(0, len(groups), args.batch):
        part = groups[first : first + args.batch]
        batch = RolloutBatch(list(part), seed=derived(args.seed, "weights", first))
        tables = compared.weights_of(estimators, batch)
        for number, group in enumerate(part):
            own = RolloutBatch([group])
            rows = batch.group == number
            width = own.mask.shape[1]
            right = np.array([response.is_correct for response in group.policy])
            n = len(right)
            reward = own.reward - (own.reward.sum() - own.reward) / (n - 1)
            passed = torch.tensor(leave_one_out(right, args.k))
            one = {name: table[rows, :width] for name, table in tables.items()}
            targets = {"reward": reward, "pass": passed}
            found.append({**one, **{key: value.float()[:, None] * own.mask for key, value in targets.items()}})
    return found


def _figures(
    gradients: dict[str, np.ndarray], names: Sequence[str], groups: int, args: argparse.Namespace
) -> dict[str, dict[str, Figure]]:
    """Method -> reward, pass@k, entropy and signal, each relative to GRPO's."""
    targets = {key: gradients[key] for key in ("reward", "pass", "entropy")}
    methods = {name: gradients[name] for name in names}
    found = rises(methods, targets, groups, args.batch, gradients["share"], adam=not args.plain)
    grpo = found["GRPO"]
    if not grpo["reward"].is_positive:
        say("warning: so few groups do not show that GRPO's own step raises the reward: take more --prompts")
    return {name: {key: one.over(grpo[key]) for key, one in row.items()} for name, row in found.items()}


COLUMNS = {"reward": "reward", "pass": "pass@k", "entropy": "entropy lost", "signal": "signal to noise"}


def report(found: dict[str, dict[str, Figure]], about: dict[str, Any]) -> str:
    """The table, and a sentence for each method."""
    heads = [head.replace("@k", f"@{about['k']}") for head in COLUMNS.values()]
    width = max(map(len, found)) + 2
    lines = [
        f"{about['prompts with a gradient']} of {about['prompts']} prompts have a gradient, "
        f"{about['responses to each']} responses to each, pass rate {about['pass rate']:.2f}; {about['steps']} "
        f"steps of {about['prompts of an update']} prompts. Relative to GRPO's, 95 % intervals over prompts:",
        "",
        f"{'':{width}}" + "".join(f"{head:<26}" for head in heads),
    ]
    for name, row in found.items():
        cells = ["1" if name == "GRPO" else str(row[key]) for key in COLUMNS]
        lines.append(f"{name:{width}}" + "".join(f"{cell:<26}" for cell in cells).rstrip())
    return "\n".join([*lines, "", *sentences(found), "", FIRST_ORDER])


FIRST_ORDER = "This is where a small step leads from this policy, not where a whole run ends."


def sentences(found: dict[str, dict[str, Figure]]) -> list[str]:
    """One for each method but GRPO."""
    lines = []
    for name, row in found.items():
        if name == "GRPO":
            continue
        reward, entropy = row["reward"], row["entropy"]
        sure = "" if reward.low > 1 or reward.high < 1 else ", which may be no difference"
        verb = "loses" if entropy.mean >= 0 else "gains"
        lines.append(
            f"A step of {name} raises the reward by {reward} of GRPO's{sure}, and {verb} entropy "
            f"{abs(entropy.mean):.2f} times as fast as GRPO's loses it."
        )
    return lines
