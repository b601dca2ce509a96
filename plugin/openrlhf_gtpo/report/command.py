"""``openrlhf-gtpo report``: the verdict on one or several runs, their curves and the token view, in one HTML file.

The verdict compares RUN/before/eval.json with RUN/after/eval.json. Write them with `openrlhf-gtpo eval --out
RUN/before` of the model before training, and `--out RUN/after` of the trained model. Without these files, the
evaluations during training (--eval.*) are compared.

Of two runs it says, on the page and here, whether they are identical, and if not, which step, metric and response
differ first, whether policy, data and order of prompts are the same content, and which settings differ.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.parsing import Parser
from openrlhf_gtpo.report.identical import told
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
    args = parser.parse_args(argv)
    runs = [read(folder) for folder in args.runs]
    if len({run.name for run in runs}) < len(runs):
        raise SettingsError("Two runs have the same name, that of their folder: rename one of the folders.")
    sentences = told(*runs) if len(runs) == 2 else []
    document = page(runs, compared=sentences)
    path = args.out or args.runs[0] / "report.html"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(document, encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"{error.filename} cannot be written: {error.strerror}.") from None
    print(*sentences, path, sep="\n")
    return 0
