"""The port of DeepSpeed's ranks is none that an outgoing connection gets."""

import socket
from pathlib import Path

import pytest

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


def test_where_every_port_may_be_an_outgoing_connections_openrlhfs_way_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    everything = tmp_path / "ip_local_port_range"
    everything.write_text("1024\t65535\n")
    monkeypatch.setattr(ports, "EPHEMERAL", everything)
    assert PolicyActor._get_free_port() > 0


def test_it_is_above_the_ports_of_rays_workers() -> None:
    from ray.scripts.scripts import start

    defaults = {option.name: option.default for option in start.params}
    assert (defaults["min_worker_port"], defaults["max_worker_port"]) == (10_002, 19_999)
    assert defaults["max_worker_port"] < ports.FIRST
