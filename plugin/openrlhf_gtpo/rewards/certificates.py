"""Whose certificates the reward client trusts, and what it says of one that it does not."""

import ssl

__all__ = ["distrust", "trusted"]


def trusted(ca_file: str | None) -> ssl.SSLContext:
    """A context that trusts the certificates of a file, or the system's if there is none. The system's are those of
    the file that ``SSL_CERT_FILE`` names, where that is set.

    Raises:
        ValueError: the file cannot be used; one sentence.
    """
    try:
        return ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError:
        raise ValueError(f"{ca_file} has no certificate in PEM form: give the file of the authority.") from None
    except OSError as error:
        raise ValueError(f"{ca_file} cannot be read: {error.strerror}.") from None


def distrust(error: BaseException) -> str | None:
    """Why a server's certificate was not trusted, from an error of the HTTP library; None if that is not the cause."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return cause.verify_message or cause.reason
        cause = cause.__cause__ or cause.__context__
    return None
