"""The errors that end a run with one sentence instead of a traceback."""

__all__ = ["SettingsError", "UserError"]


class UserError(RuntimeError):
    """One sentence says what is wrong and what to do. The driver prints it and stops, without a traceback."""


class SettingsError(ValueError):
    """The command line cannot be run. One sentence a line, each with the flag at fault and the fix."""
