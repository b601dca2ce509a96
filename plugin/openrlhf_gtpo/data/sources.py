"""Where rows come from: files of the kinds that people have, patterns, folders, URLs and data sets of the Hugging Face
hub, each named as in OpenRLHF's ``--data.prompt_dataset``. Rows are streamed, and say where they stand.

The loader of `datasets` gives each column one type, so that the text ``2024-01-01`` becomes a date, 42 beside 0.5
becomes 42.0, and the csv cell ``007`` becomes 7. Here a value is what stands in the file."""

import csv
import glob
import io
import itertools
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from math_reward.json_lines import NoRow, NotUTF8, check_encoding, lines_of, object_of
from math_reward.nearest import beside
from openrlhf_gtpo.errors import UserError, reason

ROWS_AT_ONCE = 1000
"""Of a file with columns."""


class DataUnusable(UserError):
    """Rows cannot be used; one sentence names the source, the row and the fix."""


class Place(NamedTuple):
    """Where a row stands."""

    source: str
    kind: str
    """``line`` or ``row``."""
    number: int
    """From 1."""

    def __str__(self) -> str:
        return f"{self.source}, {self.kind} {self.number}"


class Columns(NamedTuple):
    """The columns to read of a file with columns."""

    needed: Sequence[str]
    more: Sequence[str] = ()
    """Those that there may be."""

    def of(self, names: Sequence[str]) -> list[str]:
        """Of those that a file has; all where one that is needed is missing, so that a refusal can name them."""
        known = {*self.needed, *self.more}
        return [name for name in names if name in known or not set(self.needed) <= set(names)]


Records = Iterator[tuple[Place, dict[str, Any]]]
Reader = Callable[[Path, str, Columns | None], Records]


def names_of(listed: str | None) -> list[str]:
    """The data sets of ``--data.prompt_dataset``, which commas separate; what is there is one, whatever its name."""
    if not listed:
        return []
    return [listed] if os.path.exists(os.path.expanduser(listed)) else [name.strip() for name in listed.split(",")]


def where_and_inside(name: str) -> tuple[str, str | None]:
    """A name, and the folder in the data set that OpenRLHF lets stand after an ``@``; ``~`` is the home."""
    whole = os.path.expanduser(name)
    where, _, inside = whole.partition("@")
    return (whole, None) if os.path.exists(whole) else (where.strip(), inside.split("@")[0].strip() or None)


def files_of(name: str) -> list[Path]:
    """The files on this machine that a name means: itself, or what fits it as a pattern."""
    where, _ = where_and_inside(name)
    if os.path.isfile(where):
        return [Path(where)]
    found = sorted(glob.glob(where, recursive=True)) if glob.has_magic(where) else []
    return [path for path in map(Path, found) if path.is_file()]


def is_local(name: str) -> bool:
    """Whether a data set is on this machine."""
    return os.path.isdir(where_and_inside(name)[0]) or bool(files_of(name))


def nothing(name: str, kind: str) -> str:
    """``There is no file data/x.jsonl``; for a relative path, with the folder that it is relative to."""
    at = "" if os.path.isabs(name) else f" in {os.getcwd()}"
    return f"There is no {kind} {name}{at}{beside(name)}"


