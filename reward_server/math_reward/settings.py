"""The service's settings: flags first, then MATH_REWARD_* environment variables, then the defaults below."""

import ipaddress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from math_reward.judge_settings import CONCURRENCY, JudgeRefused, JudgeSettings, judge_of
from math_reward.judge_settings import DEADLINE as JUDGE_DEADLINE
from math_reward.limits import DEADLINE, checked_deadline, checked_workers, usable_cores
from math_reward.tokens import TokensRefused, tokens_of


class Settings(BaseSettings):
    """The frozen settings of the service. Make them with ``load_settings``, whose errors are sentences."""

    model_config = SettingsConfigDict(
        env_prefix="MATH_REWARD_", frozen=True, extra="forbid", hide_input_in_errors=True
    )

    host: str = Field(default="127.0.0.1", min_length=1, description="address to listen on")
    port: int = Field(default=8000, ge=0, le=65535, description="port to listen on; 0 picks a free one")
    workers: Annotated[int, BeforeValidator(checked_workers)] = Field(
        default_factory=usable_cores, description="grading processes (one per core)"
    )
    deadline: Annotated[float, BeforeValidator(checked_deadline)] = Field(
        default=DEADLINE, description="CPU seconds that grading one item may take"
    )
    http_processes: int = Field(
        default=1,
        ge=1,
        le=256,
        description="processes that answer HTTP; they share the port, and each has its part of the grading processes "
        "and holds the limits below for itself",
    )
    mode: Literal["lenient", "strict"] = Field(
        default="lenient",
        description="where an answer may stand for requests that do not say: strict is a box alone",
    )
    max_items: int = Field(default=4096, ge=1, description="items that one request may have")
    max_queued: int = Field(default=32_768, ge=1, description="items that may wait for a worker")
    max_body_bytes: int = Field(default=16 * 2**20, ge=1024, description="size of a request body")
    max_pending_bytes: int = Field(
        default=64 * 2**20, ge=1024, description="total size of the bodies of all requests under way"
    )
    body_seconds: float = Field(
        default=30.0, gt=0, le=3600, description="seconds that a request body may take to arrive"
    )
    drain_seconds: float = Field(
        default=8.0, ge=0, le=3600, description="seconds that requests under way may still take when the service stops"
    )
    access_log: bool = Field(
        default=True,
        description="write a JSON line per request to standard error (on; off with --exit-on-stdin-close)",
    )
    address: str | None = Field(
        default=None, description="where the port of the service's container is published: an address of the machine"
    )
    from_containers: bool | None = Field(
        default=None, description="whether other containers can reach the service's container"
    )
    insecure: bool = Field(default=False, description="listen without a token on an address that others can reach")
    allowed_hosts: str = Field(
        default="",
        description="host names that a service without a token answers to, comma-separated; it always answers to "
        "addresses, localhost and names without a dot",
    )
    certfile: Path | None = Field(
        default=None,
        description="serve HTTPS with the certificate of this PEM file; SIGHUP reads it and its key again",
    )
    keyfile: Path | None = Field(
        default=None, description="the PEM file with the certificate's key, unless --certfile has it too"
    )
    judge: str | None = Field(
        default=None,
        description="the URL of an OpenAI-compatible endpoint with a model that is asked about answers in words, "
        "which mathematics does not decide; its key is MATH_REWARD_JUDGE_KEY",
    )
    judge_model: str | None = Field(default=None, description="the name of the judge's model at its endpoint")
    judge_deadline: float = Field(
        default=JUDGE_DEADLINE, description="seconds that the judge may take for one item, with all attempts"
    )
    judge_concurrency: int = Field(default=CONCURRENCY, description="items that the judge is asked about at once")
    judge_key: SecretStr | None = Field(default=None, description="the API key of the judge's endpoint")
    token: SecretStr | None = Field(default=None, description="what clients must send as 'Authorization: Bearer ...'")
    token_file: Path | None = Field(default=None, description="a file that holds the token, or names and tokens")

    @model_validator(mode="before")
    @classmethod
    def _read_token_file(cls, values: Any) -> Any:
        if "address" in values:  # Compose passes on what was left empty.
            values = {name: value for name, value in values.items() if value != ""}
        path = values.get("token_file")
        if path is None:
            return values
        if Path(path).is_char_device():  # /dev/null, which Compose mounts where it is given no file
            return {name: value for name, value in values.items() if name != "token_file"}
        if values.get("token") is not None:
            raise ValueError("Set MATH_REWARD_TOKEN or MATH_REWARD_TOKEN_FILE, not both")
        return {**values, "token": _read_tokens(Path(path))}

    @model_validator(mode="after")
    def _refuse_what_is_unsafe(self) -> "Settings":
        if self.token is not None and not self.token.get_secret_value().strip():
            raise ValueError(
                "The token is empty: put a token into MATH_REWARD_TOKEN or MATH_REWARD_TOKEN_FILE, or unset it"
            )
        if self.keyfile is not None and self.certfile is None:
            raise ValueError("A key needs its certificate: set --certfile, or MATH_REWARD_CERTFILE")
        if self.max_pending_bytes < self.max_body_bytes:
            raise ValueError(
                f"max_pending_bytes, {self.max_pending_bytes}, is less than max_body_bytes, {self.max_body_bytes}: "
                "raise MATH_REWARD_MAX_PENDING_BYTES, or lower MATH_REWARD_MAX_BODY_BYTES"
            )
        if self.http_processes > self.workers:
            raise ValueError(
                f"http_processes, {self.http_processes}, is more than workers, {self.workers}: each process that "
                "answers HTTP needs a grading process, so lower the one (MATH_REWARD_HTTP_PROCESSES) or raise the "
                "other (MATH_REWARD_WORKERS)"
            )
        if self.token is None and not self.insecure and not self._this_machine_alone_reaches_it:
            raise ValueError(
                f"Everybody who can reach {self.host} could use the service: set MATH_REWARD_TOKEN or "
                "MATH_REWARD_TOKEN_FILE, or pass --insecure"
            )
        return self

    @model_validator(mode="after")
    def _check_the_judge(self) -> "Settings":
        try:
            _ = self.asks_judge
        except JudgeRefused as error:
            raise ValueError(str(error).rstrip(".")) from None
        return self

    @property
    def asks_judge(self) -> JudgeSettings | None:
        """The judge that is asked; None if there is none."""
        key = None if self.judge_key is None else self.judge_key.get_secret_value()
        limits = {"deadline": self.judge_deadline, "concurrency": self.judge_concurrency}
        return judge_of(self.judge, self.judge_model, key, **limits)

    @property
    def _this_machine_alone_reaches_it(self) -> bool:
        published_here = self.address == "127.0.0.1" and self.from_containers is False
        return published_here or _is_loopback(self.host)

    @property
    def tokens(self) -> dict[str, str | None]:
        """Each token in the clear, and its name if it has one; none where none is set."""
        if self.token is None:
            return {}
        text = self.token.get_secret_value()
        return {text.strip(): None} if self.token_file is None else tokens_of(text)

    @property
    def bearer_token(self) -> str | None:
        """The token in the clear, without white space around it, the first of several; None where none is set."""
        return next(iter(self.tokens), None)

    def with_tokens_now(self) -> "Settings":
        """The same, with the tokens that ``token_file`` has now.

        Raises:
            SettingsError: the file cannot be read or used; or it has a single token for everybody where there were
                names, which is what a file that is half written looks like.
        """
        if self.token_file is None:
            return self
        try:
            text = _read_tokens(self.token_file)
        except ValueError as error:
            raise SettingsError(f"{error}.") from None
        if not text.strip():
            raise SettingsError(f"MATH_REWARD_TOKEN_FILE, {self.token_file}, has no token.")
        if None in tokens_of(text).values() and None not in self.tokens.values():
            raise SettingsError(
                f"MATH_REWARD_TOKEN_FILE, {self.token_file}, has one word where it had names: give the token a name, "
                "or start the service again."
            )
        return self.model_copy(update={"token": SecretStr(text)})

    @property
    def reads_files(self) -> bool:
        """Whether there is a file that may change while the service runs."""
        return self.token_file is not None or self.certfile is not None

    @property
    def host_names(self) -> frozenset[str]:
        """The names that ``allowed_hosts`` has, and that of ``host``, in lower case."""
        names = [self.host, *self.allowed_hosts.split(",")]
        return frozenset(name.strip().lower() for name in names if name.strip())


