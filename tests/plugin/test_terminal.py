"""What a run shows on the terminal, and what goes to its log."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os, subprocess, sys
from openrlhf_gtpo.terminal import MARK, Terminal

terminal = Terminal()
terminal.say("before")
with terminal.quiet({log!r}, append={append}):
    print("noise")
    print(f"(worker pid=1) {MARK}step 1 | reward 0.5")
    print("more noise", file=sys.stderr)
    os.write(2, b"noise of C\\n")
    subprocess.run(["echo", "noise of a child"])
    {body}
terminal.end({status}, "last words\\nand more")
print("after")
"""


def run(tmp_path: Path, status: int = 0, body: str = "pass", append: bool = False) -> tuple[list[str], list[str], str]:
    log = tmp_path / "out" / "train.log"
    program = PROGRAM.replace("{log!r}", f"__import__('pathlib').Path({str(log)!r})").replace("{status}", str(status))
    program = program.replace("{body}", body).replace("{append}", str(append))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    return done.stdout.splitlines(), done.stderr.splitlines(), log.read_text()


def test_lines_of_ours_are_shown_and_all_else_is_in_the_log(tmp_path: Path) -> None:
    out, error, log = run(tmp_path)
    assert out == ["openrlhf-gtpo train: step 1 | reward 0.5", "after"]
    assert error[0] == "openrlhf-gtpo train: before"
    assert error[1].endswith(str(tmp_path / "out" / "train.log"))
    assert error[2:] == ["openrlhf-gtpo train: last words", "openrlhf-gtpo train: and more"]
    for noise in ("noise\n", "more noise", "noise of C", "noise of a child", "step 1 | reward 0.5"):
        assert noise in log


def test_a_resumed_run_keeps_the_log_of_the_first_and_another_begins_anew(tmp_path: Path) -> None:
    run(tmp_path, body="print('of the first')")
    _, _, log = run(tmp_path, append=True)
    assert log.index("of the first") < log.rindex("noise of a child")
    assert log.count("noise of a child") == 2
    assert "of the first" not in run(tmp_path)[2]


def test_after_an_error_the_end_of_the_log_stands_before_the_last_words(tmp_path: Path) -> None:
    body = "[print(f'line {n}') for n in range(100)]; terminal.show_end_of_log()"
    _, error, _ = run(tmp_path, status=1, body=body)
    assert error[-2:] == ["openrlhf-gtpo train: error: last words", "openrlhf-gtpo train: error: and more"]
    assert "line 99" in error
    assert "line 10" not in error


def test_a_workers_line_that_comes_late_is_waited_for(tmp_path: Path) -> None:
    late = "threading.Timer(1, lambda: print(f'(worker pid=1) {MARK}step 2     reward 0.9')).start()"
    out, _, _ = run(tmp_path, body=f"import threading; {late}; terminal.wait_for('step 2   '); print('noise')")
    assert out == [f"openrlhf-gtpo train: step {step}" for step in ("1 | reward 0.5", "2     reward 0.9")] + ["after"]


def test_after_the_last_words_a_workers_line_is_in_the_log_alone(tmp_path: Path) -> None:
    body = "terminal.end(1, 'it failed'); print(f'(worker pid=1) {MARK}step 2     reward 0.9')"
    out, error, log = run(tmp_path, body=body)
    assert out == ["openrlhf-gtpo train: step 1 | reward 0.5", "after"]
    assert "openrlhf-gtpo train: error: it failed" in error
    assert "step 2     reward 0.9" in log
