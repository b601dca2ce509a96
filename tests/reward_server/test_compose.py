"""``docker-compose.yml``: what it promises about safety, and that the tool reads it."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from math_reward.settings import Settings, SettingsError, load_settings

TOP = Path(__file__).parents[2]
DOCKERFILE = (TOP / "reward_server" / "Dockerfile").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def reward() -> dict[str, Any]:
    """The service of the file, as it is written."""
    content = yaml.safe_load((TOP / "docker-compose.yml").read_text(encoding="utf-8"))
    assert list(content["services"]) == ["reward"]
    return content["services"]["reward"]


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


def seconds(text: str) -> int:
    return int(re.fullmatch(r"(\d+)s", text)[1])  # type: ignore[index]


def test_it_is_nobody_who_can_write_nothing_and_become_nothing(reward: dict[str, Any]):
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", reward["user"])
    assert reward["read_only"] is True
    assert reward["cap_drop"] == ["ALL"]
    assert "cap_add" not in reward
    assert reward["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "volumes", "network_mode", "pid", "ipc", "devices"} & set(reward)
    (tmp,) = reward["tmpfs"]
    assert tmp.startswith("/tmp:size=")
    assert "noexec" in tmp


def test_it_has_limits_on_memory_processes_and_logs(reward: dict[str, Any]):
    assert re.fullmatch(r"\$\{MATH_REWARD_MEMORY:-\d+g\}", reward["mem_limit"])
    assert 64 <= reward["pids_limit"] <= 1024
    assert set(reward["logging"]["options"]) == {"max-size", "max-file"}


def test_it_is_healthy_when_it_is_ready_and_comes_back_when_it_dies(reward: dict[str, Any]):
    health = reward["healthcheck"]
    assert health["test"][0] == "CMD"
    assert "/readyz" in health["test"][-1]
    assert seconds(health["timeout"]) < seconds(health["interval"])
    compile(health["test"][-1], "healthcheck", "exec")
    assert reward["restart"] == "unless-stopped"
    assert reward["init"] is True


def test_it_is_given_the_time_that_draining_takes(reward: dict[str, Any]):
    assert seconds(reward["stop_grace_period"]) >= Settings(insecure=True).drain_seconds + 5


def test_the_settings_that_it_names_are_settings_of_the_service(reward: dict[str, Any]):
    example = (TOP / "reward_server" / "token.env.example").read_text(encoding="utf-8")
    of_the_service = {f"MATH_REWARD_{name.upper()}" for name in Settings.model_fields}
    of_compose = {"MATH_REWARD_MEMORY", "MATH_REWARD_PORTS"}
    passed_on = {entry.partition("=")[0] for entry in reward["environment"]}
    explained = set(re.findall(r"^#(MATH_REWARD_\w+)=", example, re.MULTILINE))

    assert passed_on <= of_the_service
    assert explained == passed_on | of_compose
    assert re.findall(r"^[^#\n]", example, re.MULTILINE) == []  # To copy it changes nothing, and it holds no secret.


def test_the_image_has_no_root_no_torch_and_no_host_of_its_own():
    instructions = [line for line in DOCKERFILE.splitlines() if line and not line.startswith("#")]

    assert "USER 10001:10001" in instructions
    assert '"./reward_server[server,client]"' in DOCKERFILE
    assert "torch" not in "\n".join(instructions)
    assert "index-url" not in DOCKERFILE
    assert "://" not in DOCKERFILE


def test_what_docker_gets_to_see_is_named_one_by_one():
    lines = (TOP / ".dockerignore").read_text(encoding="utf-8").split("\n")
    patterns = [line for line in lines if line and not line.startswith("#")]
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)

    assert patterns[0] == "*"
    assert {f"!{source}" for line in copied for source in line.split()} == {p for p in patterns if p.startswith("!")}
    assert "**/*.env" in patterns
    assert all((TOP / source).exists() for line in copied for source in line.split())


def test_compose_takes_the_file_in_a_fresh_clone_and_publishes_to_this_machine_alone(tmp_path: Path):
    service = configured(tmp_path)

    assert published(service) == "127.0.0.1:8000:8000/tcp"
    assert service["environment"]["MATH_REWARD_ADDRESS"] == "127.0.0.1"
    assert not service["environment"].get("MATH_REWARD_TOKEN")
    assert service["read_only"] is True
    assert service["user"] == "10001:10001"


def test_compose_passes_on_the_token_and_the_ports(tmp_path: Path):
    service = configured(tmp_path, MATH_REWARD_TOKEN="t", MATH_REWARD_ADDRESS="0.0.0.0", MATH_REWARD_PORTS="9000-9001")

    assert service["environment"]["MATH_REWARD_TOKEN"] == "t"
    assert published(service) == "0.0.0.0:9000-9001:8000/tcp"


def test_compose_reads_the_example_where_it_was_copied_to(tmp_path: Path):
    example = (TOP / "reward_server" / "token.env.example").read_text(encoding="utf-8")
    (tmp_path / ".env").write_text(example.replace("#MATH_REWARD_TOKEN=", "MATH_REWARD_TOKEN=from-the-file"))

    assert configured(tmp_path)["environment"]["MATH_REWARD_TOKEN"] == "from-the-file"


def test_other_containers_cannot_reach_it_unless_they_are_let_and_it_has_a_token(tmp_path: Path):
    content = yaml.safe_load((TOP / "docker-compose.yml").read_text(encoding="utf-8"))

    assert list(content["networks"]) == ["default"]
    assert content["networks"]["default"]["driver_opts"] == {
        "com.docker.network.bridge.enable_icc": "${MATH_REWARD_FROM_CONTAINERS:-false}"
    }
    assert "networks" not in content["services"]["reward"]
    assert configured(tmp_path)["environment"]["MATH_REWARD_FROM_CONTAINERS"] == "false"


def test_compose_makes_a_secret_of_the_file_that_holds_the_token(tmp_path: Path):
    content = yaml.safe_load((TOP / "docker-compose.yml").read_text(encoding="utf-8"))
    assert content["secrets"]["reward_token"]["file"] == "${MATH_REWARD_TOKEN_FILE:-/dev/null}", "which is no token"
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
        assert load_settings(host="0.0.0.0").tokens == {}
    else:
        with pytest.raises(SettingsError, match="set MATH_REWARD_TOKEN"):
            load_settings(host="0.0.0.0")
    monkeypatch.setenv("MATH_REWARD_TOKEN", "t")
    assert load_settings(host="0.0.0.0").bearer_token == "t"


def test_the_image_itself_starts_the_service_and_no_shell_decides(reward: dict[str, Any]):
    assert not {"command", "entrypoint"} & set(reward)
    assert 'CMD ["serve", "--host", "0.0.0.0", "--port", "8000"]' in DOCKERFILE


def test_with_the_file_for_tls_it_has_a_certificate_and_asks_itself_over_https(tmp_path: Path):
    for name in ("service.crt", "service.key", "reward.token"):
        (tmp_path / name).touch()
    variables = {"CERTIFICATE": "./service.crt", "KEY": "./service.key", "MATH_REWARD_TOKEN_FILE": "./reward.token"}
    service = configured(
        tmp_path, TOP / "docs" / "examples" / "compose.tls.yml", MATH_REWARD_ADDRESS="0.0.0.0", **variables
    )
    mounted = {secret["source"] for secret in service["secrets"]}
    assert mounted == {"reward_token", "certificate", "key"}
    environment = service["environment"]
    assert environment["MATH_REWARD_TOKEN_FILE"] == "/run/secrets/reward_token"
    settings = {f"MATH_REWARD_{name}": environment[f"MATH_REWARD_{name}"] for name in ("CERTFILE", "KEYFILE")}
    assert settings == {
        "MATH_REWARD_CERTFILE": "/run/secrets/certificate",
        "MATH_REWARD_KEYFILE": "/run/secrets/key",
    }
    (asked,) = (part for part in service["healthcheck"]["test"] if "readyz" in part)
    compile(asked, "healthcheck", "exec")
    assert "https://127.0.0.1:8000/readyz" in asked
