"""Reads entropies out of the answers of vLLM's server, with Python's standard library alone.

vLLM writes them where the most likely tokens would stand: behind the sampled token, under token 0, or under token 1 if
0 was sampled. `openrlhf_gtpo.vllm_entropy` has the public names."""

import json
import math
import os
import re
import statistics
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from openrlhf_gtpo.errors import EntropyMissing, reason

_FIELDS: dict[str, dict[str, Any]] = {
    "completions": {"logprobs": 1, "return_tokens_as_token_ids": True},
    # One would be the sampled token alone.
    "chat": {"logprobs": True, "top_logprobs": 2, "return_tokens_as_token_ids": True},
    "generate": {"logprobs": 2},
}

_ID = re.compile(r"token_id:(\d+)")
"""How vLLM names a token by its id."""

APART = 1e-3
"""Nats that the entropies of a server's check may be off, for arithmetic in float32."""


@dataclass
class Served:
    """The sampled tokens of one choice of an answer, one entry each; those of an echoed prompt are left out."""

    tokens: list[int | str] = field(default_factory=list)
    """Ids; texts, where the request did not ask for ids."""
    logprobs: list[float] = field(default_factory=list)
    """Nats, <= 0: of the token, in the distribution it was sampled from."""
    entropies: list[float] = field(default_factory=list)
    """Nats, >= 0: of that distribution."""


def http_fields(endpoint: str = "completions") -> dict[str, Any]:
    """What a request over HTTP needs to get entropies.

    Args:
        endpoint: ``completions`` and ``chat`` for fields of a request to ``/v1/completions`` and
            ``/v1/chat/completions``; ``generate`` for those of the ``sampling_params`` of ``/inference/v1/generate``.

    Raises:
        ValueError: there is no such endpoint.
    """
    if endpoint not in _FIELDS:
        raise ValueError(f"There is no endpoint {endpoint!r}: choose one of {', '.join(_FIELDS)}.")
    return dict(_FIELDS[endpoint])


def read_http(answer: Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> list[Served]:
    """Tokens, log-probabilities and entropies of an answer of vLLM's server.

    Args:
        answer: the JSON of ``/v1/completions``, ``/v1/chat/completions`` or ``/inference/v1/generate``; or the chunks
            of a stream, in their order.

    Returns:
        One for each choice, in the order of their indices: n for each prompt.

    Raises:
        EntropyMissing: the request did not ask for entropies, the server has no hook, or the answer does not show
            which number is an entropy. One sentence says which, and what to do.
    """
    whole = isinstance(answer, Mapping)
    found: dict[int, Served] = {}
    parts: Iterable[Any] = [answer] if whole else answer
    for part in parts:
        if "choices" not in part:
            raise EntropyMissing(f"vLLM's answer has no choices; it is {json.dumps(part)[:300]}.")
        for choice in part["choices"]:
            served = found.setdefault(choice["index"], Served())
            if choice.get("logprobs") is None:
                # In a stream the chunk that names the role and the one that ends it have no tokens.
                if whole or choice.get("text") or any(v for k, v in choice.get("delta", {}).items() if k != "role"):
                    raise EntropyMissing(
                        "The request did not ask for log-probabilities: add the fields that http_fields() gives to it."
                    )
                continue
            chat = "content" in choice["logprobs"]
            for position in _of_chat(choice) if chat else _of_completions(choice):
                token, logprob, entropy = _read(len(served.tokens), *position, chat)
                served.tokens.append(token)
                served.logprobs.append(logprob)
                served.entropies.append(entropy)
    return [found[index] for index in sorted(found)]


_Entries = Sequence[tuple[str, float | None]]
"""Names and values that stand at a position: the sampled token's, then those beside it."""


def _of_chat(choice: Mapping[str, Any]) -> Iterator[tuple[str, float | None, _Entries]]:
    for token in choice["logprobs"]["content"] or []:
        entries = [(entry["token"], entry["logprob"]) for entry in token["top_logprobs"]]
        yield token["token"], token["logprob"], entries


def _of_completions(choice: Mapping[str, Any]) -> Iterator[tuple[str, float | None, _Entries]]:
    given = choice["logprobs"]
    names, values, tops = given["tokens"], given["token_logprobs"], given["top_logprobs"]
    prompt = 0
    if tops and tops[0] is None:  # which the first token of a prompt has, and no other
        if choice.get("prompt_token_ids") is None:
            raise EntropyMissing(
                "The answer begins with the prompt and does not say where it ends: ask for return_token_ids too, or "
                "leave echo out."
            )
        prompt = len(choice["prompt_token_ids"])
    for name, value, top in zip(names[prompt:], values[prompt:], tops[prompt:], strict=True):
        yield name, value, list(top.items())


def _read(
    place: int, name: str, logprob: float | None, entries: _Entries, chat: bool
) -> tuple[int | str, float, float]:
    """Token, log-probability and entropy of a position.

    Raises:
        EntropyMissing: as for `read_http`.
    """
    token = f"Token {place + 1} ({name})"
    if chat and len(entries) < 2:
        raise EntropyMissing(
            f"{token} has no entropy, which vLLM's chat completions and /inference/v1/generate leave out where one "
            "log-probability is asked for: ask for top_logprobs=2, there for logprobs=2."
        )
    number = _ID.fullmatch(name)
    if number is None and (len(entries) < 2 or entries[0] != (name, logprob)):
        raise EntropyMissing(
            f"{token} has {len(entries)} entries under texts, which two tokens may share, so that its entropy cannot "
            "be told: ask for return_tokens_as_token_ids."
        )
    beside, value = entries[1] if len(entries) > 1 else ("", -1.0)
    if logprob is None or value is None or math.isnan(value):
        raise EntropyMissing(
            f"{token} has no entropy: vLLM sampled it from logits that are NaN or infinite, so the model's weights "
            "are broken."
        )
    in_place = number is None or beside == ("token_id:1" if number[1] == "0" else "token_id:0")
    if not in_place or value < 0.0 or logprob > APART:
        raise EntropyMissing(
            f"{token} has a log-probability, and no entropy beside it: start vLLM's server with "
            "OPENRLHF_GTPO_ENTROPY=1 and --logprobs-mode processed_logprobs, where openrlhf-gtpo is installed."
        )
    return name if number is None else int(number[1]), logprob, value


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
        named = _asked(f"{base}/v1/models", None, key, timeout)
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
        **http_fields(),
    }
    (served,) = read_http(_asked(f"{base}/v1/completions", request, key, timeout))
    expected = [_of_two(math.exp(min(logprob, 0.0))) for logprob in served.logprobs]
    # The median: where the second and the third logit are equal, vLLM keeps three tokens.
    apart = statistics.median(abs(is_ - should) for is_, should in zip(served.entropies, expected, strict=True))
    if apart > APART:
        raise EntropyMissing(
            f"{url} returns entropies that are {apart:.2g} nats from those of the two tokens that could be sampled: "
            "start it with --logprobs-mode processed_logprobs, and without other statistics than the entropy."
        )


def _of_two(p: float) -> float:
    """The entropy of a choice between two, in nats."""
    return -sum(q * math.log(q) for q in (p, 1.0 - p) if q > 0.0)


def _asked(url: str, body: Mapping[str, Any] | None, key: str | None, timeout: float) -> Any:
    """The JSON of an answer.

    Raises:
        EntropyMissing: there is none.
    """
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
