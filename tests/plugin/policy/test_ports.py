"""The port of DeepSpeed's ranks is none that an outgoing connection gets."""

import socket
from pathlib import Path

import pytest
from ray.scripts.scripts import start

from openrlhf_gtpo.policy import ports
from openrlhf_gtpo.policy.actor import PolicyActor, ReferenceActor


def test_it_is_free_and_below_the_ports_of_outgoing_connections() -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        lowest = int(ports.EPHEMERAL.read_text().split()[0]) if ports.EPHEMERAL.exists() else taken.getsockname()[1]
    for actor in (PolicyActor, ReferenceActor):
        port = actor._get_free_port()
        assert ports.FIRST <= port < lowest
        with socket.socket() as listener:
            listener.bind(("", port))
            listener.listen()


def test_it_is_above_rays_ports_and_any_other_where_every_port_may_be_an_outgoing_connections(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    defaults = {option.name: option.default for option in start.params}
    assert (defaults["min_worker_port"], defaults["max_worker_port"]) == (10_002, 19_999)
    assert defaults["max_worker_port"] < ports.FIRST
    monkeypatch.setattr(ports, "EPHEMERAL", tmp_path / "ip_local_port_range")
    assert PolicyActor._get_free_port() >= ports.FIRST, "where Linux does not say"
    ports.EPHEMERAL.write_text("1024\t65535\n")
    assert PolicyActor._get_free_port() > 0
