"""What the fork server imports once, so that every worker begins with the grader loaded and warm."""

import sympy  # noqa: F401 (the grader imports it when it first needs it, which takes a good part of a second)

from math_reward.grader import grade
from math_reward.pool import worker  # noqa: F401 (what a worker process begins with)

for answer, reference in [(r"\boxed{\frac{84}{2}}", "42"), (r"\boxed{(x+1)^2}", "x^2+2x+1"), ("It is 42.", "41")]:
    grade(answer, reference)
