"""What a run without a model cost: seconds, CPU seconds and memory of each process in each phase of a step, and what
went through Ray's object store."""

import bisect
import itertools
import json
import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil

PERIOD = 0.1
PAGE, TICK = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")
PROCESSES = ("controller", "rollout actor", "policy", "driver", "reward service", "Ray")
OF_RAY = ("raylet", "gcs_server", "ray/_private", "ray/dashboard", "ray::DashboardAgent", "ray::RuntimeEnvAgent")


class Sample(NamedTuple):
    """One look at one process."""

    at: float
    cpu: float  # seconds since its start
    rss: float  # MB, with what it shares
    own: float  # MB, without mapped files and shared memory


class Watch:
    """Looks at processes and all their descendants ten times a second. A context manager."""

    def __init__(self, roots: Iterable[int]) -> None:
        self._roots = [psutil.Process(pid) for pid in roots]
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.samples: dict[int, list[Sample]] = defaultdict(list)
        self.commands: dict[int, str] = {}

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        round_ = 0
        while not self._end.wait(PERIOD):
            if round_ % 10 == 0:
                self._find()
            round_ += 1
            for pid in list(self.commands):
                self._look(pid)

    def _find(self) -> None:
        found = []
        for root in self._roots:
            try:
                found += [root, *root.children(recursive=True)]
            except psutil.NoSuchProcess:
                continue
        for process in found:
            try:
                self.commands[process.pid] = " ".join(process.cmdline())
            except psutil.Error:
                continue

    def _look(self, pid: int) -> None:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            _, resident, shared, *_ = map(int, Path(f"/proc/{pid}/statm").read_text().split())
        except (OSError, ValueError):
            return
        cpu = (int(stat[11]) + int(stat[12])) / TICK
        self.samples[pid].append(Sample(time.time(), cpu, resident * PAGE / 1e6, (resident - shared) * PAGE / 1e6))


class Phase(NamedTuple):
    """A phase that the controller was in."""

    name: str
    begin: float
    end: float
    store: Sequence[Sequence[float] | None]
    """MB taken in and spilled, before and after."""


