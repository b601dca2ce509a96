"""Peak memory of a stream of rows: the command's pipe and the service, with few rows and with many.

    python tests/benchmarks/bench_stream.py [--rows 100000 1000000]

For each number of rows it starts ``math-reward grade -`` and, apart, ``math-reward serve`` with a stream to
``/v1/grade``. This process writes the rows in a thread and counts the answers as they come, so that it holds none of
them. The peak is the largest resident memory (VmHWM) of the command's or service's own process and of any of its
workers; a worker that was replaced counts too, as far as it was seen. Rows differ from each other, so that no cache
helps. Exit code 0 if every answer came, and the peaks with most rows are at most 1.2 times those with the fewest.
"""

import argparse
import http.client
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import psutil

MOST_GROWTH = 1.2
LOOK_SECONDS = 0.5


def rows(count: int) -> Iterator[bytes]:
    """Rows in pieces of 256: completions of about 200 characters, half of them right."""
    piece = []
    for number in range(count):
        text = (
            f"We add {number} and {number} step by step, {'and check the sum, ' * 6}so it is \\boxed{{{2 * number}}}."
        )
        piece.append(json.dumps({"completion": text, "reference": str(2 * number + number % 2)}) + "\n")
        if len(piece) == 256:
            yield "".join(piece).encode()
            piece = []
    yield "".join(piece).encode()


class Peaks:
    """Watches a process and its children, in a thread: the largest memory of the process, and of any child, in MiB."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._stop = threading.Event()
        self.own = self.child = 0.0
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Peaks":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            try:
                self.own = max(self.own, _high_water(self._process.pid))
                for child in self._process.children(recursive=True):
                    self.child = max(self.child, _high_water(child.pid))
            except (psutil.NoSuchProcess, OSError):
                continue


def _high_water(pid: int) -> float:
    """VmHWM in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def through_the_command(count: int) -> tuple[int, Peaks]:
    """How many verdicts came out of ``math-reward grade -``, and its memory."""
    command = [sys.executable, "-m", "math_reward", "grade", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with Peaks(process.pid) as peaks:
            threading.Thread(target=_write, args=(rows(count), process.stdin.write, process.stdin.close)).start()
            verdicts = sum(b'"verdict"' in line for line in process.stdout)
    return verdicts, peaks


def through_the_service(count: int) -> tuple[int, Peaks]:
    """How many verdicts came back from ``/v1/grade`` in a whole answer, and the service's memory."""
    command = [sys.executable, "-m", "math_reward", "serve", "--port", "0", "--exit-on-stdin-close"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        port = int(process.stdout.readline().rpartition(":")[2])
        with Peaks(process.pid) as peaks, socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(
                b"POST /v1/grade HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n"
            )
            chunks = (b"%x\r\n%b\r\n" % (len(piece), piece) for piece in rows(count) if piece)
            end = lambda: connection.sendall(b"0\r\n\r\n")  # noqa: E731
            threading.Thread(target=_write, args=(chunks, connection.sendall, end)).start()
            response = http.client.HTTPResponse(connection)
            response.begin()
            verdicts = 0
            last = b""
            while line := response.readline():
                verdicts += b'"verdict"' in line
                last = line
            if not json.loads(last).get("end"):
                raise SystemExit(f"The stream was cut off: {last!r}")
        process.stdin.close()
    return verdicts, peaks


def _write(pieces: Iterable[bytes], write: Callable[[bytes], object], end: Callable[[], object]) -> None:
    for piece in pieces:
        write(piece)
    end()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    arguments = parser.parse_args()
    print("| through | rows | seconds | verdicts | own process, MiB | largest worker, MiB |")
    print("|---|---|---|---|---|---|")
    fine = True
    for name, run in (("`math-reward grade -`", through_the_command), ("`POST /v1/grade`", through_the_service)):
        own, child = [], []
        for count in sorted(arguments.rows):
            start = time.monotonic()
            verdicts, peaks = run(count)
            seconds = time.monotonic() - start
            row = f"| {name} | {count:,} | {seconds:.0f} | {verdicts:,} | {peaks.own:.0f} | {peaks.child:.0f} |"
            print(row, flush=True)
            fine = fine and verdicts == count
            own.append(peaks.own)
            child.append(peaks.child)
        growth = own[-1] / own[0], child[-1] / child[0]
        print(f"| {name} | ratio | | | {growth[0]:.2f} | {growth[1]:.2f} |", flush=True)
        fine = fine and growth[0] <= MOST_GROWTH
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
