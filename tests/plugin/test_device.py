"""Which device ``--device auto`` is."""

import pytest

from openrlhf_gtpo import device


@pytest.mark.parametrize(
    ("wanted", "gpus", "chosen"), [("auto", 1.0, "gpu"), ("auto", 0.0, "cpu"), ("cpu", 1.0, "cpu")]
)
def test_a_gpu_on_one_node_of_the_jobs_cluster_is_a_gpu_unless_a_device_is_named(
    wanted: str, gpus: float, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [{"Resources": {"CPU": 8.0}}, {"Resources": {"CPU": 8.0, "GPU": gpus}}]
    monkeypatch.setattr(device, "torch_finds_gpu", lambda: False)
    monkeypatch.setattr(device, "_living_nodes", lambda address: nodes)
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    assert device.choose_device(wanted) == chosen


@pytest.mark.parametrize(
    "address", ["127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:999999999999", "localhost", "http://a:1"]
)
def test_no_cluster_answers_where_none_is_or_can_be(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    assert device.nodes_of(address) is None


@pytest.mark.parametrize(("version", "finds"), [("2.9.0+cpu", False), ("2.9.0", True)])
def test_torch_of_a_cpu_build_is_not_asked(version: str, finds: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(device.importlib.metadata, "version", lambda name: version)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert device.torch_finds_gpu() is finds
