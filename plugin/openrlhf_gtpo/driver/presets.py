"""``--preset NAME``: an algorithm's settings as flags, one small file each in ``presets/``.

What the command line says itself wins: ``--preset dapo --actor.eps_clip_low_high 0.2 0.2`` has a symmetric clip, and
``--no-algo.dynamic_filtering_enable`` takes a switch of the preset back. ``--show`` prints the file and ends.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from openrlhf_gtpo.errors import SettingsError

__all__ = ["Expanded", "expand", "flags", "names", "text"]


@dataclass(frozen=True)
class Expanded:
    """A command line whose preset has been put in its place."""

    arguments: list[str]
    """The preset's flags that are not overridden, then the rest of the command line."""
    preset: str | None
    overridden: tuple[str, ...] = ()
    """Flags of the preset that the command line sets itself or takes back."""
    show: bool = False
    """Whether the preset is only to be printed."""


def names() -> list[str]:
    """The presets there are."""
    return sorted(entry.name.removesuffix(".flags") for entry in _folder().iterdir() if entry.name.endswith(".flags"))


def text(name: str) -> str:
    """A preset as it is written, with its comments.

    Raises:
        SettingsError: there is no such preset.
    """
    if name not in names():
        raise SettingsError(f"--preset {name} does not exist: choose one of {', '.join(names())}.")
    return (_folder() / f"{name}.flags").read_text(encoding="utf-8")


def flags(name: str) -> list[list[str]]:
    """A preset's flags, each with its values: ``[["--shaping.alpha1", "1.0"], ["--shaping.grop"], ...]``.

    Raises:
        SettingsError: there is no such preset.
    """
    lines = (line.strip() for line in text(name).splitlines())
    return [shlex.split(line) for line in lines if line and not line.startswith("#")]


def expand(arguments: Sequence[str]) -> Expanded:
    """Take ``--preset NAME``, ``--show`` and ``--no-FLAG`` out of a command line and put the preset's flags in.

    Raises:
        SettingsError: the preset does not exist or is named twice, or --show or --no-FLAG stands without one.
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
                raise SettingsError(f"--preset is named twice, {preset} and {name}: keep one.")
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
            raise SettingsError(f"{left} is about a preset, and there is none: add --preset NAME or leave it out.")
        return Expanded(rest, None)

    lines = flags(preset)
    known = {line[0] for line in lines}
    for name in taken_back:
        if name not in known:
            raise SettingsError(
                f"{name.replace('--', '--no-', 1)} takes back what --preset {preset} does not set: leave it out."
            )
    explicit = {argument.partition("=")[0] for argument in rest if argument.startswith("--")} | set(taken_back)
    kept = [word for line in lines if line[0] not in explicit for word in line]
    return Expanded([*kept, *rest], preset, tuple(line[0] for line in lines if line[0] in explicit), show)


def _folder():  # type: ignore[no-untyped-def]  # Traversable has another home in each Python
    return files("openrlhf_gtpo") / "driver" / "presets"
