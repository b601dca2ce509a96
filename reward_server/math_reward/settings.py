"""The service's settings: flags first, then MATH_REWARD_* environment variables, then the defaults below."""

import ipaddress
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from math_reward.limits import DEADLINE, MAX_DEADLINE, MAX_WORKERS, MIN_DEADLINE, usable_cores
from math_reward.nearest import did_you_mean

OF_OTHERS = re.compile(r"(\w+_)?((SERVICE_(HOST|PORT)|PORT_\d+_(TCP|UDP|SCTP))(_\w+)?=|PORT=\w+://)|(PORTS|MEMORY)=")
"""Variables of Kubernetes, for every container beside a service whose name begins with math-reward, and of compose."""


class Settings(BaseSettings):
    """The frozen settings of the service. Make them with ``load_settings``, whose errors are sentences."""

    model_config = SettingsConfigDict(
        env_prefix="MATH_REWARD_", frozen=True, extra="forbid", hide_input_in_errors=True
    )

    host: str = Field(default="127.0.0.1", min_length=1, description="address to listen on")
    port: int = Field(default=8000, ge=0, le=65535, description="port to listen on; 0 picks a free one")
    workers: int = Field(
        default_factory=usable_cores, ge=1, le=MAX_WORKERS, description="grading processes (one per core)"
    )
    deadline: float = Field(
        default=DEADLINE,
        ge=MIN_DEADLINE,
        le=MAX_DEADLINE,
        description="CPU seconds that grading one item may take",
    )
    mode: Literal["lenient", "strict"] = Field(
        default="lenient",
        description="where an answer may stand for requests that do not say: strict is a box alone",
    )
    max_items: int = Field(default=4096, ge=1, description="items that one request may have")
    max_queued: int = Field(default=32_768, ge=1, description="items that may wait for a worker")
    max_body_bytes: int = Field(default=4 * 2**20, ge=1024, description="size of a request body")
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
    certfile: Path | None = Field(default=None, description="serve HTTPS with the certificate of this PEM file")
    keyfile: Path | None = Field(
        default=None, description="the PEM file with the certificate's key, unless --certfile has it too"
    )
    token: SecretStr | None = Field(default=None, description="what clients must send as 'Authorization: Bearer ...'")
    token_file: Path | None = Field(default=None, description="a file with one token on each line")

    @model_validator(mode="before")
    @classmethod
    def _read_environment(cls, values: Any) -> Any:
        if "://" in str(values.get("port")):  # Kubernetes' word for the service that is named math-reward
            values = {name: value for name, value in values.items() if name != "port"}
        if "address" in values:  # Compose passes on what was left empty.
            values = {name: value for name, value in values.items() if value != ""}
        path = values.get("token_file")
        if path is None:
            return values
        if Path(path).is_char_device():  # /dev/null, which Compose mounts where it is given no file
            return {name: value for name, value in values.items() if name != "token_file"}
        if values.get("token") is not None:
            raise ValueError("Set MATH_REWARD_TOKEN or MATH_REWARD_TOKEN_FILE, not both")
        try:
            return {**values, "token": Path(path).read_text(encoding="utf-8")}
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise ValueError(f"MATH_REWARD_TOKEN_FILE, {path}, cannot be read: {why}") from None

    @model_validator(mode="after")
    def _refuse_what_is_unsafe(self) -> "Settings":
        if self.token is not None and not self.token.get_secret_value().strip():
            raise ValueError(
                "The token is empty: put a token into MATH_REWARD_TOKEN or MATH_REWARD_TOKEN_FILE, or unset it"
            )
        for number, token in enumerate(self.token.get_secret_value().splitlines() if self.token else [], 1):
            if len(token.split()) > 1 or not (token.isascii() and token.strip().isprintable()):
                where = f"MATH_REWARD_TOKEN_FILE, {self.token_file}" if self.token_file else "MATH_REWARD_TOKEN"
                raise ValueError(f"{where}, line {number}: write one token on each line, in ASCII, and no name")
        if self.keyfile is not None and self.certfile is None:
            raise ValueError("A key needs its certificate: set --certfile, or MATH_REWARD_CERTFILE")
        if self.max_pending_bytes < self.max_body_bytes:
            raise ValueError(
                f"max_pending_bytes, {self.max_pending_bytes}, is less than max_body_bytes, {self.max_body_bytes}: "
                "raise MATH_REWARD_MAX_PENDING_BYTES, or lower MATH_REWARD_MAX_BODY_BYTES"
            )
        if self.token is None and not self.insecure and not self._this_machine_alone_reaches_it:
            raise ValueError(
                f"Everybody who can reach {self.host} could use the service: set MATH_REWARD_TOKEN or "
                "MATH_REWARD_TOKEN_FILE, or pass --insecure"
            )
        return self

    @property
    def _this_machine_alone_reaches_it(self) -> bool:
        published_here = self.address == "127.0.0.1" and self.from_containers is False
        return published_here or _is_loopback(self.host)

    @property
    def tokens(self) -> list[str]:
        """The tokens in the clear, one on each line; none where none is set."""
        lines = [] if self.token is None else self.token.get_secret_value().splitlines()
        return [line.strip() for line in lines if line.strip()]


class SettingsError(ValueError):
    """The settings are refused; the message has a sentence for each reason."""


def load_settings(**flags: Any) -> Settings:
    """Settings from the flags that are not None, then the environment, then the defaults.

    Raises:
        SettingsError: a value is out of bounds, the combination is unsafe, or a variable is mistyped.
    """
    if mistyped := " ".join(_mistyped()):
        raise SettingsError(mistyped)
    try:
        return Settings(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as error:
        raise SettingsError(" ".join(_sentence(reason) for reason in error.errors())) from None


def _mistyped() -> Iterator[str]:
    """A sentence for each variable with our prefix that is no setting."""
    for variable, value in os.environ.items():
        name = variable.lower().removeprefix("math_reward_")
        known = name == variable.lower() or name in Settings.model_fields
        if not known and not OF_OTHERS.match(f"{name.upper()}={value}"):
            hint = did_you_mean(name, Settings.model_fields, "unset it, or see `math-reward serve --help`")
            yield f"{name} ({variable}) is no setting of the service{hint}"


def _sentence(reason: Any) -> str:
    """One of pydantic's reasons as a sentence, without the value, which could be the token."""
    message = reason["msg"].removeprefix("Value error, ")
    if not reason["loc"]:
        return f"{message}."
    name = str(reason["loc"][0]).lower().removeprefix("math_reward_")
    return f"{name} (MATH_REWARD_{name.upper()}): {message[0].lower()}{message[1:]}."


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
