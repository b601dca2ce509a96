"""openrlhf-gtpo data prepare: writes a data set as OpenRLHF's prompts and labels, every reference checked."""

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from openrlhf_gtpo.data.formats import FORMATS, UnknownFormat, question_and_reference
from openrlhf_gtpo.data.references import grades, kind_of
from openrlhf_gtpo.data.sources import READERS, DataUnusable, records
from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.flags import Parser

INSTRUCTION = r"Please reason step by step, and put your final answer within \boxed{}."
LEFT_OUT = {
    "nothing": "no question or no answer",
    "proof": "a proof or a note in place of an answer",
    "sentence": "a sentence as the answer",
    "two answers": "two different answers to one question",
    "unreadable": "an answer that the grader cannot read",
}
"""Kinds of rows that cannot be graded."""
NAMED = 5
"""Most rows of a kind that are told."""

Line = dict[str, Any]


def main(argv: Sequence[str]) -> int:
    """Write ``OUT/NAME.jsonl``, with ``{"input": question and instruction, "label": reference}`` on each line, and
    ``OUT/NAME.counts.json``: how many rows were left out, and why. A repeated question is kept once.

    Returns:
        Exit status: 0, or 1 if a row cannot be graded and is not left out.

    Raises:
        SettingsError: the command line is refused, or the source cannot be read.
    """
    args = _parser().parse_args(argv)
    form = FORMATS[args.name]
    source = args.source or form.hub_id
    if source is None:
        raise SettingsError(f"{args.name} is no data set of the hub: name one by --from.")
    config, split = args.config, args.split
    if not args.source:
        config, split = config or form.config, split or form.split
    lines: dict[str, Line] = {}
    bad: dict[str, list[str]] = {kind: [] for kind in LEFT_OUT}
    others: dict[str, set[str]] = {}
    repeated = 0
    try:
        for place, row in records(source, None, split, config):
            try:
                pair = question_and_reference(args.name, row, args.input_key, args.label_key)
            except UnknownFormat as error:
                bad["nothing"].append(f"{place}: {error}")
                continue
            if pair is None:
                continue
            question, reference = pair
            key = question if isinstance(question, str) else json.dumps(question)
            if key not in lines:
                lines[key] = {"input": _asked(question, args.instruction), "label": reference, "place": str(place)}
                continue
            repeated += 1
            if reference != lines[key]["label"]:
                others.setdefault(key, set()).add(reference)
    except DataUnusable as error:
        raise SettingsError(str(error)) from None
    if not lines:
        first = f": {bad['nothing'][0]}" if bad["nothing"] else ""
        raise SettingsError(f"{source} has no rows of {args.name}{first}.")
    for key, kind, why in _ungradable(lines, others):
        bad[kind].append(f"{lines[key]['place']}: {lines[key]['label']!r} {why}")
        if args.drop_ungradable:
            del lines[key]
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / f"{args.name}.jsonl"
    kept = [{"input": line["input"], "label": line["label"]} for line in lines.values()]
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in kept), encoding="utf-8")
    return _tell(path, bad, repeated, len(lines), args.drop_ungradable)


def _parser() -> argparse.ArgumentParser:
    listed = "\n".join(f"  {name:<10} {form.what}" for name, form in FORMATS.items())
    parser = Parser(
        prog="openrlhf-gtpo data",
        description=f"{__doc__}\n\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("command", choices=["prepare"], help="prepare")
    add("name", choices=FORMATS, metavar="NAME", help="one of the above")
    source = f"a file ({', '.join(READERS)}), a pattern of files, a folder, or a data set of the hub (that of NAME)"
    add("--from", dest="source", metavar="PATH_OR_HUB_ID", help=source)
    add("--out", type=Path, required=True, help="folder; the file is NAME.jsonl there")
    add("--config", help="configuration of a hub data set, such as main of openai/gsm8k")
    add("--split", help="split of a hub data set (its only one, else test)")
    add("--input_key", help="column of the question (found by its name)")
    add("--label_key", help="column of the reference answer, or of a solution that ends with it (found by its name)")
    add("--instruction", default=INSTRUCTION, help=f"text after each question ({INSTRUCTION})")
    drop = "leave out rows that cannot be graded, instead of ending with status 1"
    add("--drop-ungradable", action="store_true", help=drop)
    return parser


def _asked(question: str | list[dict[str, Any]], instruction: str) -> Any:
    """A question that asks for the answer in a box, once. In a chat, the user's last message does."""
    if isinstance(question, list):
        last = question[-1]
        return [*question[:-1], last | {"content": _asked(last["content"], instruction)}]
    return question if r"\boxed{}" in question else f"{question}\n\n{instruction}".strip()


def _ungradable(lines: dict[str, Line], others: dict[str, set[str]]) -> list[tuple[str, str, str]]:
    """The questions whose reference no response can be compared with: key, kind and reason."""
    found = {key: (kind, "") for key, line in lines.items() if (kind := kind_of(line["label"]))}
    pairs = [(key, other) for key, set_of in others.items() for other in sorted(set_of)]
    rows = [{"label": line["label"]} for line in lines.values()]
    rows += [{"label": lines[key]["label"], "completion": rf"\boxed{{{other}}}"} for key, other in pairs]
    keys, graded = [*lines, *(key for key, _ in pairs)], grades(rows)
    for place, (key, grade) in enumerate(zip(keys, graded, strict=True)):
        if grade["verdict"] == "bad_reference":
            found.setdefault(key, ("unreadable", f"cannot be graded: {grade['detail'].partition(': ')[2]}"))
        elif place >= len(lines) and grade["verdict"] != "correct":
            found.setdefault(key, ("two answers", f"and {pairs[place - len(lines)][1]!r}"))
    return [(key, kind, why or f"is {LEFT_OUT[kind]}") for key, (kind, why) in found.items()]


def _tell(path: Path, bad: dict[str, list[str]], repeated: int, kept: int, drop: bool) -> int:
    """Print and write what was left out, kind by kind."""
    for kind, rows in bad.items():
        for row in rows[:NAMED]:
            print(row, file=sys.stderr)
        if len(rows) > NAMED:
            print(f"and {len(rows) - NAMED:,} more with {LEFT_OUT[kind]}", file=sys.stderr)
    counts = {LEFT_OUT[kind]: len(rows) for kind, rows in bad.items() if rows}
    written = {"prompts": kept, "repeated": repeated, **counts}
    path.with_suffix(".counts.json").write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")
    listed = ", ".join(f"{count:,} with {what}" for what, count in counts.items())
    end = f"{listed}{' left out' if drop else ': --drop-ungradable leaves them out'}"
    print(f"{path}: {kept:,} prompts; {repeated:,} repeated; {end if counts else 'every reference can be graded'}")
    print(f"Its flags: --data.prompt_dataset {shlex.quote(str(path))} --data.input_key input --data.label_key label")
    return 1 if counts and not drop else 0
