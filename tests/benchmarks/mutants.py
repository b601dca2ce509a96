"""Changes random places of the plugin and the service, one at a time, and counts how many the tests notice.

    bash launch/test.sh mutants 300
    python tests/benchmarks/mutants.py --mutants 100 --seed 2 --within reward_server/math_reward/grader
    python tests/benchmarks/mutants.py --loop      # the faults that would hurt most, written by hand

A mutant is another comparison, condition, sign, number, truth value or return. Each is tried in a fork of a pytest
that has collected the tests without an engine: the running functions get the changed code, and processes that a test
starts read the changed file. First run the tests that call the function, its room's before others and the quickest
first, then those of its room that start processes. Which test calls what is found once, and kept in runs/mutants while
no file changes. A survivor changes nothing that a user sees, or a test is missing.
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import gc
import hashlib
import importlib
import importlib.util
import itertools
import json
import os
import random
import select
import signal
import sys
import tempfile
import threading
import time
import traceback
import types
from collections.abc import Iterable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis
import pytest
from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"plugin/openrlhf_gtpo": "tests/plugin", "reward_server/math_reward": "tests/reward_server"}
SECONDS = 300
"""For a mutant. One in which a test takes far longer than before hangs; of others nothing is known then."""
HUNG = "a hang or a crash"
UNDECIDED = "no time left for its other tests"
NOW = "now"
"""File of a mutant: since when which test runs."""
AT_ONCE = 2
BROKEN = 3
"""The exit status of a fork in which this program failed, and not a test."""
STARTS = {"subprocess.Popen", "os.posix_spawn", "os.fork", "os.exec"}
"""Python's audit events of a process that starts another."""
COMPARED = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.In: "not in",
    ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip
CALCULATED = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*"}
PLUGIN = "plugin/openrlhf_gtpo/"
LOOP = (
    ("the mask is dropped", "batch.py", "experience.action_mask.bool()", "True"),
    ("groups are mixed", "batch.py", "torch.arange(n) // group_size", "torch.arange(n) % group_size"),
    ("the overlong penalty is a bonus", "algorithms/punishment.py", "punished, punishment,", "punished, -punishment,"),
    ("entropies are those of the next token", "rollout/actor.py", "= entropy\n", "= np.roll(entropy, 1)\n"),
    ("seeds are not sent", "rollout/actor.py", "derived(self._seed, self._asked)", "None"),
    ("rewards are negated", "rollout/actor.py", "reward=answer.reward", "reward=-answer.reward"),
    ("the score is another's", "rollout/actor.py", "scores=answer.score", "scores=1 - answer.score"),
    ("weights are not sent", "policy/actor.py", "super().broadcast_to_vllm()", "None"),
)
"""What happens, the plugin's file, its code, and the code in its place."""
IN_CHILDREN = """
import importlib.machinery, os
_read = importlib.machinery.SourceFileLoader.get_data
def get_data(self, path):
    if path == os.environ.get("MUTANT_OF"):
        path = os.environ["MUTANT"]
    elif os.path.dirname(os.environ.get("MUTANT_OF", "")) + "/__pycache__" == os.path.dirname(path):
        raise OSError
    return _read(self, path)
importlib.machinery.SourceFileLoader.get_data = get_data
"""  # a process that a test starts imports it as sitecustomize


class Mutant(NamedTuple):
    path: str  # from the repository's root
    line: int
    start: int
    end: int
    old: str
    new: str
    function: str  # its name and first line

    def source(self) -> bytes:
        source = (ROOT / self.path).read_bytes()
        return source[: self.start] + self.new.encode() + source[self.end :]

    def __str__(self) -> str:
        old, new = (" ".join(text.split())[:60] for text in (self.old, self.new))
        return f"{self.path}:{self.line}: {old!r} as {new!r}"


