"""``math-reward grade --file``: the real command on real files."""

import contextlib
import fcntl
import functools
import gzip
import json
import os
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from math_reward.commands.windows import WINDOW_ROWS, WINDOWS

from ...refusals import assert_refusal

ROWS = [
    {"question": "Half?", "response": r"\boxed{\frac12}", "answer": "0.5", "label": True},
    {"question": "Seven?", "response": r"\boxed{8}", "answer": 7, "label": False},
    {"question": "Six?", "response": "I cannot say.", "answer": "6", "label": False},
    {"question": "Root?", "response": r"\boxed{2\sqrt{2}}", "answer": r"\sqrt{8}", "label": True},
]


@pytest.fixture
def command(in_process: Any) -> Any:
    return functools.partial(in_process, "grade", "--workers", "1")


def test_a_file_is_graded_and_its_labels_are_checked(command: Any, write: Any):
    turned = [{**row, "label": not row["label"]} for row in ROWS[:3]]
    code, printed, _ = command("--file", write(*turned, ROWS[3]), "--json")

    report = json.loads(printed)
    assert code == 0
    assert report["rows"] == 4
    assert report["verdicts"] == {"correct": 2, "wrong": 1, "no_answer": 1}
    assert sum(report["stages"].values()) == 3
    assert (report["labelled"], report["accuracy"]) == (4, 0.25)
    assert (report["false_accepts"], report["false_rejects"]) == ([1], [2, 3])
    assert report["keys"] == {"reference": "answer", "completion": "response", "prompt": "question", "label": "label"}


def test_the_rate_is_that_of_the_seconds_it_took(command: Any, write: Any, monkeypatch: pytest.MonkeyPatch):
    seconds = iter([10.0, 12.0])
    clock = SimpleNamespace(perf_counter=lambda: next(seconds))
    monkeypatch.setattr("math_reward.commands.grade_file.time", clock)
    _, printed, _ = command("--file", write(*ROWS), "--json")

    assert json.loads(printed)["rows_per_second"] == 2.0


def test_the_printed_report_says_what_people_need(command: Any, write: Any):
    code, printed, _ = command("--file", write(*ROWS, {**ROWS[0], "answer": r"\frac{1}{"}))

    lines = printed.splitlines()
    (accuracy,) = (line for line in lines if line.startswith("accuracy "))
    assert code == 1
    assert re.findall(r"'(\w+)'", lines[0]) == ["answer", "response", "question", "label"]
    assert lines[1].startswith("rows         5 in ")
    assert "verdicts     correct                  2   40.0%" in lines
    assert re.findall(r"[\d.]+", accuracy) == ["0.8000", "5", "0", "1"]
    assert "  false rejects: lines 5" in lines
    assert "references   1 cannot be used" in lines
    assert lines[-1].startswith(r"  line 5: '\frac{1}{': ")


def test_bad_references_are_listed_with_line_and_reason(command: Any, write: Any):
    rows = [{"reference": one} for one in ("3", "", "x^2", r"\frac{1}{", None, "None", "7")]
    code, printed, _ = command("--file", write(*rows), "--json")

    report = json.loads(printed)
    assert code == 1
    assert report["rows"] == 7
    assert [(fault["line"], fault["reference"]) for fault in report["bad_references"]] == [
        (2, ""),
        (4, r"\frac{1}{"),
        (5, ""),
        (6, "None"),
    ]
    assert report["bad_references"][0]["reason"] == "it is empty."
    assert report["keys"]["completion"] is None


def test_a_prompt_is_cut_off_a_completion_that_begins_with_it(command: Any, write: Any):
    prompt = r"Example: \boxed{4}. Now you:"
    report = json.loads(command("--file", write({"prompt": prompt, "output": prompt, "gold": "4"}), "--json")[1])

    assert report["verdicts"] == {"no_answer": 1}


def test_fields_can_be_named(command: Any, write: Any):
    row = {"q": "Q: ", "r": r"Q: \boxed{1}", "a": "1", "answer": "2", "ok": False}
    keys = ("--completion-key", "r", "--reference-key", "a", "--prompt-key", "q", "--label-key", "ok")
    report = json.loads(command("--file", write(row), "--json", *keys)[1])

    assert report["keys"] == {"reference": "a", "completion": "r", "prompt": "q", "label": "ok"}
    assert (report["verdicts"], report["false_accepts"]) == ({"correct": 1}, [1])


def test_the_options_reach_the_grader(command: Any, write: Any):
    path = write({"output": "So 101.", "gold": "100"}, {"output": r"\boxed{101}", "gold": "100"})

    assert json.loads(command("--file", path, "--json", "--rel-tol", "0.02")[1])["verdicts"] == {"correct": 2}
    strict = json.loads(command("--file", path, "--json", "--rel-tol", "0.02", "--mode", "strict")[1])
    assert strict["verdicts"] == {"no_answer": 1, "correct": 1}


BAD_LINES = [
    (b"{", "JSON"),
    (b"[1]", "{...}"),
    (b'{"answer": "1"}', "It has no field 'response'; it has 'answer'."),
    (b'{"response": 3, "answer": "1"}', "'response'"),
    (b'{"response": "1", "answer": {}}', "'answer'"),
    (b"\xff\xfe{", "UTF-8"),
    (json.dumps(ROWS[0] | {"label": "maybe"}).encode(), "'label'"),
]


