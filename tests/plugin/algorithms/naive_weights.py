"""The controls of docs/examples/controls.py a second time, with loops over plain numbers: what stands in the place of
each token's entropy."""


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
