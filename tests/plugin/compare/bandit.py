"""A policy small enough that every group of four responses can be listed, so that expectations are exact: two
tokens, each 0 or 1, three prompts that share five parameters. A response is right with both tokens as wanted."""

import itertools
from dataclasses import dataclass

import numpy as np

from openrlhf_gtpo.batch import Group, Response

SIZE = 4
FEATURES = np.array([[1.0, 0.2, -0.5, 0.0, 0.4], [0.3, -1.0, 0.6, 0.8, 0.0], [-0.6, 0.5, 1.0, -0.3, 0.7]])
AFTER = np.array([0.5, -0.4, 0.2, 0.9, -0.8])
WANTED = ((1, 1), (1, 0), (0, 1))
THETA = np.array([0.3, -0.2, 0.1, 0.4, -0.5])
RESPONSES = list(itertools.product((0, 1), repeat=2))


def _states(prompt: int, first: int) -> list[np.ndarray]:
    """The features of each token's state; a token is 1 with probability sigmoid(theta . features)."""
    return [FEATURES[prompt], FEATURES[prompt] * AFTER + (0.7 if first else -0.7)]


def of_response(prompt: int, tokens: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Log-probability (2,), entropy (2,), and their gradients (2, 5) each, of the response's tokens."""
    logprob, entropy, scores, of_entropy = [], [], [], []
    for token, x in zip(tokens, _states(prompt, tokens[0]), strict=True):
        p = 1 / (1 + np.exp(-THETA @ x))
        logprob.append(np.log(p if token else 1 - p))
        entropy.append(-p * np.log(p) - (1 - p) * np.log(1 - p))
        scores.append((token - p) * x)
        of_entropy.append(-p * (1 - p) * (THETA @ x) * x)
    return np.array(logprob), np.array(entropy), np.array(scores), np.array(of_entropy)


@dataclass(frozen=True)
class Outcome:
    """A group that may be drawn."""

    probability: float
    group: Group
    scores: np.ndarray
    """(4, 2, 5) gradients of log-probabilities."""
    entropy: np.ndarray
    """(5,) gradient of the mean entropy of its tokens."""

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        """(5,) of (4, 2) weights."""
        return np.einsum("nt,ntd->d", weights, self.scores)


def outcomes() -> list[Outcome]:
    """Every group of every prompt; their probabilities add up to 1."""
    found = []
    for prompt in range(3):
        one = {tokens: of_response(prompt, tokens) for tokens in RESPONSES}
        for chosen in itertools.product(RESPONSES, repeat=SIZE):
            responses = [
                Response(
                    {
                        "observation_tokens": [0, *tokens],
                        "action_ranges": [(1, 3)],
                        "entropy": np.array([0, *one[tokens][1]], dtype=np.float32),
                        "logprob": np.array([0, *one[tokens][0]], dtype=np.float32),
                        "answer_end": 3,
                        "scores": float(tokens == WANTED[prompt]),
                        "reward": float(tokens == WANTED[prompt]),
                    },
                    3,
                )
                for tokens in chosen
            ]
            found.append(
                Outcome(
                    float(np.exp(sum(one[tokens][0].sum() for tokens in chosen))) / 3,
                    Group(responses),
                    np.stack([one[tokens][2] for tokens in chosen]),
                    np.mean([one[tokens][3] for tokens in chosen], axis=(0, 1)),
                )
            )
    return found
