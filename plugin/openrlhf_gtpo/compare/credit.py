"""openrlhf-gtpo credit: what each token was worth, by fresh continuations of every prefix; how much of what decided
lies where entropy is high, what such tokens deserve, and how much of it each estimator credits, with 95 % intervals
over prompts."""

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from openrlhf_gtpo import sampling
from openrlhf_gtpo.batch import Group, RolloutBatch
from openrlhf_gtpo.compare import methods as compared
from openrlhf_gtpo.compare import rollouts
from openrlhf_gtpo.compare.credit_picture import picture
from openrlhf_gtpo.compare.deserved import Tokens, by_entropy, explained, figure, rankings
from openrlhf_gtpo.compare.values import valued
from openrlhf_gtpo.data.table import Row
from openrlhf_gtpo.device import choose_device
from openrlhf_gtpo.errors import UserError
from openrlhf_gtpo.flags import Parser, number
from openrlhf_gtpo.sampling import say
from openrlhf_gtpo.seeds import derived

AT_ONCE = 4
"""Prompts whose continuations are drawn together: what Ctrl-C loses, at most."""
EVERY = 15
"""Seconds between lines of progress."""
SHARES = (10, 20, 50)
"""% of tokens in the table; the curves have all from 0 to 100."""
SIDES = ("right", "wrong")
NATS = ("<0.01", "0.01-0.1", "0.1-0.5", "0.5-1", "1-2", ">2")


def main(argv: Sequence[str]) -> int:
    """Sample, grade, value prefixes, and write credit.json, credit.png and values.jsonl.

    Raises:
        SettingsError: the command line or a file is refused.
        UserError: there is nothing to value, or a reward or an estimator failed.
    """
    args = _parser().parse_args(argv)
    args.k += args.k % 2
    rollouts.complete(args, "credit")
    estimators, table = compared.methods(args), rollouts.table_of(args)
    args.out.mkdir(parents=True, exist_ok=True)
    args.model, device = sampling.merged(args.model, args.out), choose_device(args.device)
    with rollouts.grader(args) as grade, rollouts.engine(args, device) as llm:
        sampler, groups, rates = rollouts.Sampler(llm, grade, args), [], []
        for group, row in zip(rollouts.sampled(sampler, table, "credit"), table, strict=True):
            rates.append(float(np.mean([one.is_correct for one in group.policy])))
            groups += [(group, row)] if rollouts.is_mixed(group) else []
            if len(groups) == args.prompts:
                break
        if not groups:
            raise rollouts.none_mixed(len(rates), float(np.mean(rates)))
        if len(groups) < args.prompts:
            say(f"warning: the data have {len(groups)} such prompts, not {args.prompts}: intervals need more --data")
        found, made = _valued(sampler, groups, args)
    batch = RolloutBatch([group for group, _ in groups[: len(found)]], seed=derived(args.seed, "weights"))
    weights = compared.weights_of(estimators, batch)
    credits = {name: one[batch.mask].double().numpy() for name, one in weights.items()}
    tokens = tokens_of(found)
    about = {"model": args.model, "data": args.data, "prompts": len(found), "prompts sampled": len(rates)}
    about |= {"pass rate": float(np.mean(rates)), "responses to each": args.n, "tokens": len(tokens.prompt)}
    about |= {"tokens valued": int((tokens.weight > 0).sum()), "continuations": 2 * args.k, "tokens drawn": made}
    record = about | figures(tokens, credits)
    (args.out / "credit.json").write_text(json.dumps(record, indent=2, default=_plain) + "\n", encoding="utf-8")
    with (args.out / "values.jsonl").open("w", encoding="utf-8") as file:
        for line in (line for group in found for line in group):
            file.write(json.dumps(line, ensure_ascii=False, default=_plain) + "\n")
    picture(found, record, args.out / "credit.png")
    print("\n".join(report(record)))
    print(f"Written to {args.out}: credit.json, credit.png and values.jsonl.")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="openrlhf-gtpo credit", description=__doc__)
    rollouts.add_flags(parser, 16, "prompts with right and wrong responses, the first of the data (16)")
    compared.add_flags(parser)
    halves = "continuations of each prefix in each of two halves, an odd number one more (16)"
    parser.add_argument("--k", type=number(2, int), default=16, help=halves)
    some = "N tokens of each response, drawn by what they can change, or all (all)"
    parser.add_argument("--positions", type=number_or_all, metavar="N", help=some)
    return parser


def number_or_all(text: str) -> int | None:
    return None if text == "all" else int(number(1, int)(text))


def _plain(value: Any) -> Any:
    """An array or a `Figure` for JSON, with null where there is no number."""
    if isinstance(value, np.ndarray):
        return np.where(np.isnan(value), np.array(None), value.round(5)).tolist()
    return dict(zip(vars(value), _plain(np.array([*vars(value).values()])), strict=True))


