"""OpenRLHF's nested arguments of a test with our settings beside them, as the driver hands them to every process."""

import functools
from types import SimpleNamespace
from typing import Any

from openrlhf_gtpo.settings import Settings


class _Flags(dict[str, Any]):
    """The flat flags of nested arguments that a test may still change."""

    def __init__(self, args: SimpleNamespace) -> None:
        super().__init__()
        self.args = args

    def __missing__(self, name: str) -> Any:
        return functools.reduce(getattr, name.split("."), self.args)


def with_settings(args: SimpleNamespace) -> SimpleNamespace:
    """The same arguments, with ``args.plugin``."""
    args.plugin = Settings(_Flags(args))
    return args
