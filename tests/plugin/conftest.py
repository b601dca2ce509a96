"""The parser of training's command line, for the tests of what a command line means."""

import argparse

import pytest

from openrlhf_gtpo import command_line


@pytest.fixture(scope="session")
def parser() -> argparse.ArgumentParser:
    """OpenRLHF's own flags with ours, as the driver reads them; test_command_line.py holds it against the parser in
    OpenRLHF's script."""
    return command_line.parser()
