"""The queue in which batches take turns."""

from math_reward.pool.batch import Batch, Entry
from math_reward.pool.fair_queue import FairQueue
from math_reward.pool.item import Item


def entries(batch: Batch, names: str) -> list[Entry]:
    return [Entry(Item(name, "1"), batch, index) for index, name in enumerate(names)]


def popped(queue: FairQueue) -> str:
    return "".join(queue.take().item.completion for _ in range(len(queue)))


async def test_batches_take_turns_item_by_item():
    queue = FairQueue()
    for names in ("aaa", "bb", "c"):
        queue.put(entries(Batch(len(names)), names))

    assert popped(queue) == "abcaba"


async def test_an_urgent_batch_comes_whole_before_all_turns():
    queue = FairQueue()
    for names, urgent in (("ab", False), ("cd", False), ("12", True)):
        queue.put(entries(Batch(2, urgent=urgent), names))

    peeked = queue.peek()
    assert peeked is not None
    assert peeked.item.completion == "1"
    assert popped(queue) == "12acbd"
    assert queue.peek() is None


async def test_dropping_a_batch_leaves_the_others():
    queue = FairQueue()
    batches = [Batch(3) for _ in range(3)]
    for batch, names in zip(batches, ("ab", "cd", "ef"), strict=True):
        queue.put(entries(batch, names))

    queue.drop(batches[1])

    assert len(queue) == 4
    assert queue.batches() == [batches[0], batches[2]]
    assert popped(queue) == "aebf"


async def test_what_is_put_back_keeps_its_turn_and_comes_before_no_other():
    queue = FairQueue()
    for names in ("aaaa", "12"):
        queue.put(entries(Batch(len(names)), names))
    first, *others = [queue.take() for _ in range(4)]
    queue.put(entries(Batch(2), "xy"))

    queue.put_back(others)

    assert first.item.completion == "a"
    assert popped(queue) == "1ax2aya"
