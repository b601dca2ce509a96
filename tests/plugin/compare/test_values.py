"""The values of prefixes, against a policy whose every value is known: a table of next tokens."""

from argparse import Namespace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from openrlhf_gtpo.batch import Group, Response
from openrlhf_gtpo.compare.values import choice, valued

END, MOST = 0, 5
PROMPT = [7, 7]
RESPONSES = [(1, 2, 1, 1, END), (1, 2, 2, END), (1, 1, 1, 2, 2), (2, 1, 1, 1, 1), (1, 2, 1, 1, END)]


@cache
def following(said: tuple[int, ...]) -> np.ndarray:
    """Probabilities of the end and of tokens 1 and 2; after a 2 at the beginning there is no choice."""
    if said[:1] == (2,):
        return np.array([0.0, 1.0, 0.0])
    return np.array([0.1, 0.7, 0.2]) if len(said) % 2 == 0 else np.array([0.2, 0.2, 0.6])


def is_right(said: tuple[int, ...]) -> bool:
    return sum(said) % 3 == 0


@cache
def value(said: tuple[int, ...]) -> float:
    if said[-1:] == (END,) or len(said) == MOST:
        return float(is_right(said))
    return sum(p * value((*said, token)) for token, p in enumerate(following(said)))


class Table:
    """In place of `openrlhf_gtpo.compare.rollouts.Sampler`."""

    tokenizer = SimpleNamespace(decode=lambda tokens: str(tokens[0]))

    def __init__(self, seed: int) -> None:
        self.args = Namespace(seed=seed, max_new_tokens=MOST)
        self.asked: list[tuple[int, ...]] = []
        self.seeds: list[int] = []

    def sample(self, prefixes: Any, counts: Any, rooms: Any, seeds: Any) -> list[Any]:
        self.asked += [tuple(prefix[len(PROMPT) :]) for prefix in prefixes]
        self.seeds += seeds
        return [
            SimpleNamespace(outputs=[self._one(tuple(prefix[len(PROMPT) :]), room, rng) for _ in range(count)])
            for prefix, count, room, rng in zip(
                prefixes, counts, rooms, map(np.random.default_rng, seeds), strict=True
            )
        ]

    def _one(self, prefix: tuple[int, ...], room: int, rng: Any) -> Any:
        said = prefix
        while len(said) < len(prefix) + room and said[-1:] != (END,):
            said = (*said, int(rng.choice(3, p=following(said))))
        return SimpleNamespace(token_ids=list(said[len(prefix) :]))

    def text(self, tokens: Any) -> str:
        return "".join(map(str, tokens))

    def grade(self, texts: Any, rows: Any) -> list[Any]:
        assert len(rows) == len(texts)
        return [SimpleNamespace(score=float(is_right(tuple(map(int, text))))) for text in texts]


def group(responses: Any = RESPONSES) -> Group:
    def response(said: tuple[int, ...]) -> Response:
        p = [following(said[:t])[token] for t, token in enumerate(said)]
        returned = {
            "observation_tokens": [*PROMPT, *said],
            "action_ranges": [(len(PROMPT), len(PROMPT) + len(said))],
            "entropy": np.zeros(len(PROMPT) + len(said)),
            "logprob": np.log([1, 1, *p]),
            "scores": float(is_right(said)),
            "prompt": "?",
            "label": "0",
        }
        return Response(returned, len(PROMPT) + len(said))

    return Group([response(said) for said in responses])


def truth(said: tuple[int, ...]) -> np.ndarray:
    return np.array([value(said[:t]) for t in range(len(said) + 1)])


@pytest.mark.parametrize("positions", [None, 2])
def test_values_and_what_is_made_of_them_are_right_on_average(positions: int | None) -> None:
    """A of each stream, A^2 of halves, and the gradient 1 - 2 p + sum p^2; of chosen tokens with their weights."""
    runs, expected = 200, []
    for said in RESPONSES:
        a, p = np.diff(truth(said)), np.stack([following(said[:t]) for t in range(len(said))])
        gradient = ((np.eye(3)[list(said)] - p) ** 2).sum(1)
        expected.append([*np.cumsum([a, a, a, a], 1)[:, 2], (a**2).sum(), gradient.sum()])
    found = np.empty((runs, *np.shape(expected)))
    for seed in range(runs):
        for place, line in enumerate(valued(Table(seed), [(group(), None)], 4, positions)[0][0]):  # type: ignore
            weight, streams = line["weight"], np.nan_to_num(np.diff(line["values"]))
            square = (streams[0] + streams[1]) * (streams[2] + streams[3]) / 4
            gradient = 1 - 2 * np.exp(line["logprob"]) + np.nan_to_num(line["agreement"])
            found[seed, place] = *(weight * streams)[:, :3].sum(1), (weight * square).sum(), (weight * gradient).sum()
    error = found.std(0) / np.sqrt(runs)
    assert (np.abs(found.mean(0) - expected) < 4.5 * error + 1e-9).all()
    assert (error < 0.1).all()


def test_each_prefix_has_k_draws_and_only_what_is_missing_is_drawn() -> None:
    table = Table(3)
    (lines,), made = valued(table, [(group(), None)], 4, None)  # type: ignore[list-item]
    for line in lines:
        assert (line["values"] * 2 % 1 == 0).all(), "two draws in each stream"
        assert (line["values"][:, -1] == line["correct"]).all()
    assert {prefix for prefix in table.asked if prefix[:1] == (2,)} == {(2,)}, "the others come through longer ones"
    assert len(table.asked) == len(set(table.asked)) == len(set(table.seeds))
    assert made < 8 * sum(len(line["tokens"]) for line in lines)


def test_tokens_are_chosen_in_proportion_to_what_they_can_change() -> None:
    """Two of five: the second for certain; what can change nothing never."""
    uniform = (np.arange(1000) + 0.5) / 1000
    weights = np.stack([choice(np.array([0, 0.6, 0.2, 0.1, 0.1]), 2, one) for one in uniform])
    assert (weights > 0).mean(0) == pytest.approx([0, 1, 0.4, 0.2, 0.2])
    assert weights.mean(0) == pytest.approx([0, 1, 1, 1, 1])
    assert (weights > 0).sum(1).max() <= 2
    assert choice(np.array([0.5, 0.0]), None, 0.3).tolist() == [1, 1]
