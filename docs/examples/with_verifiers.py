import verifiers.v1 as vf

from math_reward.adapters.verifiers import MathReward


class SumData(vf.TaskData):
    answer: str


class SumTask(vf.Task[SumData]):
    correct = vf.reward(MathReward())  # or MathReward(url="http://localhost:8000")


class Sums(vf.Taskset[SumTask, vf.TasksetConfig]):
    def load(self) -> list[SumTask]:
        data = [SumData(prompt=f"What is {i} + {i}?", answer=str(2 * i)) for i in range(100)]
        return [SumTask(row, self.config.task) for row in data]
