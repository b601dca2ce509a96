"""How a command ends that refuses its arguments."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn


def refuse(sentence: str) -> NoReturn:
    """Ends the process with exit code 2 and one sentence, or one a line, on standard error."""
    print("\n".join(f"math-reward: {line}" for line in sentence.splitlines()), file=sys.stderr)
    sys.exit(2)


@contextmanager
def refusals() -> Iterator[None]:
    """Refuses what a file or a missing worker raises. Ctrl-C ends the process with exit code 130."""
    from math_reward.commands.rows import FileRefused
    from math_reward.pool.lane import NoWorkers

    try:
        yield
    except (FileRefused, NoWorkers) as error:
        refuse(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
