"""HTTPS with a certificate made here: limits, drain, a renewed certificate; and files that cannot be used."""

import contextlib
import http.client
import os
import signal
import socket
import ssl
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from math_reward.http.event_loop.tls import Certificate, CertificateRefused

from ...certificates import write_certificate
from ...refusals import assert_refusal
from ..conftest import WaitFor

RIGHT = {"completion": r"\boxed{42}", "reference": "42"}
WAIT = 120


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def files(folder: Path) -> tuple[Path, Path]:
    return write_certificate(folder, "service")


def started(serve: Callable[..., Any], files: tuple[Path, Path]) -> Any:
    """A service over TLS whose client trusts it."""
    options = ["--certfile", str(files[0]), "--keyfile", str(files[1])]
    server = serve("--workers", "1", "--drain-seconds", "1", "--body-seconds", "1", *options, stub=True)
    server.client = httpx.Client(base_url=server.url, timeout=WAIT, verify=trusting(files[0]))
    return server.when_ready()


@pytest.fixture(scope="module")
def secure(serve: Callable[..., Any], files: tuple[Path, Path]) -> Any:
    """The service of most tests."""
    return started(serve, files)


def trusting(authority: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority))


@contextlib.contextmanager
def connected(server: Any, authority: Path) -> Any:
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=WAIT) as raw,
        trusting(authority).wrap_socket(raw, server_hostname="127.0.0.1") as connection,
    ):
        yield connection


def everything_from(connection: ssl.SSLSocket) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while part := connection.recv(65536):
            received += part
    return received


def test_requests_streams_and_readiness_are_answered_over_tls(secure: Any):
    assert secure.first_line.startswith("math-reward listening on https://127.0.0.1:")
    answer = secure.client.post("/v1/grade", json={"items": [RIGHT] * 300}).json()
    rows = b'{"completion": "42", "reference": "42"}\n' * 300
    stream = secure.client.post("/v1/grade", content=rows, headers={"Content-Type": "application/x-ndjson"})

    assert {one["verdict"] for one in answer["results"]} == {"correct"}
    assert '"verdicts": 300' in stream.text.splitlines()[-1]


def test_a_client_with_another_authority_and_one_without_tls_are_not_served(secure: Any, folder: Path):
    other, _ = write_certificate(folder, "other")

    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(secure.url + "/healthz", verify=trusting(other))
    with pytest.raises(httpx.TransportError):
        httpx.get(secure.url.replace("https", "http") + "/healthz")
    assert secure.client.get("/healthz").status_code == 200
    assert not [line for line in secure.log() if "Traceback" in line]


def test_versions_before_1_2_are_refused(secure: Any):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with (
        socket.create_connection(("127.0.0.1", secure.port), timeout=WAIT) as raw,
        pytest.raises(OSError),  # noqa: PT011 (an alert or a reset, as the version of OpenSSL will have it)
    ):
        context.wrap_socket(raw).close()


def test_a_head_that_is_too_long_and_a_body_that_is_too_slow_are_refused_over_tls(
    secure: Any, files: tuple[Path, Path]
):
    with connected(secure, files[0]) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * 40_000)
        assert everything_from(connection).startswith(b"HTTP/1.1 431 ")
    with connected(secure, files[0]) as connection:
        connection.sendall(
            b"POST /v1/grade HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 9\r\n\r\n{"
        )
        assert everything_from(connection).startswith(b"HTTP/1.1 408 ")


def test_a_connection_that_never_shakes_hands_is_closed(secure: Any):
    with socket.create_connection(("127.0.0.1", secure.port), timeout=WAIT) as silent:
        assert silent.recv(1) == b""  # After HEAD_SECONDS.


def test_a_client_that_hangs_up_leaves_nothing_behind(
    secure: Any, files: tuple[Path, Path], tmp_path: Path, wait_for: WaitFor
):
    body = b'{"items": [{"completion": "wait for %b", "reference": "1"}]}' % os.fsencode(tmp_path / "go")
    with connected(secure, files[0]) as connection:
        connection.sendall(
            b"POST /v1/grade HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        wait_for((tmp_path / "go.waits").exists)
    wait_for(lambda: 'status="499"' in secure.client.get("/metrics").text)
    (tmp_path / "go").touch()


def test_a_renewed_certificate_is_shown_after_sighup_and_open_connections_stay(
    secure: Any, files: tuple[Path, Path], folder: Path, wait_for: WaitFor
):
    old = files[0].read_bytes(), files[1].read_bytes()
    keep = folder / "keep.crt"
    keep.write_bytes(old[0])
    new = write_certificate(folder, "renewed")
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    try:
        with connected(secure, keep) as connection:
            files[0].write_bytes(new[0].read_bytes())
            secure.process.send_signal(signal.SIGHUP)  # The key is still the old one.
            wait_for(lambda: any("stays." in line for line in secure.log()))
            assert (
                'successful{file="certificate"} 0.0' in httpx.get(secure.url + "/metrics", verify=trusting(keep)).text
            )
            files[1].write_bytes(new[1].read_bytes())
            secure.process.send_signal(signal.SIGHUP)
            wait_for(lambda: any("read again." in line for line in secure.log()))
            connection.sendall(request)
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            assert answer.status == 200
        assert httpx.get(secure.url + "/healthz", verify=trusting(new[0])).status_code == 200
        with pytest.raises(httpx.ConnectError):
            httpx.get(secure.url + "/healthz", verify=trusting(keep))
    finally:
        files[0].write_bytes(old[0])
        files[1].write_bytes(old[1])


def test_files_that_cannot_be_used_are_refused_by_name(files: tuple[Path, Path], folder: Path):
    certfile, keyfile = files
    _, other_key = write_certificate(folder, "stranger")
    _, locked = write_certificate(folder, "locked", password=b"secret")
    text = folder / "text.crt"
    text.write_text("no certificate")
    none = folder / "none"
    for pair, named in (
        ((none, keyfile), [none]),
        ((certfile, none), [none]),
        *((pair, pair) for pair in ((certfile, other_key), (text, keyfile), (certfile, text), (certfile, locked))),
        ((certfile, None), [certfile, "key"]),
    ):
        with pytest.raises(CertificateRefused) as refusal:
            Certificate(*pair)
        assert_refusal(str(refusal.value), *map(str, named))


def test_the_command_refuses_what_it_cannot_serve_with(in_process: Any, files: tuple[Path, Path]):
    for flags, named in ((["--certfile", "/none"], "/none"), (["--keyfile", str(files[1])], "--certfile")):
        code, printed, said = in_process("serve", "--port", "0", *flags)
        assert (code, printed) == (2, "")
        assert_refusal(said, named)


def test_it_drains_and_ends_with_0(serve: Callable[..., Any], files: tuple[Path, Path]):
    server = started(serve, files)
    assert server.client.get("/healthz").status_code == 200
    server.process.send_signal(signal.SIGTERM)

    assert server.process.wait(timeout=WAIT) == 0
    assert not [line for line in server.log() if "Traceback" in line]