def test_bad_lines_have_a_reason_each_and_the_others_are_graded(command: Any, write: Any):
    rows = write(ROWS[0], b"", *(line for line, _ in BAD_LINES), ROWS[3])

    code, printed, _ = command("--file", rows, "--json")

    report = json.loads(printed)
    assert code == 1
    assert report["verdicts"] == {"correct": 2}
    assert [fault["line"] for fault in report["bad_lines"]] == list(range(3, 10))
    for fault, (_, named) in zip(report["bad_lines"], BAD_LINES, strict=True):
        assert_refusal(fault["reason"], named)


def test_the_output_has_a_verdict_per_row_in_order(command: Any, write: Any, tmp_path: Path):
    output = tmp_path / "verdicts.jsonl"
    count = WINDOW_ROWS * (WINDOWS + 1) + 7
    rows = [{"output": rf"\boxed{{{n}}}", "gold": n if n % 3 else n + 1} for n in range(count)]
    code, printed, _ = command("--file", write(b"{", *rows), "--output", str(output), "--json")

    written = [json.loads(line) for line in output.read_text().splitlines()]
    assert code == 1  # Of the bad line.
    assert [row["line"] for row in written] == list(range(2, count + 2))
    assert [row["answer"] for row in written] == [str(n) for n in range(count)]
    assert [row["correct"] for row in written] == [n % 3 != 0 for n in range(count)]
    assert set(written[0]) == {
        "line", "reward", "correct", "verdict", "answer", "reference", "detail", "stage", "span", "seconds",
    }  # fmt: skip
    assert json.loads(printed)["rows"] == count


def test_a_compressed_file_and_standard_input_are_read_too(command: Any, write: Any, monkeypatch: pytest.MonkeyPatch):
    compressed = command("--file", write(*ROWS, name="rows.jsonl.gz"), "--json")
    with Path(write(*ROWS)).open() as file:
        monkeypatch.setattr("sys.stdin", file)
        piped = command("--file", "-", "--json")

    assert compressed[0] == piped[0] == 0
    assert json.loads(compressed[1])["verdicts"] == json.loads(piped[1])["verdicts"]
    assert json.loads(piped[1])["rows"] == 4


def test_a_byte_order_mark_windows_line_ends_and_numbers_are_read(command: Any, write: Any):
    first = b"\xef\xbb\xbf" + json.dumps(ROWS[0]).encode()
    rows = [{"response": "42", "answer": answer} for answer in (42, 42.0, "42")]
    lines = [first, *(json.dumps(row).encode() for row in rows)]
    code, printed, _ = command("--file", write(*(line + b"\r" for line in lines)), "--json")

    assert code == 0
    assert json.loads(printed)["verdicts"] == {"correct": 4}


ROW = b'{"answer": "4"}\n'
REFUSED: list[tuple[str, bytes | None, list[str], list[str]]] = [
    *(("rows.jsonl", content, [], ["PATH", "empty"]) for content in (b"", b"\n\n", b"\xef\xbb\xbf\r\n")),
    ("rows.jsonl", ROW.decode().encode("utf-16"), [], ["PATH", "UTF-16"]),
    ("rows.jsonl", b"no json\n", [], ["PATH", "line 1: ", "JSON"]),
    ("rows.jsonl", b'{"text": "4"}\n', [], ["'text'", "--reference-key"]),
    ("rows.jsonl", None, [], ["PATH"]),
    ("rows.jsonl.gz", gzip.compress(ROW * 9999)[:-40], [], ["PATH", "end"]),
    ("rows.jsonl.gz", ROW, [], ["PATH", "gzip"]),
    ("rows.jsonl", ROW, ["--completion-key", "c"], ["'c'", "'answer'"]),
    ("rows.jsonl", ROW, ["--workers", "0"], ["--workers", "0 is not between"]),
    ("rows.jsonl", ROW, ["--output", "/no/such/folder/x"], ["/no/such/folder/x"]),
    ("rows.jsonl", ROW, ["1", "2"], ["--file", "not both"]),
]


@pytest.mark.parametrize(("name", "content", "arguments", "named"), REFUSED)
def test_what_cannot_be_graded_is_refused_with_exit_code_2(
    command: Any, tmp_path: Path, name: str, content: bytes | None, arguments: list[str], named: list[str]
):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)

    code, printed, complaint = command("--file", str(path), *arguments)

    assert (code, printed) == (2, "")
    assert_refusal(complaint, *(one.replace("PATH", str(path)) for one in named))


def test_on_a_terminal_there_is_a_progress_bar_on_standard_error(write: Any):
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))  # It would have no columns.
    with subprocess.Popen(
        [sys.executable, "-m", "math_reward", "grade", "--file", write(*ROWS)], stdout=subprocess.PIPE, stderr=theirs
    ) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # Linux's way to say that the other end is closed.
            while part := os.read(ours, 4096):
                shown += part
        assert process.wait(timeout=60) == 0
    os.close(ours)
    assert b"100%" in shown


def test_ctrl_c_ends_it_and_all_its_workers():
    with subprocess.Popen(
        [sys.executable, "-m", "math_reward", "grade", "--file", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # What a shell runs in the background ignores it, tests and their children too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b'{"answer": "4", "output": "4"}\n' * 2 * WINDOW_ROWS)
        process.stdin.flush()
        limit = time.monotonic() + 120
        while len(everything := psutil.Process(process.pid).children(recursive=True)) < 3:
            assert time.monotonic() < limit, everything
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == 130
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()
    _, alive = psutil.wait_procs(everything, timeout=120)
    assert [one for one in alive if one.status() != psutil.STATUS_ZOMBIE] == []
