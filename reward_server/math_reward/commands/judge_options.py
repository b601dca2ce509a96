"""The judge of ``math-reward grade``: its flags, and the pool that asks it."""

import argparse
import os
from collections.abc import Callable

from math_reward.commands.refusal import refuse
from math_reward.judge_settings import CONCURRENCY, DEADLINE, KEY_VARIABLE, JudgeRefused, judge_of
from math_reward.pool.pool import Pool


def add_judge_options(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that name a judge."""
    judge = parser.add_argument_group(
        "a judge", f"a model that is asked what mathematics does not decide; its API key is {KEY_VARIABLE}"
    )
    judge.add_argument("--judge", metavar="URL", help="an OpenAI-compatible endpoint, such as http://127.0.0.1:8001")
    judge.add_argument("--judge-model", metavar="NAME", help="the name of the model there")
    judge.add_argument(
        "--judge-deadline", type=float, metavar="SECONDS", help=f"for one item, with all attempts ({DEADLINE:g})"
    )
    judge.add_argument(
        "--judge-concurrency", type=int, metavar="ITEMS", help=f"that are asked about at once ({CONCURRENCY})"
    )


def pool_kind(arguments: argparse.Namespace) -> Callable[..., Pool]:
    """What makes a pool: one that asks the judge, if the flags name one."""
    try:
        judge = judge_of(
            arguments.judge,
            arguments.judge_model,
            os.environ.get(KEY_VARIABLE),
            deadline=arguments.judge_deadline,
            concurrency=arguments.judge_concurrency,
        )
    except JudgeRefused as error:
        refuse(str(error))
    if judge is None:
        return Pool
    needs_httpx()
    from math_reward.judge.judged_pool import JudgedPool

    return JudgedPool.asking(judge)


def needs_httpx() -> None:
    """Refuses to go on where the package is missing that asks the judge."""
    try:
        import httpx  # noqa: F401
    except ModuleNotFoundError as error:
        refuse(f"{error}, which a judge needs: pip install 'math-reward[client]'.")