def places(path: str) -> Iterator[Mutant]:
    """All mutants of a file's functions that compile."""
    source = (ROOT / path).read_text("utf-8")
    lines = [0, *itertools.accumulate(len(line.encode()) for line in source.splitlines(keepends=True))]
    seen: set[tuple[int, int]] = set()
    for function in reversed(_functions(source)):  # the inner ones first
        for node in itertools.chain.from_iterable(map(ast.walk, function.body)):
            if not isinstance(node, ast.expr | ast.stmt) or (new := _changed(node, source)) is None:
                continue
            start = lines[node.lineno - 1] + node.col_offset
            end = lines[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
            if (start, end) in seen:
                continue
            seen.add((start, end))
            old = source.encode()[start:end].decode()
            mutant = Mutant(path, node.lineno, start, end, old, new, _name(function))
            with contextlib.suppress(SyntaxError):
                compile(mutant.source(), path, "exec")
                yield mutant


def _functions(source: str | bytes) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [one for one in ast.walk(ast.parse(source)) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]


def _name(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
    return f"{function.name}:{first}"


def faults() -> dict[Mutant, str]:
    """The faults of `LOOP`, and what happens by each."""
    found = {}
    for about, file, old, new in LOOP:
        source = (ROOT / PLUGIN / file).read_bytes()
        start = source.index(old.encode())
        line = source[:start].count(b"\n") + 1
        around = [one for one in _functions(source) if one.lineno <= line <= (one.end_lineno or 0)]
        name = _name(max(around, key=lambda one: one.lineno))
        found[Mutant(PLUGIN + file, line, start, start + len(old.encode()), old, new, name)] = about
    return found


def _changed(node: ast.AST, source: str) -> str | None:
    def text(part: ast.AST) -> str:
        return ast.get_source_segment(source, part) or ""

    match node:
        case ast.Compare(ops=[operator]):
            return f"({text(node.left)} {COMPARED[type(operator)]} {text(node.comparators[0])})"
        case ast.BoolOp():
            joint = " or " if isinstance(node.op, ast.And) else " and "
            return "(" + joint.join(f"({text(value)})" for value in node.values) + ")"
        case ast.UnaryOp(op=ast.Not()):
            return f"({text(node.operand)})"
        case ast.BinOp() if type(node.op) in CALCULATED:
            return f"(({text(node.left)}) {CALCULATED[type(node.op)]} ({text(node.right)}))"
        case ast.Constant(value=bool()):
            return repr(not node.value)
        case ast.Constant(value=int() | float()):
            return repr(node.value + 1)
        case ast.Return(value=ast.expr()) if not isinstance(node.value, ast.Constant):
            return "return None"
        case ast.IfExp():
            return f"({text(node.orelse)})"
    return None


def importable(path: str) -> bool:
    """Whether the packages that a module imports are here. Those of other trainers are not."""
    statements = [one for one in ast.parse((ROOT / path).read_bytes()).body if not isinstance(one, ast.ClassDef)]
    inside = [node for one in statements if not isinstance(one, ast.FunctionDef) for node in ast.walk(one)]
    names = [alias.name for node in inside if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in inside if isinstance(node, ast.ImportFrom) and not node.level]
    return all(importlib.util.find_spec(name.partition(".")[0]) for name in names)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            yield part
            yield from _codes(part)


def apply(mutant: Mutant, folder: Path) -> None:
    """Put a mutant into the functions of this process, and, by way of a folder, into what its children read."""
    path = str(ROOT / mutant.path)
    # Imported first: a command imports some modules late, and would read the file as it is.
    importlib.import_module(".".join(Path(mutant.path).with_suffix("").parts[1:]).removesuffix(".__init__"))
    new = {(code.co_name, code.co_firstlineno): code for code in _codes(compile(mutant.source(), path, "exec"))}
    for thing in gc.get_objects():
        if isinstance(thing, types.FunctionType) and thing.__code__.co_filename == path:
            with contextlib.suppress(KeyError, ValueError):
                thing.__code__ = new[thing.__code__.co_name, thing.__code__.co_firstlineno]
        elif hasattr(type(thing), "cache_clear"):
            thing.cache_clear()
    (folder / "sitecustomize.py").write_text(IN_CHILDREN)
    (folder / "changed.py").write_bytes(mutant.source())
    os.environ |= {"MUTANT_OF": path, "MUTANT": str(folder / "changed.py")}
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])


def _all(pipe: int) -> bytes:
    """What comes until the other end is closed."""
    return b"".join(iter(lambda: os.read(pipe, 65536), b""))


