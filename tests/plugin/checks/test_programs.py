"""A user's own program is imported before anything starts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openrlhf_gtpo.checks import programs

REWARDS = "def reward_func(queries, prompts, labels):\n    return {}\n"
PROGRAMS = [
    (f"import neighbour\n{REWARDS}", None),
    ("import no_such_module_of_mine\n", "No module named 'no_such_module_of_mine'"),
    ("def reward(): ...\n", "defines no reward_func"),
    ("def reward_func(:\n", "SyntaxError"),
    (f"input()\n{REWARDS}", "EOF"),  # it would wait for a keyboard
    (f"breakpoint()\n{REWARDS}", "BdbQuit"),
    (f"import sys\nsys.exit(3)\n{REWARDS}", "cannot be used"),
]


@pytest.mark.parametrize(("text", "said"), PROGRAMS)
def test_what_a_rollout_actor_would_die_of_is_reported_with_the_file(
    text: str, said: str | None, parse: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    (tmp_path / "neighbour.py").write_text("")
    path = tmp_path / "rewards.py"
    path.write_text(text)
    (found,) = programs.check(parse("--reward.remote_url", path))
    assert found.state == ("ok" if said is None else "fault")
    assert str(path) in found.sentence
    assert (said or "") in found.sentence
