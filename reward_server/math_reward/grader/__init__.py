"""The grader: is the answer that a completion ends with the reference answer?

A library without HTTP, processes or time limits: ``grade(completion, reference)`` gives a ``Grade``. It runs in the
worker processes of ``math_reward.pool``, which can be killed, since nobody has read the text before.
"""

from math_reward.grader.grading import grade
from math_reward.grader.verdict import Grade, Mode, Options, Stage, Verdict

__all__ = ["Grade", "Mode", "Options", "Stage", "Verdict", "grade"]
