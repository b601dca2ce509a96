"""The queue in which batches take turns, alone and as one stream."""

import math

from math_reward.pool.batch import Batch, Entry, Turn
from math_reward.pool.fair_queue import FairQueue
from math_reward.pool.item import Item


def entries(batch: Batch, names: str) -> list[Entry]:
    return [Entry(Item(name, "1"), batch, index) for index, name in enumerate(names)]


def taken(queue: FairQueue) -> Entry:
    entry = queue.peek()
    assert entry is not None
    queue.take(entry)
    return entry


def popped(queue: FairQueue) -> str:
    return "".join(taken(queue).item.completion for _ in range(len(queue)))


async def test_batches_take_turns_item_by_item():
    queue = FairQueue()
    for names in ("aaa", "bb", "c"):
        queue.put(entries(Batch(len(names)), names))

    assert popped(queue) == "abcaba"


async def test_the_batches_of_a_stream_have_one_turn_together():
    queue = FairQueue()
    stream = Turn()
    for names, turn in (("ab", stream), ("cd", stream), ("123", None)):
        queue.put(entries(Batch(len(names), turn), names))

    assert popped(queue) == "a1b2c3d"


async def test_dropping_a_batch_of_a_stream_leaves_the_others():
    queue = FairQueue()
    stream = Turn()
    batches = [Batch(2, stream) for _ in range(3)]
    for batch, names in zip(batches, ("ab", "cd", "ef"), strict=True):
        queue.put(entries(batch, names))

    queue.drop(batches[1])

    assert len(queue) == 4
    assert queue.batches() == {batches[0], batches[2]}
    assert popped(queue) == "abef"


async def test_dropping_all_batches_of_a_stream_leaves_nothing():
    queue = FairQueue()
    stream = Turn()
    batches = [Batch(1, stream) for _ in range(2)]
    for batch in batches:
        queue.put(entries(batch, "x"))
        queue.put(entries(batch, "y"), first=True)

    for batch in batches:
        queue.drop(batch)

    assert len(queue) == 0
    assert queue.batches() == set()


async def test_what_is_put_back_keeps_its_turn_and_comes_before_no_other():
    queue = FairQueue()
    for names in ("aaaa", "12"):
        queue.put(entries(Batch(len(names)), names))
    first, *others = [taken(queue) for _ in range(4)]
    queue.put(entries(Batch(2), "xy"))

    queue.put_back(others)

    assert first.item.completion == "a"
    assert popped(queue) == "1ax2aya"


async def test_what_nobody_waits_for_is_not_put_back():
    queue = FairQueue()
    gone, stays = Batch(1), Batch(1)
    for batch, name in ((gone, "a"), (stays, "b")):
        queue.put(entries(batch, name))
    both = [taken(queue), taken(queue)]
    gone.refuse(ValueError())

    queue.put_back(both)

    assert popped(queue) == "b"
    assert isinstance(gone.done.exception(), ValueError)


async def test_what_needs_a_worker_for_itself_is_passed_over_and_keeps_its_turn():
    queue = FairQueue()
    slow, ordinary = Batch(2), Batch(3)
    for batch, names in ((slow, "ab"), (ordinary, "123")):
        queue.put(entries(batch, names))
    slow.turn.took(1.0)

    shared = []
    while entry := queue.peek(alone=False):
        queue.take(entry)
        shared.append(entry.item.completion)
        if len(shared) == 2:
            break

    assert shared == ["1", "2"]
    assert popped(queue) == "a3b"


def test_a_turn_grows_with_quick_items_and_begins_again_after_a_slow_one():
    turn = Turn()
    sizes = []
    for seconds in (0.001, 0.001, 0.02, 0.001, math.inf, *[0.0] * 9):
        turn.took(seconds)
        sizes.append(turn.at_once)

    assert sizes == [16, 32, 1, 2, 1, 2, 4, 8, 16, 32, 64, 64, 64, 64]
