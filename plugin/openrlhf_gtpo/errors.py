"""The errors that end a run with one sentence instead of a traceback, and the words of other errors in a sentence."""


class UserError(RuntimeError):
    """One sentence says what is wrong and what to do. The driver prints it and stops, without a traceback."""


class SettingsError(ValueError):
    """The command line cannot be run. One sentence a line, each with the flag at fault and the fix."""


def reason(error: BaseException) -> str:
    """The text of an exception as a part of a sentence: its first line, or its class if it has no text."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".:") if lines else type(error).__name__
