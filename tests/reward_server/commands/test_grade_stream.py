"""``math-reward grade -``: rows in, verdicts out, one a line."""

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from math_reward.commands import windows
from math_reward.commands.rows import Row
from math_reward.commands.windows import WINDOWS, graded_in_order
from math_reward.grader.verdict import Options
from math_reward.pool.item import Item
from math_reward.pool.worker_pool import WorkerPool

from ...refusals import assert_refusal

WAIT = 120


def piped(content: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "math_reward", "grade", "--workers", "1", *arguments]
    return subprocess.run(command, input=content, capture_output=True, timeout=WAIT)


def lines_of(*rows: Any) -> bytes:
    return b"".join((row if isinstance(row, bytes) else json.dumps(row).encode()) + b"\n" for row in rows)


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


def test_a_dash_with_a_reference_is_a_completion(in_process: Any):
    code, printed, _ = in_process("grade", "-", "4")

    assert code == 1
    assert "reference 4" in printed


def test_a_verdict_comes_before_the_next_row_is_sent():
    command = [sys.executable, "-m", "math_reward", "grade", "--workers", "1", "-"]
    shown: queue.Queue[bytes] = queue.Queue()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        threading.Thread(target=lambda: [shown.put(line) for line in process.stdout], daemon=True).start()

        def send(content: bytes) -> None:
            process.stdin.write(content)
            process.stdin.flush()

        for number in range(1, 4):
            send(lines_of({"output": str(number), "gold": "2"}))
            assert json.loads(shown.get(timeout=WAIT))["correct"] == (number == 2)
        for line, parts in ((4, [b"{\n"]), (6, [b'\n{"output": "4"', b', "gold": "4"}\n\n'])):
            for part in parts:
                send(part)
            assert json.loads(shown.get(timeout=WAIT))["line"] == line
        process.stdin.close()


def test_a_reader_who_has_gone_ends_it_quietly():
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; yes '{json.dumps({'output': '4', 'gold': '4'})}' "
         f"| {sys.executable} -m math_reward grade --workers 1 - | head -n 1"],
        capture_output=True,
        timeout=WAIT,
    )  # fmt: skip

    assert json.loads(done.stdout)["line"] == 1
    assert (done.returncode, done.stderr) == (141, b"")


class Rows:
    """A file of rows that says how many have been read."""

    size, bytes_read = None, 0

    def __init__(self, count: int) -> None:
        self.count = count
        self.read = 0

    def __iter__(self) -> Iterator[Row]:
        while self.read < self.count:
            self.read += 1
            yield Row(self.read, Item("4", "4", None, Options()), None)


def test_a_file_is_read_only_a_few_windows_ahead(stub_graders: ModuleType, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(windows, "WINDOW_ROWS", 32)
    rows: Any = Rows(1000)
    ahead = []
    with WorkerPool(1, 20, grader=stub_graders.approve) as pool:
        for done, (row, _) in enumerate(graded_in_order(rows, pool), 1):
            assert row.line == done
            ahead.append(rows.read - done)

    assert len(ahead) == 1000
    assert 32 < max(ahead) <= 32 * (WINDOWS + 1) + 1  # these are under way or wait, and one is being put