class Tests:
    """A pytest plugin: tries mutants in place of a run."""

    def __init__(self, mutants: list[Mutant], folder: Path) -> None:
        self.mutants, self.folder = mutants, folder
        self.calls: dict[str, set[str]] = collections.defaultdict(set)  # function -> tests
        self.seconds: dict[str, float] = {}  # of the tests that pass
        self.start_processes: set[str] = set()  # files of tests
        self.results: list[tuple[Mutant, str | None]] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        hypothesis.settings.register_profile("few", max_examples=15, deadline=None, database=None, derandomize=True)
        hypothesis.settings.load_profile("few")
        self.items = {item.nodeid: item for item in session.items}
        self.config = session.config
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined] (before forks make theirs)
        self._map()
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
            self._try(Path(folder))
        return True

    def _try(self, folder: Path) -> None:
        """Try the mutants, some at once, each with a part of this folder."""
        waiting = list(reversed(self.mutants))
        children: dict[int, tuple[Mutant, int, float, Path]] = {}
        with tqdm(total=len(waiting), unit="mutants", file=sys.__stderr__) as bar:
            while waiting or children:
                while waiting and len(children) < AT_ONCE:
                    mutant = waiting.pop()
                    own = folder / str(len(waiting))
                    own.mkdir()
                    pipe, pid = self._fork(lambda write, *given: write(self._killer(*given)), mutant, own)
                    children[pipe] = mutant, pid, time.monotonic() + SECONDS, own
                ready, _, _ = select.select(children, [], [], 1)
                late = [pipe for pipe, (_, _, end, _) in children.items() if time.monotonic() > end]
                for pipe in {*ready, *late}:
                    mutant, pid, _, own = children.pop(pipe)
                    said = _all(pipe) if pipe in ready else b""
                    os.close(pipe)
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(pid, signal.SIGKILL)
                    self._check(pid)
                    killer = json.loads(said) if said else self._why(own) if pipe in late else HUNG
                    self.results.append((mutant, killer))
                    with (self.folder / "results.jsonl").open("a") as file:  # one that is stopped leaves these
                        file.write(json.dumps({"mutant": str(mutant), "killed by": killer}) + "\n")
                    bar.update()

    def _fork(self, work: Any, *given: Any) -> tuple[int, int]:
        """The end of a pipe that a fork writes to, and its process id, which is its group's too."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.setsid()
            for number in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), number)
            try:
                work(lambda thing: os.write(writing, json.dumps(thing).encode() + b"\n"), *given)
            except Exception:  # of this program: those of a mutant are pytest's
                (self.folder / "error.log").write_text(traceback.format_exc())
                os._exit(BROKEN)
            finally:
                os._exit(0)
        os.close(writing)
        return reading, pid

    def _check(self, pid: int) -> None:
        """Wait for a fork, which must not have ended by a fault of this program: nothing would be measured."""
        if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == BROKEN:
            raise RuntimeError((self.folder / "error.log").read_text())

    def _run(self, names: Iterable[str], stop: bool, now: Path | None = None) -> Iterator[tuple[str, bool, float]]:
        failed: set[str] = set()

        class Reports:
            def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
                if report.failed:
                    failed.add(report.nodeid)

        self.config.pluginmanager.register(Reports())
        items = [self.items[name] for name in names]
        for item, following in itertools.zip_longest(items, items[1:]):
            begin = time.monotonic()
            if now:
                now.write_text(f"{begin} {item.nodeid}")
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            yield item.nodeid, item.nodeid in failed, time.monotonic() - begin
            if stop and failed:
                return

    def _map(self) -> None:
        """Run all tests once, and note which functions each calls and which start processes."""
        files = sorted(itertools.chain(*(ROOT.glob(f"{one}/**/*.py") for one in [*PACKAGES, "tests"])))
        state = hashlib.sha256(b"".join(map(Path.read_bytes, files)) + "".join(self.items).encode()).hexdigest()[:16]
        kept = self.folder / f"calls-{state}.jsonl"
        if not kept.exists():
            pipe, pid = self._fork(self._watch)
            with tqdm(total=len(self.items), unit="tests", file=sys.__stderr__) as bar, open(pipe) as lines:
                text = ""
                for line in lines:
                    text += line
                    bar.update()
            self._check(pid)
            kept.write_text(text)
        for name, passed, seconds, functions, starts in map(json.loads, kept.read_text().splitlines()):
            if passed:
                self.seconds[name] = seconds
                for function in functions:
                    self.calls[function].add(name)
                if starts:
                    self.start_processes.add(name.partition("::")[0])

    def _watch(self, write: Any) -> None:
        called: set[types.CodeType] = set()
        begun: list[str] = []
        sys.addaudithook(lambda event, _: begun.append(event) if event in STARTS else None)
        start = BaseProcess.start

        def noted(process: BaseProcess) -> None:
            begun.append("multiprocessing")  # a fork server starts it, without an event
            start(process)

        BaseProcess.start = noted  # type: ignore[method-assign] (there is no event to hear)

        def trace(frame: types.FrameType, event: str, value: object) -> None:
            called.add(frame.f_code)

        threading.settrace(trace)
        sys.settrace(trace)
        for name, failed, seconds in self._run(self.items, stop=False):
            functions = [
                f"{code.co_filename[len(str(ROOT)) + 1 :]}:{code.co_name}:{code.co_firstlineno}"
                for code in called.copy()  # this comprehension is traced too
                if code.co_filename.startswith(tuple(f"{ROOT}/{package}" for package in PACKAGES))
            ]
            write([name, not failed, seconds, functions, bool(begun)])
            called.clear()
            begun.clear()

    def _killer(self, mutant: Mutant, folder: Path) -> str | None:
        apply(mutant, folder)
        near = self.calls[f"{mutant.path}:{mutant.function}"]
        package = next(package for package in PACKAGES if mutant.path.startswith(package))
        room = f"{PACKAGES[package]}{str(Path(mutant.path).parent)[len(package) :]}/"
        far = {
            name
            for name in self.seconds
            if (file := name.partition("::")[0]) in self.start_processes
            and (file.startswith(room) or str(Path(file).parent) == PACKAGES[package])
        }
        order = sorted(near | far, key=lambda name: (name not in near, not name.startswith(room), self.seconds[name]))
        for name, failed, _ in self._run(order, stop=True, now=folder / NOW):
            if failed:
                return name
        return None

    def _why(self, folder: Path) -> str:
        """Why a mutant's time ran out."""
        if not (folder / NOW).exists():
            return HUNG  # at its import
        begin, name = (folder / NOW).read_text().split(" ", 1)
        return HUNG if time.monotonic() - float(begin) > 30 + 5 * self.seconds[name] else UNDECIDED


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--within", help="a folder or a file of the plugin or the service (both)")
    parser.add_argument("--loop", action="store_true", help="the faults of the training loop written by hand instead")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    paths = [str(path.relative_to(ROOT)) for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    within = [path for path in paths if path.startswith(arguments.within or "")]
    if elsewhere := [path for path in within if not importable(path)]:
        print(f"not tried, since what they import is not installed: {', '.join(elsewhere)}")
    found = [one for path in within if path not in elsewhere for one in places(path)]
    mutants = random.Random(arguments.seed).sample(found, min(arguments.mutants, len(found)))
    by_hand = faults() if arguments.loop else {}
    mutants = list(by_hand) or mutants
    folder = ROOT / "runs" / "mutants"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.jsonl").unlink(missing_ok=True)
    print(f"{len(mutants)} of {len(found):,} places")
    tests = Tests(mutants, folder)
    packages = {next(package for package in PACKAGES if mutant.path.startswith(package)) for mutant in mutants}
    flags = ["-q", "-s", "-p", "no:cacheprovider", "-m", "not engine and not nightly"]
    folders = [PACKAGES[package] for package in sorted(packages)]
    if pytest.main([*flags, *folders], plugins=[tests]) == pytest.ExitCode.INTERNAL_ERROR:
        return 1

    rooms: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
    undecided = [mutant for mutant, killer in tests.results if killer == UNDECIDED]
    decided = [(mutant, killer) for mutant, killer in tests.results if killer != UNDECIDED]
    for mutant, killer in sorted(decided):
        if mutant in by_hand:
            print(f"{by_hand[mutant]}: {killer}")
        rooms[str(Path(mutant.path).parent)][0] += killer is not None
        rooms[str(Path(mutant.path).parent)][1] += 1
        if killer is None:
            print(mutant)
    for room, (killed, tried) in sorted(rooms.items()):
        print(f"{room:50} {killed:4} of {tried}")
    killed = sum(killer is not None for _, killer in decided)
    hung = sum(killer == HUNG for _, killer in decided)
    share = killed / max(1, len(decided))
    print(f"{killed} of {len(decided)} killed ({share:.0%}), {hung} of these by a hang or a crash")
    if undecided:
        print(f"{len(undecided)} more are undecided, since their tests take longer than {SECONDS} s:")
        print(*undecided, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
