"""``math-reward``, but its grader hangs or waits where a completion tells it to."""

import functools

import stub_graders

import math_reward.app
from math_reward.cli import main
from math_reward.pool.pool import Pool

# Also in the processes that answer HTTP, which import this file by the name __mp_main__.
math_reward.app.Pool = functools.partial(Pool, grader=stub_graders.obey_or_grade)  # type: ignore[misc]

if __name__ == "__main__":
    main()
