"""For the suite, where it saves half an hour: starts Ray's workers and vLLM's engines as forks of one process that has
imported everything already.

Every actor and engine imports torch, transformers, DeepSpeed and vLLM, which takes eight seconds or more of a core,
and a run on a laptop has four of them. The driver needs the same modules. So it imports them and forks a *zygote*
before it starts anything else. Ray runs its workers with a program that asks the zygote for a fork. The fork then runs
the worker's command line, with the worker's own environment, folder and open files.
"""

import atexit
import contextlib
import ctypes
import fcntl
import importlib
import json
import multiprocessing
import os
import random
import runpy
import shlex
import shutil
import signal
import socket
import struct
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from . import forked_python

PRELOADED = (
    "torch",
    "transformers",
    "transformers.trainer",
    "transformers.models.qwen2.modeling_qwen2",
    "datasets",
    "peft",
    "deepspeed",
    "vllm.v1.engine.async_llm",
    "vllm.v1.engine.core",
    "vllm.v1.worker.cpu_worker",
)
"""Modules that take seconds to import in the policy's actor, the rollout actor, the controller or an engine. Not Ray,
nor modules that import it, since Ray reads its worker's environment when it is imported."""

PR_SET_PDEATHSIG = 1  # linux/prctl.h
_MANY = 253  # open files that one message may carry (SCM_MAX_FD)


class Zygote:
    """A child of this process that forks itself on demand. A context manager that stops it.

    Attributes:
        python: path of a program that takes Python's command line and runs it in a fork.
    """

    def __init__(self, modules: Sequence[str] = PRELOADED) -> None:
        _import_without_ray(modules)
        self._folder = Path(tempfile.mkdtemp(prefix="openrlhf_gtpo_"))  # no other user can enter it
        path = self._folder / "socket"
        self.python = str(self._folder / "python")
        client = [sys.executable, "-I", "-S", forked_python.__file__, str(path)]
        Path(self.python).write_text(f'#!/bin/sh\nexec {shlex.join(client)} "$@"\n')
        Path(self.python).chmod(0o700)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(path))
        listener.listen(64)
        driver = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        self._pid = os.fork()
        if self._pid == 0:
            _end_with(driver)
            _serve(listener, self.python)
        listener.close()

    def __enter__(self) -> "Zygote":
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)
        shutil.rmtree(self._folder, ignore_errors=True)


class _NoRay:
    """A module finder that hides Ray and records the modules that tried to import it."""

    def __init__(self) -> None:
        self.askers: set[str] = set()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name != "ray" and not name.startswith("ray."):
            return
        frame = sys._getframe(1)
        while frame.f_back and "importlib" in frame.f_code.co_filename:
            frame = frame.f_back
        self.askers.add(frame.f_globals["__name__"])
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _import_without_ray(modules: Sequence[str]) -> None:
    """Import the modules. Those that tried to import Ray are removed again, so that a fork imports them with Ray."""
    if "ray" in sys.modules:
        raise RuntimeError("Ray is imported already: start the zygote before.")
    finder = _NoRay()
    sys.meta_path.insert(0, finder)
    try:
        for module in modules:
            importlib.import_module(module)
    finally:
        sys.meta_path.remove(finder)
    for name in finder.askers:
        del sys.modules[name]
        package, _, child = name.rpartition(".")
        delattr(sys.modules[package], child)


def _end_with(parent: int) -> None:
    """Make the kernel kill this process when its parent ends, in whatever way."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _serve(listener: socket.socket, python: str) -> NoReturn:
    """The zygote's side: forks a keeper for each process that asks."""
    for number in (signal.SIGTERM, signal.SIGINT):  # the driver ends this process
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the keepers
    zygote = os.getpid()
    while True:
        asker, _ = listener.accept()
        if os.fork() == 0:
            try:
                _end_with(zygote)
                listener.close()
                _keep(asker, python)
            finally:
                os._exit(1)
        asker.close()


def _keep(asker: socket.socket, python: str) -> NoReturn:
    """Fork once more, tell the process that asked how the fork ends, and end the fork if that process ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    head, files, *_ = socket.recv_fds(asker, 4, _MANY)
    (length,) = struct.unpack("!I", head)
    request = json.loads(asker.makefile("rb").read(length))
    keeper = os.getpid()
    pid = os.fork()
    if pid == 0:
        _end_with(keeper)  # so that no fork outlives a killed driver
        asker.close()
        _become(request, files, python)
    for file in files:
        os.close(file)
    asker.sendall(b"%d\n" % pid)

    def end_with_asker() -> None:
        asker.recv(1)  # it sends nothing after its request, so here it has ended
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    threading.Thread(target=end_with_asker, daemon=True).start()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    asker.sendall(b"%d\n" % (code if code >= 0 else 128 - code))
    os._exit(0)


def _become(request: dict[str, Any], files: list[int], python: str) -> NoReturn:
    """Run a Python command line in this process as a new process would, and exit."""
    status = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _take_files(files, request["numbers"])
        _take_environment(request["environment"])
        os.chdir(request["folder"])
        paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        sys.path[:0] = [path for path in paths if path and path not in sys.path]
        _seed()
        multiprocessing.set_executable(python)  # an actor starts its engine by multiprocessing
        status = _run(request["arguments"])
    except SystemExit as stop:
        status = _exit_code(stop.code)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        # A return would continue in the driver's code.
        with contextlib.suppress(BaseException):
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _take_files(files: list[int], numbers: list[int]) -> None:
    """Give each open file the number that it has in the process that asked."""
    above = max([*numbers, *files]) + 1
    moved = [fcntl.fcntl(file, fcntl.F_DUPFD, above) for file in files]
    for file in files:
        os.close(file)
    for file, number in zip(moved, numbers, strict=True):
        os.dup2(file, number, inheritable=True)
        os.close(file)


def _take_environment(environment: dict[str, str]) -> None:
    """Change only the variables that differ: if all were set again, setproctitle would not find the title's memory."""
    for name in set(os.environ) - set(environment):
        del os.environ[name]
    for name, value in environment.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def _seed() -> None:
    """Seed NumPy, since all forks would draw the same numbers; Python seeds its own generator at a fork."""
    import numpy

    numpy.random.seed(random.SystemRandom().randrange(2**32))


def _run(arguments: list[str]) -> int:
    """Run ``python ARGUMENTS...``, for a file, ``-c`` or ``-m``."""
    rest = list(arguments)
    while rest and rest[0].startswith("-") and rest[0] not in ("-c", "-m"):
        option = rest.pop(0)
        if option in ("-X", "-W"):
            rest.pop(0)
    if not rest:
        raise SystemExit(f"No program is named in: python {shlex.join(arguments)}")
    if rest[0] == "-c":
        code = rest[1]
        sys.argv = ["-c", *rest[2:]]
        main = type(sys)("__main__")
        sys.modules["__main__"] = main
        exec(compile(code, "<string>", "exec"), main.__dict__)
        return 0
    if rest[0] == "-m":
        sys.argv = rest[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(rest[1], run_name="__main__", alter_sys=True)
        return 0
    sys.argv = rest
    sys.path.insert(0, str(Path(rest[0]).parent))
    runpy.run_path(rest[0], run_name="__main__")
    return 0


def _exit_code(code: Any) -> int:
    if code is None or isinstance(code, int):
        return code or 0
    print(code, file=sys.stderr)
    return 1
