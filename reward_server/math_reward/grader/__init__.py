"""The grader: is the answer that a completion ends with the reference answer?

A library without HTTP, processes or time limits: ``grade(completion, reference)`` gives a ``Grade``. What runs it on
text that nobody has read does so in a ``math_reward.workers.WorkerPool``, which can be stopped.
"""

from math_reward.grader.grading import cache_info, grade
from math_reward.grader.verdict import Grade, Mode, Options, Stage, Verdict

__all__ = ["Grade", "Mode", "Options", "Stage", "Verdict", "cache_info", "grade"]
