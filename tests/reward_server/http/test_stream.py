"""``POST /v1/grade`` with a stream of rows: order, limits, backpressure, and how a client knows that it was whole."""

import contextlib
import http.client
import json
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from math_reward.http.routes import stream as stream_module

from ...refusals import assert_refusal

RIGHT = {"completion": r"\boxed{42}", "reference": "42"}
NDJSON = {"Content-Type": "application/x-ndjson"}
WAIT = 120


@pytest.fixture(scope="module")
def server(serve: Callable[..., Any]) -> Any:
    """One worker; a line must arrive within a second. Waits, hangs and exits where a completion tells it to."""
    options = ["--workers", "1", "--deadline", "30", "--body-seconds", "1", "--max-body-bytes", "2048"]
    return serve(*options, stub=True).when_ready()


@pytest.fixture(scope="module")
def patient(serve: Callable[..., Any]) -> Any:
    """One worker, and two minutes for each line."""
    return serve("--workers", "1", "--deadline", "30", "--body-seconds", "120", stub=True).when_ready()


def lines_of(*rows: Any) -> bytes:
    return b"".join((row if isinstance(row, bytes) else json.dumps(row).encode()) + b"\n" for row in rows)


def post(server: Any, content: bytes, query: str = "") -> list[dict[str, Any]]:
    response = server.client.post(f"/v1/grade{query}", content=content, headers=NDJSON)
    assert response.status_code == 200, response.text
    assert response.headers["Content-Type"] == "application/x-ndjson"
    return [json.loads(line) for line in response.text.splitlines()]


class Conversation:
    """A stream whose lines are sent one by one."""

    def __init__(self, server: Any, *, receive_bytes: int | None = None) -> None:
        self.socket = socket.socket()
        self.socket.settimeout(WAIT)
        if receive_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.connect(("127.0.0.1", server.port))
        self.socket.sendall(
            b"POST /v1/grade HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        self.response: http.client.HTTPResponse | None = None

    def __enter__(self) -> "Conversation":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, content: bytes) -> None:
        self.socket.sendall(b"%x\r\n%b\r\n" % (len(content), content))

    def end(self) -> None:
        self.socket.sendall(b"0\r\n\r\n")

    def begin_reading(self) -> http.client.HTTPResponse:
        self.response = http.client.HTTPResponse(self.socket)
        self.response.begin()
        return self.response

    def next_line(self) -> dict[str, Any]:
        return json.loads((self.response or self.begin_reading()).readline())


def test_rows_become_verdicts_in_order_and_the_last_line_says_that_it_is_whole(server: Any):
    count = 3 * stream_module.WINDOW_LINES
    rows = lines_of(*({"completion": rf"\boxed{{{n}}}", "reference": n if n % 3 else n + 1} for n in range(count)))

    with Conversation(server) as talk:
        threading.Thread(target=lambda: (talk.send(rows), talk.end()), daemon=True).start()
        answers = [talk.next_line() for _ in range(count + 1)]
        assert talk.response is not None
        assert talk.response.read() == b""

    assert [one["line"] for one in answers[:-1]] == list(range(1, count + 1))
    assert [one["correct"] for one in answers[:-1]] == [n % 3 != 0 for n in range(count)]
    assert answers[-1] == {"end": True, "lines": count, "verdicts": count, "errors": 0}


def test_a_row_has_the_same_answer_as_an_item_of_a_request(server: Any):
    rows = [
        RIGHT,
        {"completion": "5", "reference": ["4", "five"], "options": {"mode": "strict"}},
        {**RIGHT, "prompt": "Q"},
    ]

    streamed = post(server, lines_of(*rows))
    asked = server.client.post("/v1/grade", json={"items": rows}).json()["results"]

    for one in (*streamed, *asked):
        one.pop("seconds", None)
    assert streamed == [
        *({"line": number, **result} for number, result in enumerate(asked, 1)),
        {"end": True, "lines": 3, "verdicts": 3, "errors": 0},
    ]


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\n\n \r\n"])
def test_the_last_line_may_end_or_not_and_blank_lines_count(server: Any, end: bytes):
    *_, verdict, last = post(server, b"\xef\xbb\xbf\n" + json.dumps(RIGHT).encode() + end)

    assert (verdict["line"], verdict["verdict"]) == (2, "correct")
    assert last == {"end": True, "lines": 2 + max(0, end.count(b"\n") - 1), "verdicts": 1, "errors": 0}


