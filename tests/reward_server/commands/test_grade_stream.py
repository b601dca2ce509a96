"""``math-reward grade -``: rows in, verdicts out, one a line."""

import contextlib
import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from math_reward.commands import windows
from math_reward.commands.row_file import RowFile
from math_reward.commands.rows import Fault, Row
from math_reward.commands.windows import WINDOW_ROWS, WINDOWS, graded_in_order
from math_reward.grader.verdict import Options
from math_reward.pool.worker_pool import WorkerPool

from ...refusals import assert_refusal

WAIT = 120
NAMED: dict[str, str | None] = dict.fromkeys(("completion", "reference", "prompt", "label"))


def piped(content: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "math_reward", "grade", "--workers", "1", *arguments]
    return subprocess.run(command, input=content, capture_output=True, timeout=WAIT)


def lines_of(*rows: Any) -> bytes:
    return b"".join((row if isinstance(row, bytes) else json.dumps(row).encode()) + b"\n" for row in rows)


@pytest.mark.parametrize("arguments", [["-"], ["--file", "-", "--output", "-"]])
def test_rows_become_verdicts_in_order_with_nothing_on_standard_error(arguments: list[str]):
    count = WINDOW_ROWS + 7
    rows = lines_of(*({"output": rf"\boxed{{{n}}}", "gold": n if n % 3 else n + 1} for n in range(count)))

    done = piped(rows, *arguments)

    verdicts = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr) == (0, b"")
    assert [one["line"] for one in verdicts] == list(range(1, count + 1))
    assert [one["correct"] for one in verdicts] == [n % 3 != 0 for n in range(count)]
    assert set(verdicts[0]) == {
        "line", "reward", "correct", "verdict", "answer", "reference", "detail", "stage", "span", "seconds",
    }  # fmt: skip


def test_a_bad_line_gets_an_error_in_its_place_and_the_exit_code_is_1():
    good = {"output": "4", "gold": "4"}

    done = piped(lines_of(b"{", good, b"", b"\xff", {"output": 3, "gold": "4"}, good), "-")

    shown = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr) == (1, b"")
    assert [(one["line"], one.get("verdict")) for one in shown] == [
        (1, None),
        (2, "correct"),
        (4, None),
        (5, None),
        (6, "correct"),
    ]
    for place, named in ((0, "JSON"), (2, "UTF-8"), (3, "'output'")):
        assert_refusal(shown[place]["error"], named)


def test_without_any_row_the_exit_code_is_2():
    done = piped(b"\n", "-")

    assert (done.returncode, done.stdout) == (2, b"")
    assert_refusal(done.stderr.decode(), "empty")


def test_a_dash_with_a_reference_is_a_completion(in_process: Any):
    code, printed, _ = in_process("grade", "-", "4")

    assert code == 1
    assert "reference 4" in printed


@contextlib.contextmanager
def conversation() -> Iterator[tuple[subprocess.Popen[bytes], Callable[[Any], None], Callable[[], dict[str, Any]]]]:
    """The command, what sends it a row, and what waits for its next line."""
    process = subprocess.Popen(
        [sys.executable, "-m", "math_reward", "grade", "--workers", "1", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    lines: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=lambda: [lines.put(line) for line in process.stdout], daemon=True).start()

    def send(row: Any) -> None:
        process.stdin.write(lines_of(row))
        process.stdin.flush()

    with process:
        yield process, send, lambda: json.loads(lines.get(timeout=WAIT))
        process.stdin.close()


def test_a_verdict_comes_before_the_next_row_is_sent():
    with conversation() as (_, send, next_line):
        for number in range(1, 4):
            send({"output": str(number), "gold": "2"})
            assert next_line()["correct"] == (number == 2)
        send(b"{")
        assert next_line()["line"] == 4


def test_a_reader_who_has_gone_ends_it_quietly():
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; yes '{json.dumps({'output': '4', 'gold': '4'})}' "
         f"| {sys.executable} -m math_reward grade --workers 1 - | head -n 1"],
        capture_output=True,
        timeout=WAIT,
    )  # fmt: skip

    assert json.loads(done.stdout)["line"] == 1
    assert (done.returncode, done.stderr) == (141, b"")


class Counted:
    """Counts the rows that are alive."""

    def __init__(self) -> None:
        self.alive = self.most = 0
        self.lock = threading.Lock()

    def change(self, by: int) -> None:
        with self.lock:
            self.alive += by
            self.most = max(self.most, self.alive)


def most_rows_at_once(count: int, path: Path, pool: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """The most rows that were held at any time while a file of ``count`` rows was graded, and how many came out."""
    path.write_bytes(lines_of(*({"output": str(n % 10), "gold": "4"} for n in range(count))))
    counted = Counted()

    class CountedFile(RowFile):
        def __iter__(self) -> Iterator[Row | Fault]:
            for row in super().__iter__():
                counted.change(1)
                yield row

    done = 0
    with CountedFile(str(path), Options(), NAMED) as file:
        for _ in graded_in_order(file, pool):
            done += 1
            counted.change(-1)
    return counted.most, done


def test_twice_as_many_rows_are_held_by_no_more_memory(
    stub_graders: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(windows, "WINDOW_ROWS", 32)
    with WorkerPool(1, 20, grader=stub_graders.approve) as pool:
        for count in (1000, 2000):
            most, done = most_rows_at_once(count, tmp_path / "rows.jsonl", pool, monkeypatch)

            assert done == count
            assert 32 <= most <= 32 * (WINDOWS + 1)
