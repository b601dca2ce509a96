"""Why a text or a tree cannot be used. The message of each is half a sentence."""


class TooComplex(ValueError):
    """It exceeds a limit; the message says which."""


class NotMathematics(ValueError):
    """The text cannot be read; the message says why."""


class Undefined(ArithmeticError):
    """The value does not exist: a division by zero, 0^0, the logarithm of zero, the factorial of -1."""
