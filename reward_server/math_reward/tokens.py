"""The tokens that clients may send: reads one, or a list of them with names, and tells whose a request's is."""

import hashlib
import hmac
import re
from collections import Counter
from collections.abc import Mapping

MAX_TOKENS = 100
"""How many there may be: each has time series of its own in the metrics."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TOKEN = re.compile(r"[!-~]+")


class TokensRefused(ValueError):
    """A text has no tokens that can be used; the message is half a sentence without any of them."""


def tokens_of(text: str) -> dict[str, str | None]:
    """Each token of a text and its name.

    A text with one word is a token without a name (None). Any other text has a name and a token on each line that is
    not blank. Several tokens may have the same name, so that a client's old and new one count as one client.

    Raises:
        TokensRefused: a line has something else, a token comes twice, or there is none or too many.
    """
    lines = [(number, line.split()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if len(lines) == 1 and len(lines[0][1]) == 1:
        return {lines[0][1][0]: None}
    found: dict[str, str | None] = {}
    for number, words in lines:
        if words[0].startswith("#"):
            raise TokensRefused(f"line {number} is a comment, which a file of tokens cannot have")
        if len(words) != 2:
            raise TokensRefused(f"line {number} has to be a name and a token with a blank between them")
        name, token = words
        if not _NAME.fullmatch(name):
            raise TokensRefused(
                f"the name on line {number} has to be at most 64 letters, digits, dots, dashes and underscores"
            )
        if not _TOKEN.fullmatch(token):
            raise TokensRefused(f"the token on line {number} has characters that no header can have")
        if token in found:
            raise TokensRefused(f"the token on line {number} is on a line before it too")
        found[token] = name
    if not found:
        raise TokensRefused("it has no token")
    if len(found) > MAX_TOKENS:
        raise TokensRefused(f"it has {len(found):,} tokens, and {MAX_TOKENS} are allowed")
    return found


def names_of(tokens: Mapping[str, str | None]) -> str:
    """The names of tokens, for people, with the number of several; "set" for one without a name, and "none"."""
    counts = Counter(name or "set" for name in tokens.values())
    return ",".join(name if count == 1 else f"{name} ({count} tokens)" for name, count in counts.items()) or "none"


class Tokens:
    """The tokens that are valid now; ``replace`` takes effect with the next request.

    Args:
        tokens: each token and its name; none if everybody may use the service.
    """

    def __init__(self, tokens: Mapping[str, str | None]) -> None:
        self.replace(tokens)

    def replace(self, tokens: Mapping[str, str | None]) -> None:
        """Puts other tokens in place of these."""
        # Digests have the same length, so the time of a comparison does not depend on a token's.
        self._names = {_digest(token.encode()): name for token, name in tokens.items()}

    @property
    def needed(self) -> bool:
        """Whether a request needs one."""
        return bool(self._names)

    def owner(self, header: bytes) -> tuple[bool, str | None]:
        """Whether an Authorization header has a valid token, and the token's name if it has one. The case of the
        scheme's name does not matter. The time that it takes does not depend on which token it is.
        """
        scheme, _, given = header.partition(b" ")
        digest = _digest(given.strip(b" "))
        found = [known for known in self._names if hmac.compare_digest(known, digest)]
        if scheme.lower() != b"bearer" or not found:
            return False, None
        return True, self._names[found[0]]


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