def figures(folder: Path, watch: Watch, phases: Sequence[str]) -> dict[str, Any]:
    """Figures of a run.

    Args:
        folder: where `trace` wrote.
        watch: that looked at the processes of the run.
        phases: names, in the order of a step.

    Returns:
        Means over the steps after the first, whose start-up they do not have; of a run of one step that step's.
        Memory is the highest of these steps.
    """
    roles, events, arrivals, unpickled = {}, [], [], Counter()
    for path in folder.glob("trace.*.jsonl"):
        pid = int(path.suffixes[0][1:])
        for line in path.read_text().splitlines():
            entry = json.loads(line)
            if "role" in entry:
                roles[pid] = entry["role"]
            elif "phase" in entry:
                events.append(Phase(entry["phase"], entry["begin"], entry["end"], entry["store"]))
            elif "arrived" in entry:
                arrivals.append((entry["arrived"], entry["tokens"], entry["sequence"]))
            elif "unpickled" in entry:
                unpickled[roles.get(pid, "other")] += 1
    for pid, command in watch.commands.items():
        if "math_reward" in command or "math-reward" in command:
            roles.setdefault(pid, "reward service")
        elif any(name in command for name in OF_RAY):
            roles.setdefault(pid, "Ray")
    steps = _steps(events)
    counted = steps[1:] or steps
    found: dict[str, Any] = {
        "step_seconds": [end - begin for begin, end in steps],
        "seconds": sum(end - begin for begin, end in counted) / len(counted),
        "unpickled_tokenizers": dict(unpickled),
    }
    inside = [[(at - begin, *rest) for at, *rest in arrivals if begin <= at <= end] for begin, end in counted]
    last = sorted(at for at, *_ in inside[-1])
    found["requests"] = {"first": last[0], "median": last[len(last) // 2], "last": last[-1], "number": len(last)}
    found["response_tokens"], found["sequence_tokens"] = (
        sum(numbers[place] for step in inside for numbers in step) / len(counted) for place in (1, 2)
    )
    table: dict[str, Any] = {}
    for name in (*phases, "rest"):
        table[name] = {"seconds": 0.0, "store_mb": 0.0, "spilled_mb": 0.0, "processes": {}}
    for begin, end in counted:
        within = [event for event in events if begin <= event.begin and event.end <= end]
        for name, since, until in _innermost(within, begin, end):
            row = table[name]
            row["seconds"] += (until - since) / len(counted)
            for role, values in _between(watch, roles, since, until).items():
                cell = row["processes"].setdefault(role, {"cpu": 0.0, "rss_mb": 0.0, "own_mb": 0.0})
                cell["cpu"] += values["cpu"] / len(counted)
                for memory in ("rss_mb", "own_mb"):
                    cell[memory] = max(cell[memory], values[memory])
        for event in within:
            for column, number in enumerate(("store_mb", "spilled_mb")):
                table[event.name][number] += _stored(event, within, column) / len(counted)
    found["phases"] = {name: row for name, row in table.items() if row["seconds"] or name in ("rest",)}
    found["store_mb"] = sum(row["store_mb"] for row in table.values())
    found["spilled_mb"] = sum(row["spilled_mb"] for row in table.values())
    found["processes"] = {
        role: {
            "cpu": sum(row["processes"].get(role, {}).get("cpu", 0.0) for row in table.values()),
            **{
                memory: max(row["processes"].get(role, {}).get(memory, 0.0) for row in table.values())
                for memory in ("rss_mb", "own_mb")
            },
        }
        for role in PROCESSES
    }
    return found


def _steps(events: Sequence[Phase]) -> list[tuple[float, float]]:
    """From the first phase of each step to the end of its last, the logs."""
    ends = sorted(event.end for event in events if event.name == "logs")
    begins = [min(event.begin for event in events if event.begin > before) for before in [0.0, *ends[:-1]]]
    return list(zip(begins, ends, strict=True))


def _innermost(events: Sequence[Phase], begin: float, end: float) -> list[tuple[str, float, float]]:
    """Cut a step into pieces, each with the phase that began last."""
    times = sorted({begin, end, *(time for event in events for time in (event.begin, event.end))})
    found = []
    for since, until in itertools.pairwise(times):
        on = [event for event in events if event.begin <= since and until <= event.end]
        name = max(on, key=lambda event: (event.begin, -event.end)).name if on else "rest"
        if found and found[-1][0] == name:
            found[-1] = (name, found[-1][1], until)
        else:
            found.append((name, since, until))
    return found


def _stored(event: Phase, events: Sequence[Phase], column: int) -> float:
    """MB that a phase put into the store, without the phases inside it."""
    before, after = event.store
    if before is None or after is None:
        return 0.0
    inside = [other for other in events if other is not event and _holds(event, other)]
    direct = [other for other in inside if not any(_holds(third, other) for third in inside if third is not other)]
    return after[column] - before[column] - sum(_stored_whole(other, column) for other in direct)


def _holds(outer: Phase, inner: Phase) -> bool:
    return outer.begin <= inner.begin and inner.end <= outer.end


def _stored_whole(event: Phase, column: int) -> float:
    before, after = event.store
    return 0.0 if before is None or after is None else after[column] - before[column]


def _between(watch: Watch, roles: dict[int, str], since: float, until: float) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    memory: dict[str, Counter[int]] = defaultdict(Counter)
    own: dict[str, Counter[int]] = defaultdict(Counter)
    for pid, role in roles.items():
        samples = watch.samples.get(pid)
        if not samples:
            continue
        cell = found.setdefault(role, {"cpu": 0.0, "rss_mb": 0.0, "own_mb": 0.0})
        cell["cpu"] += max(0.0, _cpu_at(samples, until) - _cpu_at(samples, since))
        first = bisect.bisect_left(samples, since - PERIOD, key=lambda sample: sample.at)
        for sample in samples[first:]:
            if sample.at > until + PERIOD:
                break
            moment = round(sample.at / PERIOD)
            memory[role][moment] += sample.rss
            own[role][moment] += sample.own
    for role, cell in found.items():
        cell["rss_mb"] = max(memory[role].values(), default=0.0)
        cell["own_mb"] = max(own[role].values(), default=0.0)
    return found


def _cpu_at(samples: Sequence[Sample], at: float) -> float:
    """Interpolated between two looks."""
    after = bisect.bisect_left(samples, at, key=lambda sample: sample.at)
    if after == 0:
        return samples[0].cpu
    if after == len(samples):
        return samples[-1].cpu
    one, other = samples[after - 1], samples[after]
    return one.cpu + (other.cpu - one.cpu) * (at - one.at) / (other.at - one.at)


def summary(results: dict[str, dict[str, Any]]) -> str:
    """One line an arm, as a Markdown table."""
    head = ["", "step, s", "dispatch, s", "requests at the engine, median and last, s"]
    head += [f"{role}: CPU s, MB" for role in ("controller", "rollout actor", "policy")]
    lines = [head, ["---"] * (len(head) + 1)]
    head.append("through Ray, MB (spilled)")
    for arm, found in results.items():
        line = [f"`{arm}`", f"{found['seconds']:.1f}", f"{found['phases']['dispatch']['seconds']:.2f}"]
        line.append(f"{found['requests']['median']:.1f}, {found['requests']['last']:.1f}")
        for role in ("controller", "rollout actor", "policy"):
            cell = found["processes"][role]
            line.append(f"{cell['cpu']:.1f}, {cell['rss_mb']:,.0f} ({cell['own_mb']:,.0f})")
        line.append(f"{found['store_mb']:,.0f} ({found['spilled_mb']:,.0f})")
        lines.append(line)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def by_phase(found: dict[str, Any]) -> str:
    """Phases of a step by process, as a Markdown table."""
    lines = [["phase", "s", *PROCESSES, "through Ray, MB"], ["---"] * (len(PROCESSES) + 3)]
    for name, row in found["phases"].items():
        line = [name, f"{row['seconds']:.2f}"]
        for role in PROCESSES:
            cell = row["processes"].get(role)
            line.append(f"{cell['cpu']:.2f}, {cell['rss_mb']:,.0f} ({cell['own_mb']:,.0f})" if cell else "")
        line.append(f"{row['store_mb']:,.1f}")
        lines.append(line)
    total = ["**step**", f"{found['seconds']:.2f}"]
    for role in PROCESSES:
        cell = found["processes"][role]
        total.append(f"{cell['cpu']:.2f}, {cell['rss_mb']:,.0f} ({cell['own_mb']:,.0f})")
    lines.append([*total, f"{found['store_mb']:,.1f}"])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
