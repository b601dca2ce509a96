"""What the fork server imports once, so that every worker begins with the grader loaded and warm."""

from math_reward import workers

# Math-Verify compiles its patterns and builds its parser's tables when it is first used; workers inherit them.
for answer in (r"\boxed{\frac{84}{2}}", "The answer is 42."):
    workers.grade(answer, "42")
