"""Seconds and memory of reading and checking a million rows, from each kind of file.

python tests/benchmarks/bench_rows.py [--rows 1000000]
"""

import argparse
import csv
import itertools
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from openrlhf_gtpo.data.table import rows

QUESTION = (
    "Natalia sold clips to {} of her friends in April, and then she sold half as many clips in May. How many clips "
    r"did Natalia sell altogether in April and May? Put the answer in \boxed{{}}."
)


def table(count: int) -> Iterator[dict[str, Any]]:
    return ({"input": QUESTION.format(n), "label": str(n)} for n in range(count))


def write(path: Path, count: int) -> None:
    if path.suffix == ".parquet":
        with pyarrow.parquet.ParquetWriter(path, pyarrow.Table.from_pylist([*table(1)]).schema) as file:
            source = table(count)
            while part := [*itertools.islice(source, 10_000)]:
                file.write_table(pyarrow.Table.from_pylist(part))
        return
    with path.open("w", newline="") as file:
        if path.suffix == ".csv":
            writer = csv.DictWriter(file, ["input", "label"])
            writer.writeheader()
            writer.writerows(table(count))
        elif path.suffix == ".jsonl":
            file.writelines(json.dumps(row) + "\n" for row in table(count))
        else:
            file.write("[" + ",\n".join(map(json.dumps, table(count))) + "]")


def most_memory() -> int:
    """The most that this process has had, KiB."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--read", type=Path)
    args = parser.parse_args()
    if args.read:  # in a process of its own, whose memory is its own
        before, begin = most_memory(), time.monotonic()
        count = sum(1 for _ in rows(str(args.read), "input", "label"))
        seconds = time.monotonic() - begin
        more = (most_memory() - before) / 1024
        print(f"{args.read.suffix:<9} {count:>9,} rows  {seconds:6.1f} s  {more:6.0f} MiB")
        return
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("jsonl", "json", "csv", "parquet"):
            path = Path(folder, f"rows.{kind}")
            write(path, args.rows)
            subprocess.run([sys.executable, __file__, "--read", str(path)], check=True)
            path.unlink()


if __name__ == "__main__":
    main()
