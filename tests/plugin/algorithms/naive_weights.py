"""The controls of docs/examples/controls.py a second time, with loops over plain numbers: what stands in the place of
each token's entropy. A permutation cannot be foretold, so of shuffled weights there are only the places that exchange
their entropies."""


def naive_weights(weights, entropy, logprob, mask):
    """Nested lists; 0 off the mask."""
    rows = []
    for h, p, keep in zip(entropy, logprob, mask, strict=True):
        source = [-min(x, 0.0) for x in p] if weights == "surprisal" else h
        row = [x for x, m in zip(source, keep, strict=True) if m]
        if weights == "uniform":
            row = [1.0] * len(row)
        if weights == "inverse":
            row = [1 / max(x, 1e-6) for x in row]
        numbers = iter(row)
        rows.append([next(numbers) if m else 0.0 for m in keep])
    return rows


def exchanging(mask, correct, group):
    """The lists of (row, column) of tokens at the same position of the same group and class."""
    found = {}
    for i, keep in enumerate(mask):
        position = 0
        for column, m in enumerate(keep):
            if m:
                found.setdefault((group[i], correct[i], position), []).append((i, column))
                position += 1
    return list(found.values())
