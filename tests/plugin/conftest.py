"""OpenRLHF's real parser, for the tests of what a command line means."""

import argparse
import runpy
import sys
from typing import Any

import pytest

from openrlhf_gtpo import train


class Parsed(Exception):
    """Carries the namespace out of OpenRLHF's script before it starts anything."""


@pytest.fixture(scope="session")
def parser() -> argparse.ArgumentParser:
    """OpenRLHF's own parser with our flags, caught on its way through OpenRLHF's own script."""
    caught: list[argparse.ArgumentParser] = []
    original = argparse.ArgumentParser.parse_args

    def parse_args(self: argparse.ArgumentParser, *args: Any) -> Any:
        caught.append(self)
        return original(self, *args)

    def stop(args: argparse.Namespace, defaults: argparse.Namespace) -> None:
        raise Parsed

    argv, sys.argv = sys.argv, ["test"]
    argparse.ArgumentParser.parse_args = parse_args  # type: ignore[method-assign]
    try:
        with train._parser_hook(stop), pytest.raises(Parsed):
            runpy.run_module("openrlhf.cli.train_ppo_ray", run_name="__main__")
    finally:
        sys.argv = argv
        argparse.ArgumentParser.parse_args = original  # type: ignore[method-assign]
    return caught[0]
