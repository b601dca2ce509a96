"""The command line: how the service starts, says where it is, and ends; and ``math-reward grade``."""

import asyncio
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from operator import methodcaller
from pathlib import Path
from typing import Any

import httpx
import pytest

from math_reward.commands.serve import _listen
from math_reward.grader import Grade, Verdict
from math_reward.pool.worker import MEMORY_BYTES

from ..refusals import assert_refusal

HANGS = {"completion": "hang", "reference": "1"}


@pytest.fixture
def server(serve: Callable[..., Any]) -> Any:
    """A ready service of one's own, with two workers and a grader that can be told to hang."""
    return serve("--workers", "2", "--deadline", "3", "--drain-seconds", "1", stub=True).when_ready()


@pytest.mark.parametrize(
    "end",
    [
        methodcaller("send_signal", signal.SIGTERM),
        methodcaller("send_signal", signal.SIGINT),
        lambda process: process.stdin.close(),
    ],
    ids=["SIGTERM", "Ctrl-C", "the end of standard input"],
)
def test_it_prints_its_address_and_nothing_else_and_ends_with_everything(server: Any, all_end: Any, end: Any):
    assert re.fullmatch(r"math-reward listening on http://127\.0\.0\.1:[1-9]\d*", server.first_line)
    everything = server.everything()
    assert len(everything) >= 4  # The server, its fork server and two workers at the least.

    end(server.process)

    assert server.process.wait(timeout=120) == 0
    assert server.process.stdout.read() == ""
    assert all_end(everything)


async def test_connections_are_accepted_without_nagles_algorithm():
    """With it an answer's body waits for the receipt of its head: up to 40 ms for each answer."""
    accepted: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = writer.get_extra_info("socket")
        accepted.set_result(bool(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)))
        writer.close()

    listener = _listen("127.0.0.1", 0)
    async with await asyncio.start_server(connected, sock=listener):
        _, writer = await asyncio.open_connection(*listener.getsockname())
        assert await accepted
        writer.close()


def test_sigterm_ends_workers_that_hang(server: Any, all_end: Any):
    with pytest.raises(httpx.ReadTimeout):
        server.client.post("/v1/grade", json={"items": [HANGS] * 8}, timeout=0.5)
    everything = server.everything()

    server.process.send_signal(signal.SIGTERM)

    assert server.process.wait(timeout=120) == 0
    assert all_end(everything)


def test_kill_9_of_the_server_leaves_no_worker_not_even_one_that_hangs(server: Any, all_end: Any):
    with pytest.raises(httpx.ReadTimeout):
        server.client.post("/v1/grade", json={"items": [HANGS]}, timeout=0.5)
    everything = server.everything()
    assert len(everything) >= 4

    server.process.kill()

    assert server.process.wait(timeout=120) == -signal.SIGKILL
    assert all_end(everything)


def test_a_port_that_is_taken_is_refused(in_process: Any):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, printed, said = in_process("serve", "--port", str(taken.getsockname()[1]))

    assert (code, printed) == (2, "")
    assert re.fullmatch(
        r"math-reward: Cannot listen on 127\.0\.0\.1 port \d+: Address already in use\. "
        r"Choose another --host or --port\.\n",
        said,
    )


@pytest.fixture
def command(in_process: Callable[..., tuple[int, str, str]]) -> Callable[..., tuple[int, str]]:
    """The exit code and what was printed."""
    return lambda *arguments: in_process(*arguments)[:2]


@pytest.mark.parametrize(
    ("flags", "completion", "reference", "verdict"),
    [
        ([], r"So \boxed{\frac12}", "0.5", "correct"),
        ([], r"So \boxed{3}", "-5", "wrong"),
        ([], "So?", "5", "no_answer"),
        ([], "5", "", "bad_reference"),
        ([], r"\boxed{\int_0^1 x dx}", "1/2", "unevaluated"),
        (["--allow-unevaluated"], r"\boxed{\int_0^1 x dx}", "1/2", "correct"),
        ([], r"\boxed{2+2}", "4", "correct"),
        (["--evaluated"], r"\boxed{2+2}", "4", "unevaluated"),
        (["--evaluated"], r"\boxed{4}", "4", "correct"),
        ([], "so 41 = 42", "42", "ambiguous"),
        ([], "so 42 = 42", "42", "correct"),
    ],
)
def test_the_exit_code_of_grade_says_whether_it_is_correct_and_its_flags_what_may_be_left_undone(
    command: Any, flags: list[str], completion: str, reference: str, verdict: str
):
    code, printed = command("grade", "--json", *flags, completion, reference)

    assert (code, json.loads(printed)["verdict"]) == (int(verdict != "correct"), verdict)


@pytest.mark.parametrize(
    ("completion", "detail"),
    [
        (r"so \boxed{42", "The last box is not closed."),
        (r"\fbox{\frac{1}{2}", "The last box is not closed."),
        ("so?", None),
    ],
)
def test_a_box_that_was_cut_off_is_told(command: Any, completion: str, detail: str | None):
    row = json.loads(command("grade", "--json", completion, "42")[1])

    assert (row["verdict"], row["detail"]) == ("no_answer", detail)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse the limit")