def _valued(
    sampler: rollouts.Sampler, groups: Sequence[tuple[Group, Row]], args: argparse.Namespace
) -> tuple[list[list[dict[str, Any]]], int]:
    """`valued`, some prompts at a time; after Ctrl-C those that are done."""
    found: list[list[dict[str, Any]]] = []
    begin = said = time.monotonic()
    made = 0

    def progress(share: float) -> None:
        nonlocal said
        now, done = time.monotonic(), (len(found) + share * min(AT_ONCE, len(groups) - len(found))) / len(groups)
        if now - said > EVERY and done > 0.02:  # the first prefixes are the most work
            left, said = (now - begin) * (1 / done - 1) / 60, now
            say(f"{100 * done:.0f} % of the prefixes valued, {left:.1f} min left (Ctrl-C: go on with whole prompts)")

    try:
        while len(found) < len(groups):
            part = groups[len(found) : len(found) + AT_ONCE]
            more, drawn = valued(sampler, part, args.k, args.positions, progress)
            found, made = found + more, made + drawn
    except KeyboardInterrupt:
        if not found:
            raise UserError(
                f"Interrupted before the first {AT_ONCE} prompts were valued, so nothing is written: a smaller --k or "
                "--positions takes less time."
            ) from None
        say(f"interrupted: {len(found)} of {len(groups)} prompts are valued")
    return found, made


def tokens_of(found: Sequence[Sequence[Mapping[str, Any]]]) -> Tokens:
    """The tokens of groups of responses of `valued`."""
    columns = [
        {
            "prompt": np.full(len(line["tokens"]), place),
            "right": np.full(len(line["tokens"]), line["correct"]),
            "position": np.arange(len(line["tokens"])),
            **{key: line[key] for key in ("entropy", "logprob", "weight")},
            "worth": np.nan_to_num(np.diff(line["values"])),
            "gradient": np.nan_to_num(1 - 2 * np.exp(line["logprob"]) + line["agreement"]),
        }
        for place, group in enumerate(found)
        for line in group
    ]
    return Tokens(**{key: np.concatenate([one[key] for one in columns], axis=-1) for key in columns[0]})


def figures(tokens: Tokens, credits: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """What credit.json has of the statistics."""
    curves, share = rankings(tokens, np.linspace(0, 1, 101)), explained(tokens, credits)
    worth = tokens.weight * tokens.halves.mean(0)

    def scaled(credit: np.ndarray, side: bool) -> list[float | None]:
        scale = worth[tokens.right == side].sum() / (credit[tokens.right == side].sum() or np.inf)
        return _plain(np.array([scale * one.mean for one in by_entropy(tokens, credit, side)]))

    return {
        "method": "GTPO" if "GTPO" in credits else [*credits][-1],
        "share of what decided": {k: {f"{x} %": figure(v[:, x]) for x in SHARES} for k, v in curves.items()},
        "curves": {name: curve[0].tolist() for name, curve in curves.items()},
        "mean advantage": {s: dict(zip(NATS, by_entropy(tokens, worth, s == "right"), strict=True)) for s in SIDES},
        "mean credit": {name: {s: scaled(one, s == "right") for s in SIDES} for name, one in credits.items()},
        "explained": {k: {"share": figure(v), "minus GRPO": figure(v - share["GRPO"])} for k, v in share.items()},
    }


def report(record: Mapping[str, Any]) -> Iterator[str]:
    """The tables, and what they say."""
    decided, worth, share = (record[name] for name in ("share of what decided", "mean advantage", "explained"))
    yield (
        f"{record['prompts']} prompts with right and wrong responses, of {record['prompts sampled']} with a pass rate "
        f"of {record['pass rate']:.2f}. {record['tokens valued']:,} of {record['tokens']:,} tokens are valued, by "
        f"{record['continuations']} continuations of a prefix: {record['tokens drawn']:,} tokens. 95 % intervals over "
        "prompts."
    )
    rows = {f"by {name}" if "," not in name else name: [*row.values()] for name, row in decided.items()}
    rows["random"] = [f"{x / 100:.3f}" for x in SHARES]
    yield from _table("What decided: share of the sum of A² in the top", [f"{x} % of tokens" for x in SHARES], rows)
    rows = {f"{nats} nats": [worth[side][nats] for side in SIDES] for nats in NATS}
    yield from _table("What tokens deserve: mean A by entropy", [f"{side} responses" for side in SIDES], rows)
    rows = {name: [*row.values()][: 1 if name == "GRPO" else 2] for name, row in share.items()}
    yield from _table("True credit: share that is explained by", ["", "minus GRPO's"], rows)
    top, best = decided["entropy"]["20 %"], decided["best, at least"]["20 %"].mean
    does = "Entropy marks decisions here" if top.low > 0.2 else "That entropy marks decisions is not shown"
    yield (
        f"\n{does}: the top 20 % of tokens by entropy hold {top} of what decided, random tokens 0.20, the best "
        f"possible {best:.2f} or more."
    )
    name, far = record["method"], share[record["method"]]["minus GRPO"]
    if far.low <= 0 <= far.high:
        yield f"That {name} explains more or less of the true credit than GRPO is not shown: the difference is {far}."
    else:
        verb = "more" if far.low > 0 else "less"
        yield f"{name} explains {verb} of the true credit than GRPO: the difference is {far}."


def _table(title: str, heads: Sequence[str], rows: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    width = max(48, *(len(name) + 2 for name in rows))
    yield f"\n{title:<{width + 2}}" + "".join(f"{head:<26}" for head in heads).rstrip()
    for name, cells in rows.items():
        said = ["no tokens" if "nan" in str(cell) else str(cell) for cell in cells]
        yield f"  {name:<{width}}" + "".join(f"{cell:<26}" for cell in said).rstrip()