def no_hub_id(name: str, kind: str) -> str:
    """What is wrong with the name of nothing on this machine, without an end; empty for a hub id."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(name)
    except HFValidationError:
        return f"{nothing(name, kind)}, and {name!r} is not a hub id (NAME or OWNER/NAME)"
    return ""


def not_there(name: str) -> str:
    """What is wrong with a name that means nothing, without an end; empty for a file, a folder, a URL or a hub id."""
    where, inside = where_and_inside(name)
    if files_of(name) or "://" in where:  # `datasets` reads URLs too
        return ""
    if os.path.isdir(where):
        inner = os.path.join(where, inside or "")
        return "" if os.path.isdir(inner) else nothing(inner, "folder")
    if os.path.splitext(where)[1].lower() in READERS:
        return nothing(where, "file")
    return no_hub_id(where, "file or folder")


def prepared_by(name: str, split: str | None, input_key: str | None, label_key: str | None) -> str:
    """The command that makes prompts and labels of these columns, and leaves out rows without; without a column it
    finds that by its name."""
    named = {"from": name, "split": None if files_of(name) else split, "input_key": input_key, "label_key": label_key}
    flags = "".join(f" --{flag} {shlex.quote(value)}" for flag, value in named.items() if value)
    folder = re.sub(r"\W+", "_", Path(name).stem).strip("_") or "mine"
    return f"`openrlhf-gtpo data prepare other{flags} --drop-ungradable --out data/{folder}`"


def records(
    name: str, columns: Columns | None = None, split: str | None = "train", config: str | None = None
) -> Records:
    """The place and the values of each row of a data set.

    Args:
        name: a file, a pattern of files, a folder, a URL or a hub id; for the last ones with ``@FOLDER`` inside.
        columns: by default all.
        split: of a data set with several; None for its only one, else ``test``.
        config: configuration of a data set with several.

    Raises:
        DataUnusable: nothing is there or can be loaded, or a row is none.
    """
    where, inside = where_and_inside(name)
    files = files_of(name)
    for path in files:
        yield from read(path, str(path), columns, reader_of(path))
    if not files:
        if wrong := not_there(name):
            raise DataUnusable(f"{wrong}.")
        yield from _of_a_set(where, inside, columns, split, config)


def _object(place: Place, content: bytes) -> dict[str, Any]:
    try:
        return object_of(content)
    except NoRow as error:
        if content.startswith(b"version https://git-lfs"):
            raise DataUnusable(f"{place.source} is a pointer of Git LFS: fetch the file by `git lfs pull`.") from None
        raise DataUnusable(f"{place}: it {error.brief}: a file has one a line, or is one array of them.") from None


def _json(path: Path, source: str, columns: Columns | None) -> Records:
    """JSON lines; or one array of objects, which begins with a bracket, whatever the name's end."""
    import msgspec

    with path.open("rb") as file:
        head = file.read(64)
        file.seek(0)
        if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] != b"[":
            for line in lines_of(file):
                place = Place(source, "line", line.number)
                yield place, _object(place, line.content)
            return
        check_encoding(head[:4])
        content = file.read().removeprefix(b"\xef\xbb\xbf")
    for number, row in enumerate(msgspec.json.decode(content, type=list[msgspec.Raw]), 1):
        place = Place(source, "row", number)
        yield place, _object(place, bytes(row))


def _csv(path: Path, source: str, columns: Columns | None) -> Records:
    """Cells as text."""
    csv.field_size_limit(sys.maxsize)
    with path.open("rb") as file:
        check_encoding(file.read(4))
        file.seek(0)
        for number, row in enumerate(csv.DictReader(io.TextIOWrapper(file, "utf-8-sig", newline="")), 1):
            if None in row:
                raise DataUnusable(f"{source}, row {number}: it has more cells than the header: fix or remove it.")
            yield Place(source, "row", number), row


def _parquet(path: Path, source: str, columns: Columns | None) -> Records:
    import pyarrow.parquet as parquet  # type: ignore[import-untyped]

    with parquet.ParquetFile(path) as file:
        chosen = columns and columns.of(file.schema_arrow.names)
        yield from _numbered(file.iter_batches(ROWS_AT_ONCE, columns=chosen), source)


def _arrow(path: Path, source: str, columns: Columns | None) -> Records:
    import pyarrow

    with pyarrow.memory_map(str(path)) as file:
        try:
            batches: Any = pyarrow.ipc.open_stream(file)
        except pyarrow.ArrowInvalid:
            reader = pyarrow.ipc.open_file(file)
            batches = map(reader.get_batch, range(reader.num_record_batches))
        chosen = (batch.select(columns.of(batch.schema.names)) if columns else batch for batch in batches)
        yield from _numbered(chosen, source)


def _numbered(batches: Any, source: str) -> Records:
    rows = itertools.chain.from_iterable(batch.to_pylist() for batch in batches)
    for number, row in enumerate(rows, 1):
        yield Place(source, "row", number), row


