"""Every check of a run before it starts: what would train on something wrong in silence, or would fail only after
minutes. What OpenRLHF, DeepSpeed or Ray refuse themselves at once is theirs.

``train``, ``--dry-run`` and ``doctor`` ask the same list, so that they cannot know different things. A check is a
function of the flat flags of a command line, ``vars(args)``, that yields findings. It starts no engine and downloads
nothing."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from openrlhf_gtpo.flags import missing

State = Literal["ok", "warning", "fault"]


@dataclass(frozen=True)
class Finding:
    """The result of a check."""

    check: str
    """What was looked at, in a word or two."""
    state: State
    """``fault``: training would fail or learn from something wrong; ``warning``: it may work."""
    sentence: str
    """What was found, and for a fault or a warning what to do."""


def of_the_command(flags: Mapping[str, Any]) -> Iterator[Finding]:
    """Findings about what a command line says and names: flags, models, data, programs."""
    from openrlhf_gtpo.checks import checkpoints, data, libraries, programs, rules

    found = list(rules.check(flags))
    if absent := missing(flags):
        said = ", ".join(f"--{name} ({what})" for name, what in absent.items())
        found = [finding for finding in found if finding.state != "ok"]
        found.insert(0, Finding("flags", "fault", f"Flags are missing: {said}."))
    yield from found
    if not any(finding.state == "fault" for finding in found):
        yield from libraries.check(flags)
        yield from data.check(flags)
        yield from programs.check(flags)
        yield from checkpoints.check(flags)


def of_the_machine(flags: Mapping[str, Any]) -> Iterator[Finding]:
    """Findings about where it is to run: versions first of all, GPUs, cluster, memory, disk, reward services."""
    from openrlhf_gtpo.checks import machine, room, services, versions

    yield from versions.check(flags)
    yield from machine.check(flags)
    yield from room.check(flags)
    yield from services.check(flags)


def faults(findings: Sequence[Finding]) -> list[str]:
    """The sentences of the faults."""
    return [finding.sentence for finding in findings if finding.state == "fault"]
