"""What launch/setup.sh says last."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_set_up_ends_with_the_line_that_puts_both_commands_on_the_path() -> None:
    script = (ROOT / "launch" / "setup.sh").read_text()
    (line,) = re.findall(r"^on_the_path=.*$", script, re.MULTILINE)
    assert script.rstrip().endswith('echo "Done. $on_the_path"')
    said = subprocess.run(
        ["bash", "-c", f'venv={sys.prefix}; {line}; echo "$on_the_path"'], capture_output=True, text=True, check=True
    ).stdout
    (command,) = re.findall(r"`(.+)`", said)
    clean = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"} | {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        ["bash", "-c", f"{command} && command -v openrlhf-gtpo math-reward"], capture_output=True, text=True, env=clean
    )
    assert [Path(found).name for found in done.stdout.split()] == ["openrlhf-gtpo", "math-reward"], done.stderr
