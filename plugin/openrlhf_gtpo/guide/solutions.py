"""Worked solutions as a guide, from a file that the driver checks and the controller reads."""

from pathlib import Path
from typing import Any

from math_reward.json_lines import NoRow, object_of
from openrlhf_gtpo.data.json_lines import Unreadable, lines_of
from openrlhf_gtpo.errors import UserError

KEY = "solution"
LINES_SHOWN = 3


class SolutionsUnusable(UserError):
    """The file of ``--guide.solutions`` cannot be read, or rows of it cannot be used."""


def read_solutions(path: str, input_key: str) -> list[tuple[Any, list[str]]]:
    """The prompt and the solutions of each row.

    Args:
        path: a file of JSON lines.
        input_key: column of the prompt.

    Raises:
        SolutionsUnusable: the file cannot be read or is empty; or lines are not an object, have no prompt, or have no
            text or list of texts under ``solution``, or a blank one.
    """
    rows, broken = [], []
    try:
        for line in lines_of(Path(path)):
            row = _row(line.content, input_key)
            if row is None:
                broken.append(line.number)
            else:
                rows.append(row)
    except Unreadable as error:
        raise SolutionsUnusable(f"--guide.solutions: {path} cannot be read: {error}.") from None
    if broken:
        shown = ", ".join(map(str, broken[:LINES_SHOWN])) + (", ..." if len(broken) > LINES_SHOWN else "")
        raise SolutionsUnusable(
            f"--guide.solutions: {path} has {len(broken)} lines that cannot be used (line {shown}): each has to be an "
            f"object with a prompt under {input_key!r} and a text, or a list of texts, under {KEY!r}."
        )
    if not rows:
        raise SolutionsUnusable(f"--guide.solutions: {path} is empty: give a file with one JSON object per line.")
    return rows


def _row(line: bytes, input_key: str) -> tuple[Any, list[str]] | None:
    try:
        row = object_of(line)
    except NoRow:
        return None
    if not row.get(input_key):
        return None
    texts = row.get(KEY)
    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        return None
    return row[input_key], texts


def solutions_by_prompt(path: str, args: Any, tokenizer: Any) -> dict[str, list[str]]:
    """Prompt, as the policy gets it -> its worked solutions.

    Args:
        path: the file.
        args: OpenRLHF's nested arguments; ``args.data`` says how a row becomes a prompt.
        tokenizer: the policy's.
    """
    from openrlhf.datasets.prompts_dataset import preprocess_data

    template = tokenizer.apply_chat_template if args.data.apply_chat_template else None
    solutions: dict[str, list[str]] = {}
    for prompt, texts in read_solutions(path, args.data.input_key):
        row = {args.data.input_key: prompt}
        rendered, _ = preprocess_data(row, args.data.input_template, args.data.input_key, None, template)
        solutions.setdefault(rendered, []).extend(texts)
    return solutions
