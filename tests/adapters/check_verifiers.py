"""The adapter for verifiers: its own scoring runs it on real traces of tasks, as evaluations and prime-rl do."""

import asyncio
from pathlib import Path

import pytest
import verifiers.v1 as vf

from math_reward.adapters.verifiers import MathReward

ROWS = [
    ("What is 6 times 7?", r"It is \boxed{42}.", "42", 1.0),
    ("What is half of 1?", r"\boxed{\frac{1}{2}}", "0.5", 1.0),
    ("What is 6 times 7?", r"It is \boxed{41}.", "42", 0.0),
    ("What is 6 times 7?", "I do not know.", "42", 0.0),
]


class Sum(vf.TaskData):
    target: str


def trace_of(task: vf.Task, reply: str) -> vf.Trace:
    """The trace of a rollout with one turn."""
    asked = vf.MessageNode(message=vf.UserMessage(content=task.data.prompt_text))
    said = vf.MessageNode(message=vf.AssistantMessage(content=reply), parent=0, sampled=True)
    agent = vf.AgentInfo(config=vf.AgentConfig(model="a-model"))
    kind = vf.TraceTask(type=type(task).__name__, data=task.data)
    return vf.Trace(task=kind, agent=agent, nodes=[asked, said])


async def scored(task: vf.Task, reply: str) -> vf.Trace:
    trace = trace_of(task, reply)
    await task.score(trace)
    return trace


def test_a_task_with_this_reward_is_scored_as_the_grader_says(url: str | None, graded: list[int]) -> None:
    class Sums(vf.Task[Sum]):
        correct = vf.reward(MathReward(answer="target", url=url), weight=2.0)

    async def all_scored() -> list[vf.Trace]:
        tasks = [Sums(Sum(prompt=question, target=target)) for question, _, target, _ in ROWS]
        return await asyncio.gather(*(scored(task, row[1]) for task, row in zip(tasks, ROWS, strict=True)))

    traces = asyncio.run(all_scored())
    graded.append(len(ROWS))
    rewards = [trace.rewards["math_reward"] for trace in traces]
    print(rewards)
    assert [reward.score for reward in rewards] == [row[3] for row in ROWS]
    assert [reward.weight for reward in rewards] == [2.0] * len(ROWS)


def test_a_file_names_it_as_the_reward_of_another_taskset(tmp_path: Path) -> None:
    file = tmp_path / "rewards.py"
    file.write_text("from math_reward.adapters.verifiers import MathReward\nours = MathReward('target')\n")
    config = vf.TaskConfig(rewards={"ours": vf.RewardFunctionConfig(fn=f"{file}:ours", weight=0.5)})
    trace = asyncio.run(scored(vf.Task[Sum](Sum(prompt="6 * 7?", target="42"), config), r"\boxed{42}"))
    assert (trace.rewards["ours"].score, trace.rewards["ours"].weight) == (1.0, 0.5)


def test_a_reference_that_cannot_be_read_is_an_error_of_the_task_and_no_reward() -> None:
    class Sums(vf.Task[Sum]):
        correct = vf.reward(MathReward(answer="target"))

    task = Sums(Sum(prompt="What?", target=""))
    trace = trace_of(task, "1")
    with pytest.raises(vf.TaskError, match="fix this row of the data"):
        asyncio.run(task.score(trace))
    assert trace.rewards == {"math_reward": None}
