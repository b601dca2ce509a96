"""A pool whose undecided items a judge decides."""

import asyncio
import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any

from math_reward.grader import Grade, Stage, Verdict
from math_reward.judge.judge import Judge, JudgeFailed, too_long
from math_reward.judge_settings import JudgeSettings
from math_reward.pool.batch import Turn
from math_reward.pool.item import Graded, Item
from math_reward.pool.pool import Pool, PoolClosed


class JudgedPool(Pool):
    """A pool that asks a judge about the items whose stage is ``undecided``, and about no others.

    Args:
        judge: whom to ask. The pool closes it when it closes.
        arguments: of ``Pool``.
    """

    def __init__(self, judge: Judge, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.counters.judge_questions = judge.questions
        self._judge = judge
        self._judging: set[asyncio.Task[None]] = set()

    @classmethod
    def asking(cls, settings: JudgeSettings) -> "Callable[..., JudgedPool]":
        """What makes pools with the arguments of ``Pool``, which share one judge."""
        return functools.partial(cls, Judge(settings))

    def refuse(self) -> None:
        """As a pool does; what the judge has not answered yet is refused too."""
        super().refuse()
        for task in self._judging:
            task.cancel()

    async def __aexit__(self, *error: object) -> None:
        await super().__aexit__(*error)
        await self._judge.aclose()

    async def grade(
        self,
        items: Iterable[Item],
        *,
        first: bool = False,
        turn: Turn | None = None,
        each: Callable[[int, Graded], None] | None = None,
    ) -> list[Graded]:
        items = list(items)
        judging: list[asyncio.Task[None]] = []
        judged: dict[int, Graded] = {}

        async def judge(index: int, graded: Graded) -> None:
            judged[index] = dataclasses.replace(graded, grade=await self._judged(items[index], graded.grade))
            if each is not None:
                each(index, judged[index])

        def one(index: int, graded: Graded) -> None:
            if graded.grade.undecided:
                task = asyncio.ensure_future(judge(index, graded))
                judging.append(task)
                self._judging.add(task)
                task.add_done_callback(self._judging.discard)
            elif each is not None:
                each(index, graded)

        try:
            graded = await super().grade(items, first=first, turn=turn, each=one)
            if judging:
                await asyncio.wait(judging)
            for task in judging:
                if task.cancelled():
                    raise PoolClosed("The pool was closed before the judge had answered.")
                task.result()
            return [judged.get(index, one) for index, one in enumerate(graded)]
        finally:
            for task in judging:
                task.cancel()

    async def _judged(self, item: Item, grade: Grade) -> Grade:
        """The judge's grade of an undecided item: of several references any one counts."""
        assert grade.answer is not None
        result = grade
        for reference in grade.undecided:
            why_not = too_long(reference, grade.answer)
            if why_not is not None:
                result = dataclasses.replace(grade, detail=why_not) if result is grade else result
                continue
            try:
                orders = await self._judge.same(item.prompt, reference, grade.answer)
            except JudgeFailed as failure:
                return dataclasses.replace(grade, verdict=Verdict.ERROR, detail=str(failure), stage=Stage.JUDGE)
            yes = all(orders)
            verdict = Verdict.CORRECT_JUDGED if yes else Verdict.WRONG_JUDGED
            detail = (
                None if orders[0] == orders[1] else "The judge said yes in one order of the two and no in the other."
            )
            result = dataclasses.replace(grade, verdict=verdict, reference=reference, detail=detail, stage=Stage.JUDGE)
            if yes:
                return result
        return result
