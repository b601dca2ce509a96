"""Grades a stream of rows: a verdict a line, in order and as soon as it is ready. It remembers no row."""

import json
import os
from contextlib import ExitStack, closing

from math_reward.commands.row_file import RowFile
from math_reward.commands.rows import Fault
from math_reward.commands.windows import graded_in_order
from math_reward.grader.verdict import Options
from math_reward.pool.worker_pool import WorkerPool

BROKEN_PIPE = 141
"""The exit code where the reader has gone, as a shell gives it for a command that SIGPIPE ended."""

WRITTEN_BYTES = 65_536
"""What is ready is written in pieces of about this size; less where the next verdict has to be waited for."""


def grade_stream(
    path: str,
    output: int,
    *,
    workers: int,
    deadline: float,
    options: Options,
    named: dict[str, str | None],
    references_only: bool = False,
) -> bool:
    """Writes for each line that is not blank its number with the result of ``/v1/grade``, or with an ``error``.

    Args:
        path: a ``.jsonl`` or ``.jsonl.gz`` file, or ``-`` for standard input.
        output: the number of the file to write to.
        workers, deadline, options, named, references_only: as in
            ``math_reward.commands.grade_file.grade_file``.

    Returns:
        Whether every line and every reference can be used.

    Raises:
        FileRefused: the file cannot be read, its first row lacks a field that is needed, or it is empty.
        BrokenPipeError: nobody reads the output any more.
    """
    all_fine = True
    ready: list[str] = []
    ready_characters = 0

    def write() -> None:
        nonlocal ready_characters
        content = memoryview("".join(ready).encode("ascii"))  # json.dumps escapes everything else.
        ready.clear()
        ready_characters = 0
        while content:
            content = content[os.write(output, content) :]

    with ExitStack() as stack:
        file = stack.enter_context(RowFile(path, options, named, references_only))
        pool = stack.enter_context(WorkerPool(workers, deadline))
        for row, graded in stack.enter_context(closing(graded_in_order(file, pool, before_wait=write))):
            if isinstance(row, Fault):
                all_fine = False
                shown = {"line": row.line, "error": row.reason}
            else:
                assert file.keys is not None
                all_fine = all_fine and not file.keys.is_bad_reference(graded[0].grade.verdict)
                shown = {"line": row.line, **graded[0].as_dict()}
            ready.append(json.dumps(shown) + "\n")
            ready_characters += len(ready[-1])
            if ready_characters > WRITTEN_BYTES:
                write()
        write()
    return all_fine
