"""The settings: where they come from and what is refused."""

from pathlib import Path

import pytest

from math_reward.settings import SettingsError, load_settings

from ..refusals import assert_refusal

SECRET = "a-secret-for-tests"


def test_by_default_it_listens_on_loopback_without_a_token():
    settings = load_settings()

    assert (settings.host, settings.tokens, settings.insecure) == ("127.0.0.1", [], False)
    assert settings.workers >= 1


def test_a_flag_comes_before_the_environment_and_the_environment_before_the_default(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MATH_REWARD_PORT", "1234")
    monkeypatch.setenv("MATH_REWARD_DEADLINE", "2.5")

    settings = load_settings(port=5678, deadline=None)

    assert (settings.port, settings.deadline, settings.max_items) == (5678, 2.5, 4096)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.org"])
def test_an_address_that_others_can_reach_needs_a_token_or_insecure(host: str, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(SettingsError, match=f"Everybody who can reach {host} could use the service"):
        load_settings(host=host)

    assert load_settings(host=host, insecure=True).tokens == []
    monkeypatch.setenv("MATH_REWARD_TOKEN", SECRET)
    assert load_settings(host=host).tokens == [SECRET]


def test_a_token_file_has_a_token_on_each_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("MATH_REWARD_TOKEN_FILE", str(tmp_path / "token"))

    for text, tokens in ((f"{SECRET}\n", [SECRET]), (f"\n{SECRET} \r\nanother\n", [SECRET, "another"])):
        (tmp_path / "token").write_text(text)
        assert load_settings().tokens == tokens


@pytest.mark.parametrize("variable", ["MATH_REWARD_TOKEN", "MATH_REWARD_TOKEN_FILE"])
@pytest.mark.parametrize("text", ["", "trainer s3cret", "# comment\ns3cret", "s3crét", "a\ns3c\x7fr3t"])
def test_a_token_that_cannot_be_meant_is_refused_without_showing_it(
    text: str, variable: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    (tmp_path / "token").write_text(text)
    monkeypatch.setenv(variable, text if variable == "MATH_REWARD_TOKEN" else str(tmp_path / "token"))

    with pytest.raises(SettingsError) as refusal:
        load_settings()

    assert_refusal(str(refusal.value), variable)
    assert "s3c" not in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("WORKRES", "did you mean workers?"),
        ("MAX_BODY", "did you mean max_body_bytes"),
        ("LISTEN_PORT", "math-reward serve --help"),
        ("SERVICE", "math-reward serve --help"),
    ],
)
def test_a_variable_that_is_no_setting_is_refused_with_the_nearest_that_is_one(
    name: str, named: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(f"MATH_REWARD_{name}", SECRET)

    with pytest.raises(SettingsError) as refusal:
        load_settings(port=1)

    assert_refusal(str(refusal.value), f"MATH_REWARD_{name}", named)
    assert SECRET not in str(refusal.value)


def test_variables_of_kubernetes_and_of_compose_stop_no_start(monkeypatch: pytest.MonkeyPatch):
    """Kubernetes describes a service named math-reward, or math-reward-2, to every container of its namespace."""
    for service in ("MATH_REWARD", "MATH_REWARD_2"):
        monkeypatch.setenv(f"{service}_SERVICE_HOST", "10.0.0.7")
        monkeypatch.setenv(f"{service}_SERVICE_PORT", "8000")
        monkeypatch.setenv(f"{service}_SERVICE_PORT_HTTP", "8000")
        monkeypatch.setenv(f"{service}_PORT", "tcp://10.0.0.7:8000")
        monkeypatch.setenv(f"{service}_PORT_9000_TCP", "tcp://10.0.0.7:9000")
        for part in ("PROTO", "PORT", "ADDR"):
            monkeypatch.setenv(f"{service}_PORT_9000_TCP_{part}", "1")
    monkeypatch.setenv("MATH_REWARD_PORTS", "8000-8001")
    monkeypatch.setenv("MATH_REWARD_MEMORY", "4g")
    monkeypatch.setenv("OUR_MATH_REWARD_URL", "http://10.0.0.7")

    assert [load_settings().port, load_settings(port=1).port] == [8000, 1]


def test_the_token_is_never_shown(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MATH_REWARD_TOKEN", SECRET)
    settings = load_settings()

    assert settings.tokens == [SECRET]
    assert SECRET not in repr(settings) + str(settings) + settings.model_dump_json()
    with pytest.raises(SettingsError) as refusal:
        load_settings(port=-1)
    assert SECRET not in str(refusal.value)


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"PORT": "70000"}, ["port (MATH_REWARD_PORT)"]),
        ({"WORKERS": "0", "DEADLINE": "0"}, ["workers (MATH_REWARD_WORKERS)", "deadline (MATH_REWARD_DEADLINE)"]),
        ({"WORKERS": "1025", "DEADLINE": "601"}, ["workers", "1024", "deadline", "600"]),
        ({"DEADLINE": "nan"}, ["deadline"]),
        ({"TOKEN": " "}, ["MATH_REWARD_TOKEN"]),
        ({"TOKEN": "x", "TOKEN_FILE": "y"}, ["MATH_REWARD_TOKEN", "MATH_REWARD_TOKEN_FILE", "not both"]),
        ({"TOKEN_FILE": "no/such/file"}, ["MATH_REWARD_TOKEN_FILE", "no/such/file"]),
    ],
)
def test_a_refusal_names_the_setting(environment: dict[str, str], named: list[str], monkeypatch: pytest.MonkeyPatch):
    for name, value in environment.items():
        monkeypatch.setenv(f"MATH_REWARD_{name}", value)

    with pytest.raises(SettingsError) as refusal:
        load_settings()

    assert_refusal(str(refusal.value), *named)
