"""The files of an evaluation: eval.jsonl with a line for each response, from which it continues after an interruption,
and eval.json with the figures."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from openrlhf_gtpo.algorithms.pass_at_k import MeanAndInterval, bootstrap, pass_at_k
from openrlhf_gtpo.data.json_lines import lines_of
from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.tables import aligned


@dataclass(frozen=True)
class Response:
    """One graded response to one prompt of a benchmark."""

    benchmark: str
    prompt: int
    """Its place in the benchmark's file."""
    sample: int
    text: str
    tokens: int
    entropy: float
    """Mean over its tokens, nats."""
    truncated: bool
    reward: float
    correct: bool
    verdict: str | None


class Record:
    """The finished responses, on disk.

    Raises:
        SettingsError: the folder holds an evaluation with other settings, or a file that cannot be read.
    """

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self._path = folder / "eval.jsonl"
        folder.mkdir(parents=True, exist_ok=True)
        known = folder / "settings.json"
        if known.exists() and json.loads(known.read_text()) != settings:
            raise SettingsError(
                f"{folder} holds an evaluation with other settings (settings.json): choose another --out or remove it."
            )
        known.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        self.responses = self._read(settings["n"])

    def _read(self, n: int) -> list[Response]:
        """The responses in the file. Prompts that an interruption left incomplete are removed from it."""
        if not self._path.exists():
            return []
        lines = list(lines_of(self._path))
        responses: list[Response] = []
        for line in lines:
            try:
                responses.append(Response(**json.loads(line.content)))
            except (ValueError, TypeError):
                if line is not lines[-1]:  # only the last line can be cut off
                    raise SettingsError(f"{self._path} cannot be read from line {line.number}: remove it.") from None
        count: dict[tuple[str, int], int] = {}
        for response in responses:
            key = (response.benchmark, response.prompt)
            count[key] = count.get(key, 0) + 1
        whole = [response for response in responses if count[response.benchmark, response.prompt] == n]
        if len(whole) < len(lines):
            part = self._path.with_suffix(".part")
            part.write_text("".join(_line(response) for response in whole), encoding="utf-8")
            part.replace(self._path)
        return whole

    def done(self, benchmark: str) -> set[int]:
        """The prompts of a benchmark that have all their responses."""
        return {response.prompt for response in self.responses if response.benchmark == benchmark}

    def add(self, responses: Iterable[Response]) -> None:
        """Append responses, whole prompts at a time."""
        responses = list(responses)
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(_line(response) for response in responses)
        self.responses += responses


def _line(response: Response) -> str:
    return json.dumps(asdict(response), ensure_ascii=False) + "\n"


def figures(responses: Sequence[Response], n: int, ks: Sequence[int]) -> dict[str, Any]:
    """The figures of one benchmark, each with its 95 % interval over prompts: ``{"mean@32": {"mean": ..., "low": ...,
    "high": ...}, "pass@4": ..., "response_length": ..., "truncated": ..., "entropy_token_mean": ...,
    "entropy_response_mean": ..., "prompts": 30, "n": 32}``; entropies in nats.

    Raises:
        ValueError: there are no responses.
    """
    groups: dict[int, list[Response]] = {}
    for response in responses:
        groups.setdefault(response.prompt, []).append(response)
    correct = [sum(response.correct for response in group) for group in groups.values()]
    result: dict[str, Any] = {f"mean@{n}": _figure([c / n for c in correct])}
    for k in ks:
        result[f"pass@{k}"] = _figure([pass_at_k(n, c, k) for c in correct])
    result["response_length"] = _figure([_mean([r.tokens for r in group]) for group in groups.values()])
    result["truncated"] = _figure([_mean([r.truncated for r in group]) for group in groups.values()])
    # Tokens alike, as training logs it; and responses alike, in which a short one weighs as much as a long one.
    spoken = [[r for r in group if r.tokens] for group in groups.values()]
    spoken = [group for group in spoken if group]
    tokens = [sum(r.tokens for r in group) for group in spoken]
    per_token = [sum(r.entropy * r.tokens for r in group) / count for group, count in zip(spoken, tokens, strict=True)]
    result["entropy_token_mean"] = asdict(bootstrap(per_token or [0.0], tokens or None))
    result["entropy_response_mean"] = _figure([_mean([r.entropy for r in group]) for group in spoken] or [0.0])
    return {**result, "prompts": len(groups), "n": n}


def _figure(values: list[float]) -> dict[str, float]:
    return asdict(bootstrap(values))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def table(results: dict[str, dict[str, Any]]) -> str:
    """The figures of several benchmarks for people: a row for each figure, a column for each benchmark."""
    names = list(results)
    rows = [["", *names]]
    keys = [key for key in next(iter(results.values())) if key not in ("prompts", "n")]
    for key in keys:
        rows.append([key, *(_cell(MeanAndInterval(**results[name][key])) for name in names)])
    rows.append(["prompts", *(str(results[name]["prompts"]) for name in names)])
    return aligned(rows)


def _cell(estimate: MeanAndInterval) -> str:
    places = 1 if estimate.mean >= 10 else 3
    return f"{estimate.mean:.{places}f} ({estimate.low:.{places}f} to {estimate.high:.{places}f})"
