"""verl: ``compute_score`` for ``reward.custom_reward_function``."""

import functools
from typing import Any

from math_reward.adapters.verdicts import Verdicts


@functools.cache
def verdicts_of(url: str | tuple[str, ...] | None) -> Verdicts:
    """Those that all scores of this process come from."""
    return Verdicts(url)


async def compute_score(
    data_source: str, solution_str: str, ground_truth: Any, extra_info: Any = None, url: Any = None, **_: Any
) -> dict[str, Any]:
    """The score of one response, 1.0 or 0.0, and its verdict.

    Args:
        data_source: of the row; every source is graded alike.
        solution_str: the response.
        ground_truth: the reference answer, or several of which any one may match.
        extra_info: of the row; its ``question`` is the prompt, if it has one.
        url: of a reward service; None grades in worker processes of this process.

    Raises:
        ClientError: there is no verdict. verl's reward manager ``rate_limited`` makes 0.0 of it: use another.
    """
    url = url if url is None or isinstance(url, str) else tuple(url)
    reference = ground_truth.tolist() if hasattr(ground_truth, "tolist") else ground_truth
    question = (extra_info or {}).get("question")
    result = await verdicts_of(url).grade_one(solution_str, reference, question)
    return {"score": result.reward, "acc": result.reward, "verdict": result.verdict}
