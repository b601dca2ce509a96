"""``docker-compose.yml``: what it promises about safety, and what compose makes of a user's variables."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from math_reward.settings import Settings, SettingsError, load_settings

TOP = Path(__file__).parents[2]


def tool() -> list[str]:
    """Docker's compose, whichever of its two forms is here."""
    if shutil.which("docker"):
        plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, timeout=60)
        if plugin.returncode == 0:
            return ["docker", "compose"]
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    pytest.skip("The file is shown to docker compose: install docker-compose, or Docker's compose plugin.")


def configured(folder: Path, *others: Path, **environment: str) -> dict[str, Any]:
    """The service as compose understands it in a fresh clone, with only these variables set.

    Args:
        folder: for a copy of the file.
        others: files given beside it.
        environment: the variables.
    """
    shutil.copy(TOP / "docker-compose.yml", folder)
    named = [part for file in ("docker-compose.yml", *others) for part in ("-f", str(file))] if others else []
    path = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(folder)}
    result = subprocess.run(
        [*tool(), *named, "config"], cwd=folder, env=path | environment, capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stderr
    return yaml.safe_load(result.stdout)["services"]["reward"]


def published(service: dict[str, Any]) -> str:
    """Where the port of the service is published, in one form for both tools."""
    (port,) = service["ports"]
    return port if isinstance(port, str) else f"{port['host_ip']}:{port['published']}:{port['target']}/tcp"


def test_it_is_nobody_who_can_write_nothing_become_nothing_and_take_only_so_much():
    content = yaml.safe_load((TOP / "docker-compose.yml").read_text(encoding="utf-8"))
    reward = content["services"]["reward"]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", reward["user"])
    assert reward["read_only"] is True
    assert reward["cap_drop"] == ["ALL"]
    assert reward["security_opt"] == ["no-new-privileges:true"]
    assert {"mem_limit", "pids_limit"} <= set(reward)
    assert not {"cap_add", "privileged", "volumes", "network_mode", "pid", "ipc", "devices"} & set(reward)
    between_containers = content["networks"]["default"]["driver_opts"]["com.docker.network.bridge.enable_icc"]
    assert between_containers == "${MATH_REWARD_FROM_CONTAINERS:-false}"


def test_everybody_who_stops_the_service_gives_it_the_time_that_its_drain_takes():
    page = (TOP / "docs" / "reward-service.md").read_text(encoding="utf-8")
    compose = yaml.safe_load((TOP / "docker-compose.yml").read_text(encoding="utf-8"))["services"]["reward"]
    seconds = Settings.model_fields["drain_seconds"].default + 10
    assert f"have `--drain-seconds` ({seconds - 10:g}). Allow it {seconds:g} seconds." in page
    assert f"TimeoutStopSec={seconds:g}\n" in page
    assert compose["stop_grace_period"] == f"{seconds:g}s"
    embedded = (TOP / "plugin" / "openrlhf_gtpo" / "rewards" / "embedded.py").read_text(encoding="utf-8")
    assert f"\nSTOP_SECONDS = {seconds}  " in embedded


def test_compose_takes_the_file_in_a_fresh_clone_and_publishes_to_this_machine_alone(tmp_path: Path):
    service = configured(tmp_path)

    assert published(service) == "127.0.0.1:8000:8000/tcp"
    assert service["environment"]["MATH_REWARD_ADDRESS"] == "127.0.0.1"
    assert service["environment"]["MATH_REWARD_FROM_CONTAINERS"] == "false"
    assert not service["environment"].get("MATH_REWARD_TOKEN")
    assert service["read_only"] is True
    assert service["user"] == "10001:10001"


def test_compose_makes_a_secret_of_the_file_that_holds_the_token(tmp_path: Path):
    (tmp_path / "reward.token").write_text("secret")
    service = configured(tmp_path, MATH_REWARD_TOKEN_FILE="./reward.token")

    assert "reward_token" in str(service["secrets"])
    assert service["environment"]["MATH_REWARD_TOKEN_FILE"] == "/run/secrets/reward_token"
    assert "secret" not in service["environment"].values()


LOOPBACK = {"MATH_REWARD_ADDRESS": "127.0.0.1", "MATH_REWARD_FROM_CONTAINERS": "false"}
NO_TOKEN = {"MATH_REWARD_TOKEN": "", "MATH_REWARD_TOKEN_FILE": "/dev/null"}  # which stands for no file


@pytest.mark.parametrize(
    ("environment", "may_run"),
    [
        (LOOPBACK, True),
        (LOOPBACK | NO_TOKEN, True),
        (LOOPBACK | {"MATH_REWARD_FROM_CONTAINERS": "true"}, False),
        (LOOPBACK | NO_TOKEN | {"MATH_REWARD_FROM_CONTAINERS": "true"}, False),
        ({"MATH_REWARD_ADDRESS": "0.0.0.0", "MATH_REWARD_FROM_CONTAINERS": "false"}, False),
        ({"MATH_REWARD_ADDRESS": "", "MATH_REWARD_FROM_CONTAINERS": "false"}, False),
        ({"MATH_REWARD_ADDRESS": "127.0.0.1"}, False),
        ({}, False),
    ],
)
def test_only_where_this_machine_alone_can_reach_it_may_it_run_without_a_token(
    environment: dict[str, str], may_run: bool, monkeypatch: pytest.MonkeyPatch
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    if may_run:
        assert load_settings(host="0.0.0.0").tokens == []
    else:
        with pytest.raises(SettingsError, match="set MATH_REWARD_TOKEN"):
            load_settings(host="0.0.0.0")
    monkeypatch.setenv("MATH_REWARD_TOKEN", "t")
    assert load_settings(host="0.0.0.0").tokens == ["t"]


def test_behind_the_proxy_the_service_is_on_this_machine_alone_and_needs_a_token(tmp_path: Path):
    (tmp_path / "reward.token").write_text("secret")
    proxied = TOP / "docs" / "examples" / "compose.proxy.yml"
    service = configured(tmp_path, proxied, SITE="reward.example.org", MATH_REWARD_TOKEN_FILE="./reward.token")

    assert published(service) == "127.0.0.1:8000:8000/tcp"
    assert (TOP / "docs" / "examples" / "Caddyfile").is_file()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MATH_REWARD_ADDRESS", "MATH_REWARD_FROM_CONTAINERS"):
            patch.setenv(name, service["environment"][name])
        with pytest.raises(SettingsError, match="set MATH_REWARD_TOKEN"):
            load_settings(host="0.0.0.0")