class SettingsError(ValueError):
    """The settings are refused; the message has a sentence for each reason."""


def load_settings(**flags: Any) -> Settings:
    """Settings from the flags that are not None, then the environment, then the defaults.

    Raises:
        SettingsError: a value is out of bounds, or the combination is unsafe.
    """
    try:
        return Settings(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as error:
        raise SettingsError(" ".join(_sentence(reason) for reason in error.errors())) from None


def _sentence(reason: Any) -> str:
    """One of pydantic's reasons as a sentence, without the value, which could be the token."""
    message = reason["msg"].removeprefix("Value error, ")
    if not reason["loc"]:
        return f"{message}."
    name = str(reason["loc"][0]).lower().removeprefix("math_reward_")
    return f"{name} (MATH_REWARD_{name.upper()}): {message[0].lower()}{message[1:]}."


def _read_tokens(path: Path) -> str:
    """The text of a file of tokens. Raises ValueError with a sentence, without its full stop."""
    try:
        text = path.read_text(encoding="utf-8")
        if text.strip():
            tokens_of(text)
        return text
    except TokensRefused as error:
        raise ValueError(f"MATH_REWARD_TOKEN_FILE, {path}, cannot be used: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"MATH_REWARD_TOKEN_FILE, {path}, cannot be read: {_reason(error)}") from None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "it is not UTF-8 text"
