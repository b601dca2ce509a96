"""The grader: is the answer that a completion ends with the reference answer?

A library without HTTP, processes or time limits: ``grade(completion, reference)`` gives a ``Grade``. It may take for
ever on a hostile answer; who calls it on text that nobody has read runs it in a ``math_reward.workers.WorkerPool``.
"""

from math_reward.grader.grading import grade
from math_reward.grader.verdict import Grade, Verdict

__all__ = ["Grade", "Verdict", "grade"]
