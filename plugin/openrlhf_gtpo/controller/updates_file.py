"""Another run's number of optimiser updates in each step, from its metrics.jsonl, which the driver checks and the
controller reads."""

from pathlib import Path

from math_reward.json_lines import NoRow, object_of
from openrlhf_gtpo.data.json_lines import Unreadable, lines_of
from openrlhf_gtpo.errors import UserError

UPDATES = "policy/updates"


class UpdatesUnusable(UserError):
    """The file of ``--train.updates_from`` cannot be read, or does not have every step's number of updates."""


def read_updates(path: str, steps: int) -> list[int]:
    """The numbers of updates of steps 1 to ``steps``.

    Args:
        path: a run's metrics.jsonl.
        steps: of the run that will make as many.

    Raises:
        UpdatesUnusable: as the class says.
    """
    found = {}
    try:
        for line in lines_of(Path(path)):
            try:
                row = object_of(line.content)
            except NoRow:  # cut off when its run was stopped
                continue
            found[str(row.get("step"))] = row.get(UPDATES)
    except Unreadable as error:
        raise UpdatesUnusable(f"--train.updates_from: {path} cannot be read: {error}.") from None
    updates = []
    for step in range(1, steps + 1):
        number = found.get(str(step))
        if not isinstance(number, (int, float)) or number < 1:
            raise UpdatesUnusable(
                f"--train.updates_from: {path} has no {UPDATES} in step {step}, and --train.max_steps is {steps}: "
                "name the metrics.jsonl of a run that made as many steps."
            )
        updates.append(int(number))
    return updates
