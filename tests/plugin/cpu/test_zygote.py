"""A fork of the zygote is, to whoever starts and watches it, the Python that it stands for."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from ..zygote_driver import Driver

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="The zygote is for Linux.")

PROGRAM = """
import atexit, os, sys, threading, time

atexit.register(print, "goodbye")
threading.Thread(target=lambda: (time.sleep(0.1), print("from a thread", flush=True))).start()
print(sys.argv[1:], os.getcwd(), os.environ["COLOUR"], "HOME" in os.environ, sys.stdin.read(), __name__)
print(sys.path[0] if sys.argv[0] != "-c" else "", file=sys.stderr)
os.write(int(sys.argv[1]), b"to an open file")
sys.exit("a sentence")
"""


@pytest.mark.parametrize("form", ["-c", "-m", "a file"])
def test_it_does_what_python_would(form: str, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    arguments = {"-c": ["-c", PROGRAM], "-m": ["-m", "program"]}.get(form, [str(file)])
    driver = Driver("json")
    found = []
    for python in (sys.executable, driver.python):
        reader, writer = os.pipe()
        command: list[Any] = [python, "-u", "-B", "-X", "dev", *arguments, str(writer), "two words"]
        options: dict[str, Any] = {"cwd": tmp_path, "input": "read me", "env": {"COLOUR": "green", "PATH": os.defpath}}
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, pass_fds=[writer], **options)
        os.close(writer)
        found.append([done.stdout.replace(str(writer), "N"), done.stderr, done.returncode, os.read(reader, 100)])
        assert os.read(reader, 1) == b"", "neither side holds an end"
        os.close(reader)
    driver.stop()
    assert found[0] == found[1]
    assert found[0][0].endswith("from a thread\ngoodbye\n")
    assert found[0][2:] == [1, b"to an open file"]


def ends(process: psutil.Process) -> bool:
    """Whether it ends within a minute; as a zombie it has."""
    for _ in range(1200):
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


def test_whoever_asked_and_the_fork_end_together_and_all_of_them_with_the_driver() -> None:
    driver = Driver("json")

    def started() -> tuple["subprocess.Popen[str]", psutil.Process]:
        waits = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
        asker = subprocess.Popen([driver.python, "-c", waits], stdout=subprocess.PIPE, text=True)
        assert asker.stdout
        return asker, psutil.Process(int(asker.stdout.readline()))

    (told, one), (killed, other), (left, third), (watcher, last) = (started() for _ in range(4))
    told.terminate()
    assert told.wait(60) == 128 + signal.SIGTERM
    assert ends(one)
    killed.kill()
    assert ends(other)
    third.kill()
    assert left.wait(60) == 128 + signal.SIGKILL
    assert driver.run("-c", "print('the zygote goes on')").stdout == "the zygote goes on\n"
    driver.process.kill()
    assert ends(last)
    assert ends(driver.zygote)
    assert watcher.wait(60) == 128 + signal.SIGKILL
    assert driver.run("-c", "print('an ordinary Python')").stdout == "an ordinary Python\n"
