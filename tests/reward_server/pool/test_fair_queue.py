"""The queue in which batches take turns, alone and as one stream."""

from math_reward.pool.batch import Batch, Entry
from math_reward.pool.fair_queue import FairQueue
from math_reward.pool.item import Item


def entries(batch: Batch, names: str) -> list[Entry]:
    return [Entry(Item(name, "1"), batch, index) for index, name in enumerate(names)]


def popped(queue: FairQueue) -> str:
    return "".join(queue.pop().item.completion for _ in range(len(queue)))


async def test_batches_take_turns_item_by_item():
    queue = FairQueue()
    for names in ("aaa", "bb", "c"):
        queue.put(entries(Batch(len(names)), names))

    assert popped(queue) == "abcaba"


async def test_the_batches_of_a_stream_have_one_turn_together():
    queue = FairQueue()
    stream = object()
    for names, turn in (("ab", stream), ("cd", stream), ("123", None)):
        queue.put(entries(Batch(len(names), turn), names))

    assert popped(queue) == "a1b2c3d"


async def test_dropping_a_batch_of_a_stream_leaves_the_others():
    queue = FairQueue()
    stream = object()
    batches = [Batch(2, stream) for _ in range(3)]
    for batch, names in zip(batches, ("ab", "cd", "ef"), strict=True):
        queue.put(entries(batch, names))

    queue.drop(batches[1])

    assert len(queue) == 4
    assert queue.batches() == {batches[0], batches[2]}
    assert popped(queue) == "abef"


async def test_dropping_all_batches_of_a_stream_leaves_nothing():
    queue = FairQueue()
    stream = object()
    batches = [Batch(1, stream) for _ in range(2)]
    for batch in batches:
        queue.put(entries(batch, "x"))
        queue.put(entries(batch, "y"), first=True)

    for batch in batches:
        queue.drop(batch)

    assert len(queue) == 0
    assert queue.batches() == set()