READERS: dict[str, Reader] = {".jsonl": _json, ".json": _json, ".csv": _csv, ".parquet": _parquet, ".arrow": _arrow}
"""Kinds of files by the ends of their names."""


def reader_of(path: Path) -> Reader:
    """What reads a file.

    Raises:
        DataUnusable: nothing does.
    """
    if path.suffix.lower() not in READERS:
        raise DataUnusable(f"{path} is of an unknown kind: its name has to end with one of {' '.join(READERS)}.")
    return READERS[path.suffix.lower()]


def read(path: Path, source: str, columns: Columns | None, reader: Reader) -> Records:
    """The rows of a file, called ``source``; what its reader cannot read is one sentence."""
    try:
        yield from reader(path, source, columns)
    except DataUnusable:
        raise
    except NotUTF8 as error:
        raise DataUnusable(f"{source} cannot be read: {error}.") from None
    except UnicodeDecodeError:
        raise DataUnusable(f"{source} cannot be read: it is not UTF-8: save it as that.") from None
    except OSError as error:
        why = error.strerror or reason(error)
        raise DataUnusable(f"{source} cannot be read: {why}: fix the path or its permissions.") from None
    except Exception as error:  # of csv, msgspec and Arrow, which have no base class
        raise DataUnusable(f"{source} cannot be read ({reason(error)}): fix or replace it.") from None


def lines(path: Path) -> Records:
    """The objects of a file of JSON lines."""
    return read(path, str(path), None, _json)


def _of_a_set(
    where: str, inside: str | None, columns: Columns | None, split: str | None, config: str | None
) -> Records:
    """The rows of a folder, a URL or a hub id: of its files, or where it has none that are read here, as `datasets`
    has them."""
    import datasets

    saved = any(os.path.isfile(os.path.join(where, file)) for file in ("dataset_dict.json", "state.json"))
    ending = os.path.splitext(where)[1].lower()
    try:
        if saved:
            rows = _of_the_split(datasets.load_from_disk(where), split, where)
        elif "://" in where and ending in READERS:
            path = datasets.DownloadManager().download(where)
            yield from read(Path(path), where, columns, READERS[ending])
            return
        else:
            builder = datasets.load_dataset_builder(where, config, data_dir=inside)
            reader = READERS.get(f".{builder.name}")
            if reader and builder.config.data_files:
                files = _of_the_split(builder.config.data_files, split, where)
                for file, path in zip(files, datasets.DownloadManager().download(list(files)), strict=True):
                    yield from read(Path(path), str(file), columns, reader)
                return
            rows = _of_the_split(datasets.load_dataset(where, config, data_dir=inside), split, where)
    except DataUnusable:
        raise
    except Exception as error:  # the library has no base class for its errors
        why = f"cannot be loaded ({reason(error)}): without internet access, give a file that you downloaded elsewhere"
        if isinstance(error, OSError) and error.filename is not None:
            why = f"cannot be loaded ({error.filename}: {error.strerror}): set HF_HOME to a folder of yours"
        elif config is None and "Config name is missing" in str(error):
            names = ", ".join(datasets.get_dataset_config_names(where))
            why = f"has the configurations {names}: choose one by --config of `openrlhf-gtpo data prepare`"
        raise DataUnusable(f"{where} {why}{beside(where)}.") from None
    for number, row in enumerate(rows, 1):
        yield Place(where, "row", number), row


def _of_the_split(splits: Any, split: str | None, where: str) -> Any:
    import datasets

    if isinstance(splits, datasets.Dataset):  # one alone, as `save_to_disk` writes it
        return splits
    names = list(map(str, splits))
    chosen = split or "test"
    if len(names) == 1 and (split is None or split == "train"):
        return splits[names[0]]
    if chosen in names:
        return splits[chosen]
    raise DataUnusable(
        f"{where} has the splits {', '.join(names)}, and no {chosen}: choose one of them by --data.prompt_split, "
        "--eval.split or --split."
    )