def test_an_empty_stream_is_whole(server: Any):
    assert post(server, b"") == [{"end": True, "lines": 0, "verdicts": 0, "errors": 0}]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (b"{", "not JSON"),
        (b"[1]", "JSON object"),
        (b'{"completion": "4"}', "Field 'reference': "),
        (b'{"completion": "\xff"}', "UTF-8"),
        (b"[" * 900, "JSON object"),
        (b'{"completion": "4", "reference": [' + b"1," * 70 + b"1]}", "Field 'reference': "),
    ],
)
def test_a_bad_line_gets_an_error_in_its_place_and_the_others_are_graded(server: Any, line: bytes, named: str):
    answers = post(server, lines_of(RIGHT, line, RIGHT))

    assert answers[1] == {"line": 2, "error": answers[1]["error"]}
    assert_refusal(answers[1]["error"], named)
    assert [answers[0]["verdict"], answers[2]["verdict"]] == ["correct", "correct"]
    assert answers[3] == {"end": True, "lines": 3, "verdicts": 2, "errors": 1}


def test_the_options_are_the_parameters_of_the_url(server: Any):
    rows = lines_of({"completion": "So 101.", "reference": "100"}, {"completion": r"\boxed{101}", "reference": "100"})

    assert [one.get("verdict") for one in post(server, rows)] == ["wrong", "wrong", None]
    strict = post(server, rows, "?mode=strict&rel_tol=0.02&allow_rounded=true")
    assert [one.get("verdict") for one in strict] == ["no_answer", "correct", None]


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("?mod=strict", ["'mod'", "'mode'?"]),
        ("?mode=hard", ["Parameter 'mode': ", "'hard'", "'strict'"]),
        ("?rel_tol=2", ["Parameter 'rel_tol': ", "1.0"]),
        ("?rel_tol=nan", ["Parameter 'rel_tol': "]),
        ("?evaluated=maybe", ["Parameter 'evaluated': "]),
    ],
)
def test_a_bad_parameter_is_refused_with_a_status_of_its_own(server: Any, query: str, named: list[str]):
    response = server.client.post(f"/v1/grade{query}", content=lines_of(RIGHT), headers=NDJSON)

    assert response.status_code == 422
    assert_refusal(response.json()["detail"], *named)


def test_a_parameter_for_streams_is_refused_on_a_request_that_is_none(server: Any):
    response = server.client.post("/v1/grade?mode=strict", json={"items": [RIGHT]})

    assert response.status_code == 422
    assert_refusal(response.json()["detail"], "'mode'", "application/x-ndjson")


def test_a_verdict_comes_before_the_next_row_is_sent_and_before_a_later_one_is_graded(patient: Any, tmp_path: Path):
    go = tmp_path / "go"
    waits = {"completion": f"wait for {go}", "reference": "42"}
    with Conversation(patient) as talk:
        talk.send(lines_of(RIGHT))
        assert talk.next_line()["line"] == 1
        talk.send(lines_of(RIGHT, waits, RIGHT))
        assert talk.next_line()["line"] == 2
        go.touch()
        assert [talk.next_line()["line"] for _ in range(2)] == [3, 4]
        talk.end()
        assert talk.next_line()["end"] is True


def test_a_line_that_does_not_end_is_given_up_with_an_error_and_no_end(server: Any):
    with Conversation(server) as talk:
        talk.send(lines_of(RIGHT))
        assert talk.next_line()["verdict"] == "correct"
        talk.send(b'{"completion": ')
        fault = talk.next_line()
        assert fault.pop("status") == 408
        assert_refusal(fault.pop("error"), "1 s")
        assert fault == {}
        assert talk.response is not None
        with pytest.raises(http.client.IncompleteRead):
            talk.response.read()


def test_before_the_first_verdict_a_fault_has_a_status_of_its_own(server: Any):
    with Conversation(server) as talk:
        talk.send(b'{"completion": ')
        response = talk.begin_reading()

        assert response.status == 408
        assert response.headers["Connection"] == "close"


def test_a_line_has_the_limit_of_a_body_and_the_stream_has_none(server: Any):
    assert len(post(server, lines_of(*[RIGHT] * 200))) == 201  # 9 kB where a body may have 2 kB.

    with Conversation(server) as talk:
        talk.send(lines_of(RIGHT, {**RIGHT, "completion": "x" * 3000}))
        answers = [talk.next_line(), talk.next_line()]

    assert answers[0]["verdict"] == "correct"
    assert (answers[1].keys(), answers[1]["status"]) == ({"error", "status"}, 413)
    assert_refusal(answers[1]["error"], "2,048")


