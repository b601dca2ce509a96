"""The fork server imports this once, so that every worker starts with the grader loaded and warm."""

import sympy  # noqa: F401 (else the grader imports it when it first needs it, which takes a third of a second)

from math_reward.grader import grade
from math_reward.pool import worker  # noqa: F401 (the function that a worker process runs)

for answer, reference in [(r"\boxed{\frac{84}{2}}", "42"), (r"\boxed{(x+1)^2}", "x^2+2x+1"), ("It is 42.", "41")]:
    grade(answer, reference)
