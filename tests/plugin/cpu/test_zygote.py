"""A fork of the zygote is, to whoever starts and watches it, the Python that it stands for."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ..zygote_driver import Driver

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="The zygote is for Linux.")


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    driver = Driver("numpy")
    yield driver
    driver.stop()


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], str]:
    """Write a program and give its path."""

    def write(text: str) -> str:
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(text))
        return str(path)

    return write


SAYS_WHAT_IT_SEES = """
    import os, sys
    import __main__

    print(sys.argv[1:], os.getcwd(), os.environ["COLOUR"], "HOME" in os.environ, sys.stdin.read(), __name__)
    print(__main__.__dict__["__name__"], sys.path[0] if sys.argv[0] != "-c" else "", file=sys.stderr)
"""


@pytest.mark.parametrize("form", ["a file", "a line", "a module"])
def test_it_sees_the_arguments_folder_environment_and_input_that_python_would(
    driver: Driver, program: Callable[[str], str], tmp_path: Path, form: str
):
    arguments = ["-u", "-B", "-X", "dev", *([program(SAYS_WHAT_IT_SEES)] if form == "a file" else [])]
    if form == "a line":
        arguments += ["-c", textwrap.dedent(SAYS_WHAT_IT_SEES)]
    if form == "a module":
        program(SAYS_WHAT_IT_SEES)
        arguments += ["-m", "program"]
    options: dict[str, Any] = {"cwd": tmp_path, "input": "read me", "env": {"COLOUR": "green", "PATH": os.defpath}}

    forked = driver.run(*arguments, "one", "two words", **options)
    plain = subprocess.run(
        [sys.executable, *arguments, "one", "two words"], capture_output=True, text=True, timeout=60, **options
    )

    assert "['one', 'two words']" in plain.stdout
    assert (forked.stdout, forked.stderr, forked.returncode) == (plain.stdout, plain.stderr, 0)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("import sys; sys.exit(7)", 7),
        ("import sys; sys.exit()", 0),
        ("import sys; sys.exit('a sentence')", 1),
        ("raise ValueError('a fault')", 1),
        ("import os; os._exit(9)", 9),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL),
    ],
)
def test_it_ends_with_the_exit_code_that_python_would_have(driver: Driver, text: str, code: int):
    forked = driver.run("-c", text)

    assert forked.returncode == code
    assert ("a sentence" in forked.stderr) == ("a sentence" in text)
    assert ("ValueError: a fault" in forked.stderr) == ("a fault" in text)


def test_what_is_registered_for_the_end_is_done(driver: Driver):
    text = "import atexit, threading, time; atexit.register(print, 'goodbye')\n" + (
        "threading.Thread(target=lambda: (time.sleep(0.1), print('from a thread', flush=True))).start()"
    )

    assert driver.run("-c", text).stdout == "from a thread\ngoodbye\n"


def test_two_forks_draw_different_numbers(driver: Driver):
    text = "import numpy, random; print(numpy.random.random(), random.random())"

    drawn = [number for _ in range(2) for number in driver.run("-c", text).stdout.split()]

    assert len(set(drawn)) == 4


def test_open_files_keep_their_numbers(driver: Driver):
    readers, writers = zip(*(os.pipe() for _ in range(12)), strict=True)
    order = list(reversed(writers))
    text = f"import os\nfor place, number in enumerate({order}): os.write(number, b'%d' % place)"

    forked = driver.run("-c", text, pass_fds=writers)

    for writer in writers:
        os.close(writer)
    assert forked.returncode == 0, forked.stderr
    for place, reader in enumerate(reversed(readers)):
        assert os.read(reader, 100) == b"%d" % place
        assert os.read(reader, 1) == b"", "neither side holds an end"
        os.close(reader)


def test_multiprocessing_spawns_forks_too(driver: Driver, program: Callable[[str], str]):
    text = """
        import multiprocessing, os, sys

        def twice(number):
            return 2 * number, "numpy" in sys.modules

        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(2) as pool:
                print(pool.map(twice, [1, 2, 3]))
    """
    forked = driver.run(program(text))

    assert forked.stdout == "[(2, True), (4, True), (6, True)]\n", forked.stderr


WAITS = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"


def started(driver: Driver) -> tuple[subprocess.Popen[str], psutil.Process]:
    """A fork that waits: whoever stands for it, and itself."""
    asker = subprocess.Popen([driver.python, "-c", WAITS], stdout=subprocess.PIPE, text=True)
    assert asker.stdout
    return asker, psutil.Process(int(asker.stdout.readline()))


def ends(process: psutil.Process, seconds: float = 60) -> bool:
    """Whether it ends in time; as a zombie it has, which nobody waits for where a container's first process does
    not."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


def test_a_signal_to_who_asked_for_it_reaches_it(driver: Driver):
    asker, fork = started(driver)

    asker.terminate()

    assert asker.wait(60) == 128 + signal.SIGTERM
    assert ends(fork)


def test_it_ends_with_who_asked_for_it(driver: Driver):
    asker, fork = started(driver)

    asker.kill()
    asker.wait(60)

    assert ends(fork)
    assert driver.run("-c", "print('the zygote goes on')").stdout == "the zygote goes on\n"


def test_who_asked_for_it_ends_with_it(driver: Driver):
    asker, fork = started(driver)

    fork.kill()

    assert asker.wait(60) == 128 + signal.SIGKILL
    assert not [child for child in driver.zygote.children() if child.status() == psutil.STATUS_ZOMBIE]


def test_a_killed_driver_takes_the_forks_along():
    driver = Driver("json")
    asker, fork = started(driver)

    driver.process.kill()

    assert ends(fork)
    assert asker.wait(60) == 128 + signal.SIGKILL


@pytest.mark.parametrize("end", [Driver.stop, lambda driver: driver.process.kill()], ids=["stops", "is killed"])
def test_where_its_driver_ends_the_zygote_ends_and_its_python_is_an_ordinary_one(
    end: Callable[[Driver], None],
):
    driver = Driver("json")
    python = Path(driver.python).read_text()

    end(driver)
    driver.process.wait(60)

    assert ends(driver.zygote)
    line = python.splitlines()[1].replace('"$@"', "-c 'import sys; print(sys.argv)' one")
    assert subprocess.run(line, shell=True, capture_output=True, text=True).stdout == "['-c', 'one']\n"


def test_a_module_that_went_on_without_ray_is_imported_again_with_it(tmp_path: Path):
    package = tmp_path / "library"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "asks.py").write_text("try:\n    import ray\nexcept ImportError:\n    ray = None\n")
    (package / "does_not.py").write_text("")
    driver = Driver("library.asks", "library.does_not", path=tmp_path)

    text = "import sys; print([name in sys.modules for name in ('ray', 'library.asks', 'library.does_not')])\n" + (
        "from library import asks; print(asks.ray.__name__)"
    )
    forked = driver.run("-c", text)
    driver.stop()

    assert forked.stdout == "[False, False, True]\nray\n", forked.stderr
