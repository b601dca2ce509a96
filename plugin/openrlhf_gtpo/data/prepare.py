"""``openrlhf-gtpo data prepare``: writes a data set as OpenRLHF's prompts and labels, every reference checked."""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from openrlhf_gtpo.data.formats import FORMATS, UnknownFormat, question_and_reference
from openrlhf_gtpo.data.table import DataUnusable, is_lines, objects
from openrlhf_gtpo.errors import SettingsError, reason

INSTRUCTION = r"Please reason step by step, and put your final answer within \boxed{}."


def main(argv: Sequence[str]) -> int:
    """Write ``OUT/NAME.jsonl``, with ``{"input": question and instruction, "label": reference}`` on each line. A
    repeated question is kept once.

    Returns:
        Exit status: 0, or 1 if a reference cannot be graded and is not left out.

    Raises:
        SettingsError: the command line is refused, the source cannot be read, or a row has no question or reference.
    """
    args = _parser().parse_args(argv)
    rows: dict[str, str] = {}
    repeated = 0
    for number, row in enumerate(_rows(args.source, args.config, args.split), 1):
        try:
            pair = question_and_reference(args.name, row)
        except UnknownFormat as error:
            raise SettingsError(f"{args.source}, row {number}: {error}.") from None
        if pair is None:
            continue
        question, reference = pair
        repeated += question in rows
        rows.setdefault(question, reference)
    if not rows:
        raise SettingsError(f"{args.source} has no rows of {args.name}.")
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / f"{args.name}.jsonl"
    lines = [
        {"input": f"{question}\n\n{args.instruction}".strip(), "label": label} for question, label in rows.items()
    ]
    _write(path, lines)
    bad = _bad_references(path)
    for number, why in bad.items():
        print(f"{path}, line {number}: {lines[number - 1]['label']!r} cannot be graded: {why}", file=sys.stderr)
    if bad and args.drop_ungradable:
        lines = [line for number, line in enumerate(lines, 1) if number not in bad]
        _write(path, lines)
    graded = f"{len(bad)} references cannot be graded" if bad else "every reference can be graded"
    left_out = " and were left out" if bad and args.drop_ungradable else ""
    print(f"{path}: {len(lines)} prompts; {repeated} repeated ones left out; {graded}{left_out}")
    return 1 if bad and not args.drop_ungradable else 0


def _parser() -> argparse.ArgumentParser:
    listed = "\n".join(f"  {name:<8} {what}" for name, what in FORMATS.items())
    parser = argparse.ArgumentParser(
        prog="openrlhf-gtpo data",
        description=f"{__doc__}\n\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=["prepare"], help="prepare")
    parser.add_argument("name", choices=FORMATS, metavar="NAME", help="one of the above")
    parser.add_argument(
        "--from",
        dest="source",
        required=True,
        metavar="PATH_OR_HUB_ID",
        help="a file (.jsonl, .json, .parquet, .csv), or a data set of the Hugging Face hub: its id or a folder",
    )
    parser.add_argument("--out", type=Path, required=True, help="folder; the file is NAME.jsonl there")
    parser.add_argument("--config", default=None, help="configuration of a hub data set, such as main of openai/gsm8k")
    parser.add_argument("--split", default=None, help="split of a hub data set (its only one, else test)")
    parser.add_argument("--instruction", default=INSTRUCTION, help=f"text after each question ({INSTRUCTION})")
    parser.add_argument(
        "--drop-ungradable",
        dest="drop_ungradable",
        action="store_true",
        help="leave out rows whose reference cannot be graded, instead of ending with status 1",
    )
    return parser


def _write(path: Path, lines: list[dict[str, str]]) -> None:
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")


def _rows(source: str, config: str | None, split: str | None) -> Iterator[dict[str, Any]]:
    path = Path(source)
    kinds = {".jsonl": "json", ".json": "json", ".parquet": "parquet", ".csv": "csv"}
    if kinds.get(path.suffix) == "json" and path.exists():
        yield from _json_rows(path)
        return
    import datasets

    try:
        if path.is_file():
            if path.suffix not in kinds:
                raise SettingsError(f"--from {source}: a file needs to be one of {', '.join(kinds)}.")
            yield from datasets.load_dataset(kinds[path.suffix], data_files=str(path), split="train")
            return
        if not path.is_dir() and (path.suffix in kinds or source.startswith((".", "/")) or source.count("/") != 1):
            raise SettingsError(f"--from {source}: there is no such file, and a hub id has the form OWNER/NAME.")
        found = datasets.load_dataset(source, config, split=split)
        rows = found if split else _only_split(found, source)
    except SettingsError:
        raise
    except Exception as error:  # the library has no base class for its errors
        if config is None and "Config name is missing" in str(error):
            names = ", ".join(datasets.get_dataset_config_names(source))
            raise SettingsError(f"--from {source} has the configurations {names}: choose one by --config.") from None
        raise SettingsError(
            f"--from {source} cannot be loaded ({reason(error)}): without internet access, give a file that you "
            "downloaded elsewhere."
        ) from None
    yield from rows


def _only_split(splits: Any, source: str) -> Any:
    names = list(splits)
    if len(names) == 1:
        return splits[names[0]]
    if "test" in names:
        return splits["test"]
    raise SettingsError(f"--from {source} has the splits {', '.join(names)}: choose one by --split.")


def _json_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file of JSON lines, or of one JSON array of objects."""
    if not path.is_file() or is_lines(path):
        try:
            yield from (values for _, values in objects(path))
        except DataUnusable as error:
            raise SettingsError(str(error)) from None
        return
    try:
        rows = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not UTF-8: save it as that.") from None
    except (ValueError, RecursionError):
        rows = None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise SettingsError(f"{path} is not a JSON array of objects: give that, or one object per line.")
    yield from rows


def _bad_references(path: Path) -> dict[int, str]:
    """Line numbers of the references that the reward service's grader cannot use, and why."""
    command = [sys.executable, "-m", "math_reward", "grade", "--file", str(path), "--references-only", "--json"]
    result = subprocess.run([*command, "--reference-key", "label"], capture_output=True, text=True)
    try:
        report = json.loads(result.stdout)
    except ValueError:
        last = (result.stderr.strip().splitlines() or ["no output"])[-1]
        raise SettingsError(
            f"The references cannot be checked, because the grader failed: {last}. Is it installed? "
            "pip install math-reward"
        ) from None
    return {row["line"]: row["reason"] for row in report["bad_references"]}
