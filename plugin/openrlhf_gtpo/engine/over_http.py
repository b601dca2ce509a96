"""Reads entropies out of the answers of vLLM's server, with Python's standard library alone.

vLLM writes them where the most likely tokens would stand: beside the sampled token, under token 0, or under token 1 if
0 was sampled. `openrlhf_gtpo.vllm_entropy` has the public names."""

import json
import math
import os
import re
import statistics
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from openrlhf_gtpo.errors import EntropyMissing, reason

HTTP_FIELDS: dict[str, Any] = {"logprobs": 1, "return_tokens_as_token_ids": True}
"""What a request to ``/v1/completions`` needs to get entropies."""

APART = 1e-3
"""Nats that the entropies of a server's check may be off, for arithmetic in float32."""

_ID = re.compile(r"token_id:(\d+)")
"""How vLLM names a token by its id."""


@dataclass
class Served:
    """The sampled tokens of one choice of an answer, one entry each."""

    tokens: list[int] = field(default_factory=list)
    """Ids."""
    logprobs: list[float] = field(default_factory=list)
    """Nats, <= 0: of the token, in the distribution it was sampled from."""
    entropies: list[float] = field(default_factory=list)
    """Nats, >= 0: of that distribution."""


def read_http(answer: Mapping[str, Any]) -> list[Served]:
    """Tokens, log-probabilities and entropies of an answer of vLLM's server.

    Args:
        answer: the JSON of ``/v1/completions``, to a request with `HTTP_FIELDS` and without ``echo``.

    Returns:
        One for each choice, in the order of their indices: n for each prompt.

    Raises:
        EntropyMissing: the request did not ask for entropies, the server has no hook, or the answer does not show
            which number is an entropy. One sentence says which, and what to do.
    """
    if "choices" not in answer:
        raise EntropyMissing(f"vLLM's answer has no choices; it is {json.dumps(answer)[:300]}.")
    return [_read_choice(choice) for choice in sorted(answer["choices"], key=lambda choice: choice["index"])]


def _read_choice(choice: Mapping[str, Any]) -> Served:
    given, served = choice.get("logprobs"), Served()
    if given is None:
        raise EntropyMissing("The request did not ask for log-probabilities: add HTTP_FIELDS to it.")
    for name, logprob, beside in zip(given["tokens"], given["token_logprobs"], given["top_logprobs"], strict=True):
        token = f"Token {len(served.tokens) + 1} ({name})"
        number = _ID.fullmatch(name)
        if number is None:
            raise EntropyMissing(
                f"{token} is named by its text, which two tokens may share, so that its entropy cannot be told: ask "
                "for return_tokens_as_token_ids."
            )
        if beside is None:  # which the first token of a prompt has, and no other
            raise EntropyMissing("The answer begins with the prompt, whose tokens have no entropies: leave echo out.")
        entropy = beside.get("token_id:1" if number[1] == "0" else "token_id:0", -1.0)
        if logprob is None or entropy is None or math.isnan(entropy):
            raise EntropyMissing(
                f"{token} has no entropy: vLLM sampled it from logits that are NaN or infinite, so the model's "
                "weights are broken."
            )
        if entropy < 0.0 or logprob > APART:
            raise EntropyMissing(
                f"{token} has a log-probability, and no entropy beside it: start vLLM's server with "
                "OPENRLHF_GTPO_ENTROPY=1 and --logprobs-mode processed_logprobs, where openrlhf-gtpo is installed."
            )
        served.tokens.append(int(number[1]))
        served.logprobs.append(logprob)
        served.entropies.append(entropy)
    return served


def check_server(url: str, model: str | None = None, api_key: str | None = None, timeout: float = 60.0) -> None:
    """Make sure that a running vLLM server returns entropies, and of the distribution that tokens are sampled from.

    Asks for eight tokens at temperature 2, each among the two most likely ones. A token of probability p then has the
    entropy -p log p - (1 - p) log(1 - p), whatever the model is.

    Args:
        url: of the server, such as ``http://localhost:8000``, with or without ``/v1``.
        model: its name there; by default the first that the server names.
        api_key: by default the environment's ``VLLM_API_KEY``.
        timeout: seconds for each of two requests.

    Raises:
        EntropyMissing: there is no such server, it has no hook, or its entropies are of another distribution.
    """
    base = url.rstrip("/").removesuffix("/v1")
    key = api_key if api_key is not None else os.environ.get("VLLM_API_KEY")
    if model is None:
        named = _ask(f"{base}/v1/models", None, key, timeout)
        try:
            model = named["data"][0]["id"]
        except (LookupError, TypeError) as error:
            raise EntropyMissing(
                f"{base}/v1/models names no model ({json.dumps(named)[:100]}): give the URL of a vLLM server."
            ) from error
    request = {
        "model": model,
        "prompt": [2, 3, 5],  # ids, which every vocabulary has
        "max_tokens": 8,
        "ignore_eos": True,
        "temperature": 2.0,
        "top_k": 2,
        # Those that a model's folder may change.
        "top_p": 1.0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        **HTTP_FIELDS,
    }
    (served,) = read_http(_ask(f"{base}/v1/completions", request, key, timeout))
    chances = [math.exp(min(logprob, 0.0)) for logprob in served.logprobs]
    expected = [-sum(q * math.log(q) for q in (p, 1.0 - p) if q > 0.0) for p in chances]
    # The median: where the second and the third logit are equal, vLLM keeps three tokens.
    apart = statistics.median(abs(is_ - should) for is_, should in zip(served.entropies, expected, strict=True))
    if apart > APART:
        raise EntropyMissing(
            f"{url} returns entropies that are {apart:.2g} nats from those of the two tokens that could be sampled: "
            "start it with --logprobs-mode processed_logprobs."
        )


def _ask(url: str, body: Mapping[str, Any] | None, key: str | None, timeout: float) -> Any:
    """The JSON of an answer; EntropyMissing where there is none."""
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    data = None if body is None else json.dumps(body).encode()
    try:
        request = urllib.request.Request(url, data, headers)
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        said = " ".join(error.read(400).decode(errors="replace").split())
        raise EntropyMissing(
            f"{url} answered HTTP {error.code} ({said}): is it a vLLM server, and the key its own?"
        ) from error
    except (OSError, ValueError) as error:  # no connection, no URL, no JSON
        raise EntropyMissing(
            f"{url} gives no answer of a vLLM server ({reason(error)}): start one, or give its URL."
        ) from error