def test_metrics_and_the_log_know_how_a_stream_ended(server: Any):
    def count(status: str) -> float:
        name = f'math_reward_requests_total{{route="/v1/grade stream",status="{status}"}} '
        return sum(
            float(line.removeprefix(name)) for line in server.client.get("/metrics").text.splitlines() if name in line
        )

    whole, late = count("200"), count("408")
    post(server, lines_of(RIGHT))
    with Conversation(server) as talk:
        talk.send(lines_of(RIGHT))
        while "error" not in talk.next_line():
            pass

    assert count("200") == whole + 1
    assert count("408") == late + 1


def test_a_client_that_hangs_up_leaves_nothing_behind(
    patient: Any, tmp_path: Path, wait_for: Callable[[Callable[[], bool]], None]
):
    waits = {"completion": f"wait for {tmp_path / 'go'}", "reference": "42"}
    with Conversation(patient) as talk:
        talk.send(lines_of(*[waits] * 200))
        wait_for((tmp_path / "go.waits").exists)
    (tmp_path / "go").touch()

    def metrics() -> str:
        return patient.client.get("/metrics").text

    wait_for(lambda: "math_reward_requests_in_flight 0.0" in metrics() and "math_reward_queued_items 0.0" in metrics())
    assert 'math_reward_requests_total{route="/v1/grade stream",status="499"} 1.0' in metrics()


def test_a_client_that_does_not_read_is_no_longer_read_from_and_then_given_up(server: Any):
    # A verdict repeats its reference, so a few hundred of them fill the kernel's buffers.
    row = lines_of({"completion": "4", "reference": "5" * 1500})
    with Conversation(server, receive_bytes=4096) as talk:
        sent = 0
        with contextlib.suppress(ConnectionError):  # A reset or a broken pipe, as the moment will have it.
            while sent < 2**30:
                talk.send(row * 100)
                sent += len(row) * 100

    # Far less than was sent can be in the memory of either side: windows and the kernel's buffers.
    assert sent < 64 * 2**20


def test_many_streams_at_once_and_a_request_between_them(patient: Any):
    rows = lines_of(*[RIGHT] * 300)
    answers: list[list[dict[str, Any]]] = []
    threads = [threading.Thread(target=lambda: answers.append(post(patient, rows))) for _ in range(8)]
    for thread in threads:
        thread.start()
    asked = patient.client.post("/v1/grade", json={"items": [RIGHT]})
    for thread in threads:
        thread.join()

    assert asked.json()["results"][0]["verdict"] == "correct"
    assert [one[-1] for one in answers] == [{"end": True, "lines": 300, "verdicts": 300, "errors": 0}] * 8


def test_a_full_queue_is_waited_for(serve: Callable[..., Any]):
    narrow = serve("--workers", "1", "--max-queued", "4").when_ready()

    assert post(narrow, lines_of(*[RIGHT] * 500))[-1]["verdicts"] == 500


def test_bodies_that_are_too_large_together_end_no_stream_that_can_wait(serve: Callable[..., Any]):
    narrow = serve("--workers", "1", "--max-body-bytes", "4096", "--max-pending-bytes", "4096").when_ready()

    assert post(narrow, lines_of(*[RIGHT] * 1000))[-1]["verdicts"] == 1000


def test_a_stream_needs_the_token(serve: Callable[..., Any]):
    guarded = serve("--workers", "1", MATH_REWARD_TOKEN="the stream's token").when_ready()

    assert guarded.client.post("/v1/grade", content=lines_of(RIGHT), headers=NDJSON).status_code == 401
    headers = {**NDJSON, "Authorization": "Bearer the stream's token"}
    assert guarded.client.post("/v1/grade", content=lines_of(RIGHT), headers=headers).status_code == 200


@pytest.fixture
def short(serve: Callable[..., Any]) -> Any:
    return serve("--workers", "1", "--drain-seconds", "1", stub=True).when_ready()


def test_a_service_that_stops_answers_what_it_has_read_and_says_that_it_is_not_all(short: Any):
    with Conversation(short) as talk:
        talk.send(lines_of(RIGHT))
        assert talk.next_line()["verdict"] == "correct"
        short.process.send_signal(signal.SIGTERM)
        talk.send(lines_of(RIGHT))
        assert talk.next_line()["line"] == 2  # A stream under way is served while the service drains.
        fault = talk.next_line()
        assert talk.response is not None
        with pytest.raises(http.client.IncompleteRead):
            talk.response.read()

    assert fault["status"] == 503
    assert short.process.wait(timeout=WAIT) == 0
    assert not [line for line in short.log() if "Traceback" in line or "ASGI" in line]


def test_no_stream_leaves_a_line_in_the_servers_log(server: Any, patient: Any):
    for one in (server, patient):
        assert not [line for line in one.log() if "Traceback" in line or "ASGI" in line]
