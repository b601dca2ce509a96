import asyncio

from math_reward.client import AsyncClient, ClientError


async def main() -> None:
    async with AsyncClient(["http://localhost:8000"], deadline=60) as client:
        results = await asyncio.gather(*(client.grade(rf"\boxed{{{i}}}", "7") for i in range(10)))
        print([result.reward for result in results])

        rows = [{"completion": "7", "reference": "7"}, {"completion": "7", "reference": ""}]
        async for outcome in client.grade_many(rows, return_exceptions=True):
            print(type(outcome).__name__ if isinstance(outcome, ClientError) else outcome.verdict)


asyncio.run(main())
