"""Worker processes do not import the program that uses the pool, and other processes do as ever."""

import subprocess
import sys
from pathlib import Path

POOL = """
from math_reward.pool.worker_pool import Item, WorkerPool

print("the program runs", flush=True)

with WorkerPool(workers=1, deadline=20) as pool:
    print(pool.submit(Item(r"\\boxed{42}", "42")).result(timeout=120).grade.verdict.value, flush=True)
"""

OTHER_PROCESS = """
import threading
from multiprocessing import get_context
from math_reward.pool.without_main import without_main

print("the program runs", flush=True)

def here() -> None:
    print("a process starts", flush=True)

if __name__ == "__main__":
    process = get_context("forkserver").Process(target=here)
    with without_main():  # as while a worker starts
        thread = threading.Thread(target=process.start)
        thread.start()
        thread.join()
    process.join()
"""


def lines_of(program: str, folder: Path) -> list[str]:
    file = folder / "program.py"
    file.write_text(program)
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=280)
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_a_program_can_use_the_pool_without_a_guard_around_its_last_line(tmp_path: Path) -> None:
    assert lines_of(POOL, tmp_path) == ["the program runs", "correct"]


def test_a_process_that_another_thread_starts_meanwhile_imports_its_program_as_ever(tmp_path: Path) -> None:
    once = "the program runs"
    assert lines_of(OTHER_PROCESS, tmp_path) == [once, once, "a process starts"]
