from inspect_ai import Task, task
from inspect_ai.dataset import Sample

from math_reward.adapters.inspect_ai import math_reward


@task
def halves(url: str | None = None) -> Task:
    samples = [Sample(input=f"What is half of {2 * i}?", target=str(i)) for i in range(10)]
    return Task(dataset=samples, scorer=math_reward(url=url))
