"""The reward service's bearer token, from the environment."""

import os
from pathlib import Path

from openrlhf_gtpo.errors import SettingsError

__all__ = ["TOKEN_FILE_VARIABLE", "TOKEN_VARIABLE", "reward_token"]

TOKEN_VARIABLE = "MATH_REWARD_TOKEN"
"""Environment variable with the reward service's bearer token: never a flag, because OpenRLHF prints its flags."""

TOKEN_FILE_VARIABLE = "MATH_REWARD_TOKEN_FILE"
"""The same as the name of a file that holds the token. For Ray jobs: the dashboard shows their environment."""


def reward_token() -> str | None:
    """The reward service's bearer token, from the environment.

    Raises:
        SettingsError: both variables are set, or the file cannot be read or is empty.
    """
    token, path = os.environ.get(TOKEN_VARIABLE), os.environ.get(TOKEN_FILE_VARIABLE)
    if not path:
        return token or None
    if token:
        raise SettingsError(f"Set {TOKEN_VARIABLE} or {TOKEN_FILE_VARIABLE}, not both.")
    try:
        token = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise SettingsError(f"{path}, the file of {TOKEN_FILE_VARIABLE}, cannot be read: {reason}.") from None
    if not token:
        raise SettingsError(f"{path}, the file of {TOKEN_FILE_VARIABLE}, is empty: write the service's token into it.")
    return token
