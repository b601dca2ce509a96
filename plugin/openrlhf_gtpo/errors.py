"""The errors that end a run with one sentence instead of a traceback."""

__all__ = ["SettingsError", "UserError"]


class UserError(RuntimeError):
    """Its text is one sentence that says what is wrong and what to do. The driver prints it and stops."""


class SettingsError(ValueError):
    """The command line asks for something that cannot be; one sentence a line, each naming a flag and the mend."""
