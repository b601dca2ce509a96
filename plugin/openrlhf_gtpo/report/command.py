"""``openrlhf-gtpo report``: the verdict on one or several runs, their curves and the token view, in one HTML file.

The verdict compares RUN/before/eval.json with RUN/after/eval.json. Write them with `openrlhf-gtpo eval --out
RUN/before` of the model before training, and `--out RUN/after` of the trained model. Without these files, the
evaluations during training (--eval.*) are compared.
"""

import argparse
import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.parsing import Parser
from openrlhf_gtpo.report.page import page
from openrlhf_gtpo.report.run import read

PROGRAM = "openrlhf-gtpo report"


def main(argv: Sequence[str]) -> int:
    """Write the report.

    Returns:
        Exit status 0.

    Raises:
        SettingsError: a folder has no run, or the file cannot be written.
    """
    parser = Parser(prog=PROGRAM, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "runs", type=Path, nargs="+", metavar="RUN", help="folder with metrics.jsonl, as --ckpt.output_dir"
    )
    parser.add_argument("--out", type=Path, default=None, help="the file (report.html in the first run's folder)")
    parser.add_argument(
        "--watch",
        type=int,
        metavar="SECONDS",
        help="write the page anew every SECONDS of a run that is at work, until Ctrl-C; the browser follows",
    )
    args = parser.parse_args(argv)
    if args.watch is None:
        print(_write(args))
        return 0
    if args.watch < 1:
        raise SettingsError(f"--watch is {args.watch}, but needs to be at least 1 second.")
    with contextlib.suppress(KeyboardInterrupt):
        told = ""
        while True:
            try:
                said = str(_write(args))
            except SettingsError as error:  # such as no step yet
                said = f"{PROGRAM}: waiting: {error}"
            if said != told:
                print(said, flush=True)
            told = said
            time.sleep(args.watch)
    return 0


def _write(args: argparse.Namespace) -> Path:
    """Write the page; its path."""
    runs = [read(folder) for folder in args.runs]
    if len({run.name for run in runs}) < len(runs):
        raise SettingsError("Two runs have the same name, that of their folder: rename one of the folders.")
    document = page(runs)
    if args.watch:
        refresh = f'<meta http-equiv="refresh" content="{args.watch}">'
        document = document.replace("<head>", f"<head>{refresh}", 1)
    path = args.out or args.runs[0] / "report.html"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(document, encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"{error.filename} cannot be written: {error.strerror}.") from None
    return path
