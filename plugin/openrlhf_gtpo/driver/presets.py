"""``--preset NAME``: the flags of an algorithm, from one small file in ``presets/``, and those of the paper's run,
which all presets share (``presets/_run.flags``).

Flags of the command line override the preset's: ``--preset dapo --actor.eps_clip_low_high 0.2 0.2`` has a symmetric
clip. ``--no-algo.dynamic_filtering_enable`` removes a switch of the preset. ``--show`` prints both files and exits.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from openrlhf_gtpo.errors import SettingsError


@dataclass(frozen=True)
class Expanded:
    """A command line whose preset was replaced by its flags."""

    arguments: list[str]
    """The preset's flags that are not overridden, then the rest of the command line."""
    preset: str | None
    overridden: tuple[str, ...] = ()
    """Flags of the preset that the command line sets or removes."""
    show: bool = False
    """Whether to print the preset and exit."""


def names() -> list[str]:
    """All presets."""
    entries = (entry.name for entry in _folder().iterdir())
    return sorted(name.removesuffix(".flags") for name in entries if name.endswith(".flags") and name[0] != "_")


def text(name: str) -> str:
    """A preset as it is written, with its comments, and the run that all of them share.

    Raises:
        SettingsError: there is no such preset.
    """
    if name not in names():
        raise SettingsError(f"--preset {name} does not exist: choose one of {', '.join(names())}.")
    return f"{_read(name)}\n{_read('_run')}"


def flags(name: str) -> list[list[str]]:
    """A preset's flags, each with its values: ``[["--shaping.alpha1", "1.0"], ["--shaping.grop"], ...]``.

    Raises:
        SettingsError: there is no such preset.
    """
    return _lines(text(name))


def run() -> list[list[str]]:
    """The flags that all presets share, as `flags`."""
    return _lines(_read("_run"))


def _read(name: str) -> str:
    return (_folder() / f"{name}.flags").read_text(encoding="utf-8")


def _lines(written: str) -> list[list[str]]:
    lines = (line.strip() for line in written.splitlines())
    return [shlex.split(line) for line in lines if line and not line.startswith("#")]


def expand(arguments: Sequence[str]) -> Expanded:
    """Replace ``--preset NAME``, ``--show`` and ``--no-FLAG`` in a command line by the preset's flags.

    Args:
        arguments: the command line without the program's name.

    Raises:
        SettingsError: the preset does not exist or is given twice, or --show or --no-FLAG is given without one.
    """
    rest: list[str] = []
    preset: str | None = None
    show = False
    taken_back: list[str] = []
    given = iter(arguments)
    for argument in given:
        if argument == "--preset" or argument.startswith("--preset="):
            name = argument.partition("=")[2] if "=" in argument else next(given, "")
            if preset is not None:
                raise SettingsError(f"--preset is given twice, {preset} and {name}: keep one.")
            preset = name
        elif argument == "--show":
            show = True
        elif argument.startswith("--no-"):
            taken_back.append("--" + argument.removeprefix("--no-"))
        else:
            rest.append(argument)
    if preset is None:
        if show or taken_back:
            left = "--show" if show else taken_back[0].replace("--", "--no-", 1)
            raise SettingsError(f"{left} needs a preset, and none is given: add --preset NAME or leave it out.")
        return Expanded(rest, None)

    lines = flags(preset)
    known = {line[0] for line in lines}
    for name in taken_back:
        if name not in known:
            raise SettingsError(
                f"{name.replace('--', '--no-', 1)} would remove a switch that --preset {preset} does not set: leave "
                "it out."
            )
    explicit = {argument.partition("=")[0] for argument in rest if argument.startswith("--")} | set(taken_back)
    kept = [word for line in lines if line[0] not in explicit for word in line]
    return Expanded([*kept, *rest], preset, tuple(line[0] for line in lines if line[0] in explicit), show)


def _folder():  # type: ignore[no-untyped-def]  # Python versions import Traversable from different modules
    return files("openrlhf_gtpo") / "driver" / "presets"
