"""How a command ends when it refuses its arguments."""

import sys
from typing import NoReturn


def refuse(sentence: str) -> NoReturn:
    """Ends the process with exit code 2 and one sentence on standard error."""
    print(f"math-reward: {sentence}", file=sys.stderr)
    sys.exit(2)
