"""The value of every prefix of a response, P(right | prompt and response so far), from fresh continuations, as VinePPO
(arXiv 2410.01679) has them for steps of reasoning, here for tokens.

Prefixes are valued from short to long. A draw that runs through a longer chosen prefix is a fair draw of that one's
continuations: it counts there too, and only what is missing is drawn. How many are missing depends on which tokens
were drawn, never on how they end, so each value stays without bias."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from openrlhf_gtpo.batch import Group
from openrlhf_gtpo.compare.rollouts import Sampler
from openrlhf_gtpo.data.table import Row
from openrlhf_gtpo.seeds import derived

STREAMS = 4
"""Independent sets of draws, two for each half: a square needs two, and one of what a half has ranked two more."""
Prefix = tuple[int, ...]


def choice(bound: np.ndarray, count: int | None, uniform: float) -> np.ndarray:
    """Choose at most ``count`` tokens, all without one, in proportion to ``bound``, (T,), by systematic sampling.

    Returns:
        (T,) 1 / the probability with which a token was chosen, 0 where it was not.
    """
    chance = np.ones(len(bound)) if count is None else np.minimum(1, count * bound / max(bound.sum(), 1e-9))
    marks = np.cumsum(chance) + uniform
    return np.divide(1, chance, out=np.zeros(len(bound)), where=np.floor(marks) > np.floor(marks - chance))


class Prefixes:
    """The chosen prefixes of a group's responses, each once, with the draws that ran through them."""

    def __init__(self, group: Group, row: Row, positions: int | None, seed: int) -> None:
        self.row, self.responses, self.place = row, [one.returned for one in group.policy], group.policy[0].place[1]
        begin = self.responses[0]["action_ranges"][0][0]
        self.prompt: list[int] = self.responses[0]["observation_tokens"][:begin]
        self.tokens: list[Prefix] = [tuple(one["observation_tokens"][begin:]) for one in self.responses]
        self.weight = []
        for number, one in enumerate(self.responses):
            bound = -np.expm1(np.minimum(np.asarray(one["logprob"][begin:], float), 0))
            uniform = derived(seed, "credit", self.place, "positions", number) / 2**63
            self.weight.append(choice(bound, positions, uniform))
        self.draws: dict[Prefix, list[list[tuple[int, bool]]]] = {
            tokens[:length]: [[] for _ in range(STREAMS)]
            for tokens, weight in zip(self.tokens, self.weight, strict=True)
            for t in np.flatnonzero(weight)
            for length in (t, t + 1)
            if length < len(tokens)
        }
        """Of a prefix, in each stream, the next token of each draw and whether it ended right."""
        self.lengths = sorted({len(prefix) for prefix in self.draws})

    def within(self, tokens: Prefix) -> list[Prefix]:
        """The chosen prefixes that tokens run through, short ones first."""
        return [tokens[:n] for n in self.lengths if n < len(tokens) and tokens[:n] in self.draws]

    def lines(self, tokenizer: Any) -> list[dict[str, Any]]:
        """The responses, as `valued` returns them, when all draws are made."""
        found = []
        for one, tokens, weight in zip(self.responses, self.tokens, self.weight, strict=True):
            values, agreement = np.full((STREAMS, len(tokens) + 1), np.nan), np.full(len(tokens), np.nan)
            values[:, -1] = right = one["scores"] == 1
            for prefix in self.within(tokens):
                values[:, len(prefix)] = [
                    np.mean([is_right for _, is_right in stream]) for stream in self.draws[prefix]
                ]
                alike = np.array([*Counter(token for stream in self.draws[prefix] for token, _ in stream).values()])
                agreement[len(prefix)] = (alike * (alike - 1)).sum() / (alike.sum() * (alike.sum() - 1))
            pieces = [tokenizer.decode([token]) for token in tokens]
            said = {"prompt": one["prompt"], "label": one["label"], "correct": right, "tokens": pieces}
            said |= {name: np.asarray(one[name][-len(tokens) :], float) for name in ("entropy", "logprob")}
            said |= {"values": values, "advantage": np.diff(values).mean(0), "agreement": agreement, "weight": weight}
            found.append(said)
        return found


def valued(
    sampler: Sampler,
    groups: Sequence[tuple[Group, Row]],
    k: int,
    positions: int | None,
    progress: Callable[[float], None] = lambda share: None,
) -> tuple[list[list[dict[str, Any]]], int]:
    """The value of every prefix of each group's responses.

    Args:
        sampler: with an engine.
        groups: as many as keep the engine busy.
        k: continuations in each half, an even number.
        positions: how many tokens of a response are valued, drawn in proportion to 1 - p(token), which is the most
            that a token can change; None for all.
        progress: told the share of the prefixes that are valued.

    Returns:
        Each group's responses, lines of values.jsonl, and how many tokens were drawn. A response of T tokens has
        "values", (4, T + 1), P(right) after t tokens by each stream, at the end the verdict; "advantage", (T,), what
        each token changed; "agreement", (T,), how often two draws choose the same next token, on average sum p^2;
        NaN where it was not asked for; and "weight", (T,), of `choice`.
    """
    seed, made, done = sampler.args.seed, 0, 0
    trees = [Prefixes(group, row, positions, seed) for group, row in groups]
    waves: dict[int, dict[tuple[int, Prefix], Prefixes]] = {}
    for tree in trees:
        for tokens in tree.tokens:
            for wave, prefix in enumerate(tree.within(tokens)):
                waves.setdefault(wave, {})[tree.place, prefix] = tree
    for _, now in sorted(waves.items()):
        missing = [(tree, one, [k // 2 - len(stream) for stream in tree.draws[one]]) for (_, one), tree in now.items()]
        missing = [(tree, prefix, short) for tree, prefix, short in missing if any(short)]
        outputs = sampler.sample(
            [[*tree.prompt, *prefix] for tree, prefix, _ in missing],
            [sum(short) for *_, short in missing],
            [sampler.args.max_new_tokens - len(prefix) for _, prefix, _ in missing],
            [derived(seed, "credit", tree.place, "prefix", *prefix) for tree, prefix, _ in missing],
        )
        draws = [
            (tree, prefix, stream, (*prefix, *one.token_ids))
            for (tree, prefix, short), output in zip(missing, outputs, strict=True)
            for stream, one in zip(np.repeat(range(STREAMS), short).tolist(), output.outputs, strict=True)
        ]
        grades = sampler.grade([sampler.text(tokens) for *_, tokens in draws], [tree.row for tree, *_ in draws])
        for (tree, prefix, stream, tokens), grade in zip(draws, grades, strict=True):
            for longer in tree.within(tokens):
                if len(longer) >= len(prefix):
                    tree.draws[longer][stream].append((tokens[len(longer)], grade.score == 1))
            made += len(tokens) - len(prefix)
        done += len(now)
        progress(done / sum(map(len, waves.values())))
    return [tree.lines(sampler.tokenizer) for tree in trees], made
