"""Several tokens with names: what a file may hold, whom they let in, and how they are changed without a restart."""

import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from math_reward.settings import SettingsError, load_settings
from math_reward.tokens import MAX_TOKENS, Tokens, tokens_of

from ..refusals import assert_refusal
from .conftest import WaitFor


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("secret\n", {"secret": None}),
        ("\n secret \n\n", {"secret": None}),
        ("trainer one\n", {"one": "trainer"}),
        ("trainer one\n\neval\ttwo\r\n", {"one": "trainer", "two": "eval"}),
        ("trainer old\ntrainer new\n", {"old": "trainer", "new": "trainer"}),
    ],
)
def test_one_word_is_a_token_and_any_other_line_a_name_and_a_token(text: str, tokens: dict[str, str | None]):
    assert tokens_of(text) == tokens


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "empty"),
        ("# of the trainers\na s3cret", "comment"),
        ("a s3cret\ns3cret2", "line 2"),
        ("a s3cret more", "line 1"),
        ("a/b s3cret\nc d", "name on line 1"),
        ("a s3cret\nb s3crét", "token on line 2"),
        ("a s3cret\nb s3cret", "token on line 2"),
        ("".join(f"n{i} t{i}\n" for i in range(MAX_TOKENS + 1)), f"{MAX_TOKENS + 1} tokens"),
    ],
)
def test_a_bad_file_is_refused_with_the_line_and_without_the_token(
    text: str, named: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    (tmp_path / "tokens").write_text(text)
    monkeypatch.setenv("MATH_REWARD_TOKEN_FILE", str(tmp_path / "tokens"))

    with pytest.raises(SettingsError) as refusal:
        load_settings()

    assert_refusal(str(refusal.value), "MATH_REWARD_TOKEN_FILE", named)
    assert "s3cr" not in str(refusal.value)


@pytest.mark.parametrize(
    ("header", "owner"),
    [
        (b"Bearer one", (True, "trainer")),
        (b"bearer  two ", (True, "eval")),
        (b"Bearer three", (False, None)),
        (b"Bearer on", (False, None)),
        (b"Bearer ", (False, None)),
        (b"Basic one", (False, None)),
        (b"", (False, None)),
    ],
)
def test_a_header_lets_in_the_owner_of_its_token(header: bytes, owner: tuple[bool, str | None]):
    assert Tokens({"one": "trainer", "two": "eval"}).owner(header) == owner


def test_every_token_is_compared_whichever_it_is(monkeypatch: pytest.MonkeyPatch):
    compared: list[tuple[int, int]] = []
    monkeypatch.setattr(
        "math_reward.tokens.hmac.compare_digest", lambda a, b: compared.append((len(a), len(b))) or a == b
    )
    tokens = Tokens({"one": "a", "a much longer token": "b", "three": "c"})

    for header in (b"Bearer one", b"Bearer three", b"Bearer x"):
        compared.clear()
        tokens.owner(header)
        assert compared == [(32, 32)] * 3


def test_tokens_are_rotated_and_counted_without_a_restart(
    serve: Callable[..., Any], tmp_path: Path, wait_for: WaitFor
):
    path = tmp_path / "tokens"
    path.write_text("trainer old-1\nevaluation other-1\n")
    server = serve("--workers", "1", "--access-log", MATH_REWARD_TOKEN_FILE=str(path)).when_ready()

    def status(token: str) -> int:
        headers = {"Authorization": f"Bearer {token}"}
        return server.client.post("/v1/grade", json={"items": []}, headers=headers).status_code

    def read_again(text: str, said: str) -> None:
        path.write_text(text)
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: any(said in line for line in server.log()))

    def last_was_used() -> bool:
        metrics = server.client.get("/metrics").text
        return re.findall(r"^math_reward_last_reload_successful(.*)", metrics, re.MULTILINE) == ['{file="tokens"} 1.0']

    assert last_was_used()
    assert [status(token) for token in ("old-1", "new-2", "other-1", "wrong")] == [200, 401, 200, 401]
    read_again("trainer old-1\ntrainer new-2\nevaluation other-1\n", "trainer (2 tokens),evaluation.")
    assert [status(token) for token in ("old-1", "new-2", "other-1")] == [200, 200, 200]
    read_again("trainer new-2\nevaluation\n", "line 2")
    assert not last_was_used()
    assert [status(token) for token in ("old-1", "new-2", "other-1")] == [200, 200, 200]
    read_again("", f"{path}, has no token.")
    read_again("trainer", "one word")
    assert [status(token) for token in ("old-1", "new-2", "other-1")] == [200, 200, 200]
    read_again("trainer new-2\n", "again: trainer.")
    assert last_was_used()
    assert [status(token) for token in ("old-1", "new-2", "other-1")] == [401, 200, 401]

    metrics = server.client.get("/metrics").text
    assert 'math_reward_token_requests_total{status="200",token="trainer"} 8.0' in metrics
    assert 'math_reward_token_requests_total{status="200",token="evaluation"} 4.0' in metrics
    wait_for(lambda: sum('"token": "trainer"' in line for line in server.log()) == 8)
    everything = metrics + "\n".join(server.log())
    assert not [token for token in ("old-1", "new-2", "other-1", "wrong") if token in everything]
