"""The client for ordinary code: threads, running loops, forks, its end; and long iterables."""

import itertools
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from math_reward.client import Cause, Client, ClientClosed, ClientError, NotJudged, Refused, Result, Unavailable

from ...fake_reward_server import Answer, FakeRewardServer, Post, graded, right_answer
from ...refusals import assert_refusal
from .asking import told


@pytest.fixture(scope="module")
def server() -> Iterator[FakeRewardServer]:
    with FakeRewardServer() as server:
        yield server


def rows(numbers: Any) -> Iterator[dict[str, str]]:
    return ({"completion": str(i), "reference": "1"} for i in numbers)


def test_a_result_has_every_field_of_the_services_answer() -> None:
    fields = {
        "reward": 0.0,
        "correct": False,
        "verdict": "wrong",
        "answer": "3",
        "reference": "2",
        "detail": "Why.",
        "stage": "exact",
        "seconds": 0.25,
    }
    answers = [
        Answer(body={"results": [{**fields, "span": [0, 1], "of a later version": 1}]}),
        Answer(body={"results": [fields]}),  # of an earlier one
        Answer(body={"results": [{**fields, "span": [0, "1"]}]}),
    ]
    with FakeRewardServer(answers) as server, Client(server.url, deadline=0) as client:
        assert client.grade("3", "2") == Result(**fields, span=(0, 1))
        assert client.grade("3", "2") == Result(**fields)
        with pytest.raises(ClientError, match="span"):
            client.grade("3", "2")


def test_prompt_and_options_go_with_the_item_that_has_them(server: FakeRewardServer) -> None:
    with Client(server.url) as client:
        client.grade("7", "8.5", prompt="6 + 1?", mode="strict", rel_tol=0.1)
    assert server.posts[-1].items == [
        {"completion": "7", "reference": "8.5", "prompt": "6 + 1?", "options": {"mode": "strict", "rel_tol": 0.1}}
    ]


# What the sentences say


def test_an_item_that_json_cannot_hold_is_refused_alone() -> None:
    with FakeRewardServer() as server, Client(server.url, batch_size=8) as client:
        items = [*rows(range(3)), {"completion": "4", "reference": object()}, *rows(range(5, 8))]
        outcomes = list(client.grade_many(items, return_exceptions=True))
    results = [outcome for outcome in outcomes if isinstance(outcome, Result)]
    assert told(results, others := [0, 1, 2, 5, 6, 7]) == others
    assert isinstance(outcomes[3], Refused)
    assert_refusal(str(outcomes[3]), "JSON")


def test_half_a_surrogate_pair_becomes_a_character() -> None:
    with FakeRewardServer(always=graded(1.0, 0.0)) as server, Client(server.url) as client:
        client.grade("4\ud83d \ud83d\ude00", "2")
    assert [post.items for post in server.posts] == [
        [{"completion": "4\ufffd \U0001f600", "reference": "2"}],
    ]


@pytest.mark.parametrize(
    ("item", "named"),
    [
        ({"completion": "1", "refrence": "1"}, "'refrence'"),
        ({"completion": "1"}, "'reference'"),
        (("1", "1"), "tuple"),
    ],
)
def test_a_row_that_is_no_item_is_named(server: FakeRewardServer, item: Any, named: str) -> None:
    with Client(server.url) as client, pytest.raises(TypeError, match=named) as refused:
        list(client.grade_many([item]))
    assert_refusal(str(refused.value))


@pytest.mark.parametrize("kind", [ClientError, Refused, NotJudged, Unavailable, ClientClosed])
def test_an_error_can_be_sent_to_another_process(kind: type[ClientError]) -> None:
    error = pickle.loads(pickle.dumps(kind("A sentence.", Cause.TOKEN)))
    assert (type(error), str(error), error.cause) == (kind, "A sentence.", Cause.TOKEN)


# Many items


def test_an_endless_iterable_is_read_only_a_few_batches_ahead(server: FakeRewardServer) -> None:
    taken = itertools.count()
    with Client(server.url, batch_size=5, max_in_flight=2) as client:
        results = client.grade_many({"completion": str(i), "reference": "1"} for i in taken)
        assert told([next(results) for _ in range(101)], range(101)) == list(range(101))
        results.close()
    # 21 batches are handed out, and as many as twice the connections are under way besides.
    assert next(taken) <= (21 + 2 * 2) * 5


def test_the_first_item_without_a_result_ends_the_iteration_or_takes_its_place() -> None:
    def answer(post: Post) -> Answer:
        body = right_answer(post)
        for text, result in zip(post.texts, body["results"], strict=True):
            if text == "3":
                result |= {"verdict": "bad_reference", "detail": "It is empty.", "reward": 0.0, "correct": False}
        return Answer(body=body)

    with FakeRewardServer(always=answer) as server, Client(server.url, batch_size=2) as client:
        results = client.grade_many(rows(range(9)))
        assert told([next(results) for _ in range(3)], range(3)) == [0, 1, 2]
        with pytest.raises(NotJudged, match="It is empty"):
            next(results)
        outcomes = list(client.grade_many(rows(range(5)), return_exceptions=True))
    assert [type(outcome) for outcome in outcomes] == [Result, Result, Result, NotJudged, Result]


# Threads, loops, processes


def test_threads_share_it_and_their_items_share_requests() -> None:
    with FakeRewardServer(always=lambda post: Answer(delay=0.05)) as server:
        with Client(server.url, batch_size=16, max_in_flight=1) as client, ThreadPoolExecutor(32) as threads:
            results = list(threads.map(lambda i: client.grade(str(i), "1"), range(64)))
        assert told(results, range(64)) == list(range(64))
        assert len(server.posts) < 64


def test_closing_it_ends_the_waits_of_other_threads_and_later_calls() -> None:
    with FakeRewardServer(always=lambda post: Answer(delay=60.0)) as server:
        client = Client(server.url)
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(client.grade, "1", "1")
            while not server.posts:
                pass
            client.close()
            with pytest.raises(ClientClosed, match="closed"):
                waiting.result(120)
    client.close()
    with pytest.raises(ClientClosed, match="make a new one"):
        client.grade("1", "1")
    assert not any(thread.name == "math-reward-client" for thread in threading.enumerate())


def test_a_program_that_does_not_close_it_ends_without_a_word(server: FakeRewardServer) -> None:
    program = f"""
from math_reward.client import Client
client = Client({server.url!r})
print(client.grade("0.5", "1").reward)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=280)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0.5\n", "")


def test_a_forked_process_is_told_to_make_its_own(server: FakeRewardServer) -> None:
    with Client(server.url) as client:
        client.grade("1", "1")
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                client.grade("1", "1")
            except ClientClosed as error:
                os.write(write, str(error).encode())
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        os.close(write)
        assert_refusal(os.read(read, 1000).decode(), "fork")
        os.close(read)
        assert client.grade("0.5", "1").reward == 0.5