def test_one_completion_is_graded_with_the_memory_of_a_worker(command: Any, monkeypatch: pytest.MonkeyPatch):
    def graded(*_: Any, **__: Any) -> Grade:
        return Grade(Verdict.WRONG, None, "5", str(resource.getrlimit(resource.RLIMIT_AS)[0]))

    monkeypatch.setattr("math_reward.commands.grade.grade", graded)

    assert json.loads(command("grade", "--json", "5", "5")[1])["detail"] == str(MEMORY_BYTES)


def test_one_completion_that_takes_longer_than_its_deadline_is_a_timeout(
    command: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("math_reward.commands.grade.grade", lambda *_, options: re.fullmatch("(a+)+b", "a" * 64))

    code, printed = command("grade", "--json", "--deadline", "0.2", "5", "4")

    row = json.loads(printed)
    assert (code, row["verdict"], row["reward"], row["reference"]) == (1, "timeout", 0.0, "4")
    assert_refusal(row["detail"], "0.2 s")


def test_a_grader_that_ends_its_process_is_no_verdict(in_process: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("math_reward.commands.grade.grade", lambda *_, options: os._exit(7))

    code, printed, said = in_process("grade", "5", "5")

    assert (code, printed) == (2, "")
    assert_refusal(said, "exit code 7")


def test_grade_prints_a_table(command: Any):
    _, printed = command("grade", r"So \boxed{\frac12}", "0.5")

    assert printed.splitlines() == [
        "verdict   correct",
        r"answer    \frac12",
        "reference 0.5",
        "reward    1.0",
        "correct   True",
        "stage     exact",
        "rule      Single expressions are the same where their values are: exactly, at points, by SymPy.",
    ]


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_terminal_that_has_only_ascii_gets_an_answer_of_other_characters_escaped(flags: list[str]):
    command = [sys.executable, "-m", "math_reward", "grade", *flags, r"\boxed{½}", "0.5"]
    done = subprocess.run(command, env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, timeout=120)

    assert (done.returncode, done.stderr) == (0, b"")
    if flags:
        assert json.loads(done.stdout)["answer"] == "½"
    else:
        assert rb"answer    \xbd" in done.stdout.splitlines()


REFUSED = [
    ([], ["serve", "grade", "compare"]),
    (["sevre"], ["'sevre'", "serve?"]),
    (["xyz"], ["'xyz'", "serve, grade, compare"]),
    (["--versoin"], ["--versoin", "--version?"]),
    (["grade"], ["--file"]),
    (["grade", "1"], ["--file"]),
    (["grade", "--output", "x", "1", "1"], ["--output", "--file"]),
    (["grade", "--label-key", "x", "1", "1"], ["--label-key", "--file"]),
    (["grade", "--workers", "2", "1", "1"], ["--workers", "--file"]),
    (["grade", "-", "--json"], ["--json", "--output -"]),
    (["grade", "1", "1", "--evaluatd"], ["--evaluatd", "--evaluated?"]),
    (["grade", "--mode", "strct", "1", "1"], ["--mode", "'strct'", "strict?"]),
    (["grade", "1", "1", "--frobnicate"], ["--frobnicate", "--help lists them"]),
    (["grade", "1", "1", "1"], ["1"]),
    (["grade", "--file", "{here}/rosw.jsonl"], ["rosw.jsonl", "did you mean {here}/rows.jsonl?"]),
    (["grade", "--file", "{here}/broken.jsonl"], ["line 1", "at character 18"]),
    (["compare", "--flie", "x"], ["--flie", "--file?"]),
    (["compare"], ["--file", "math-reward compare --help"]),
    (["grade", "--deadline", "0", "1", "1"], ["--deadline", "0 is not between", "600"]),
    (["grade", "--deadline", "601", "1", "1"], ["--deadline", "601 is not between", "600"]),
    (["grade", "--deadline", "nan", "1", "1"], ["--deadline", "nan is not between"]),
    (["grade", "--workers", "two", "1", "1"], ["--workers", "'two' is no number"]),
    (["serve", "--prot", "1"], ["--prot", "--port?"]),
    (["serve", "--port", "x"], ["--port", "'x'", "serve --help"]),
]


@pytest.mark.parametrize(("arguments", "named"), REFUSED)
def test_a_command_line_that_cannot_be_meant_is_refused(
    in_process: Any, tmp_path: Path, arguments: list[str], named: list[str]
):
    (tmp_path / "rows.jsonl").touch()
    (tmp_path / "broken.jsonl").write_text('{"reference": "1"\n')
    code, printed, said = in_process(*(word.format(here=tmp_path) for word in arguments))

    assert (code, printed) == (2, "")
    assert_refusal(said, *(name.format(here=tmp_path) for name in named))


def test_the_help_of_serve_shows_the_default_of_a_flag_that_has_one_and_no_other(in_process: Any):
    text = " ".join(in_process("serve", "--help")[1].split())

    assert "CPU seconds that grading one item may take (2) --mode" in text
    assert "strict is a box alone (lenient) --max-items" in text
    assert "on an address that others can reach --certfile CERTFILE" in text
    assert text.count("(None)") == 0
