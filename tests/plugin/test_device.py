"""Which device ``--device auto`` is."""

import pytest

from openrlhf_gtpo import device


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, dict[str, float]]]:
    """Those of the cluster of RAY_ADDRESS; this machine has no GPU."""
    found: list[dict[str, dict[str, float]]] = []
    monkeypatch.setattr(device, "torch_finds_gpu", lambda: False)
    monkeypatch.setattr(device, "_living_nodes", lambda address: found)
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    return found


@pytest.mark.parametrize("wanted", ["cpu", "gpu"])
def test_a_device_that_is_named_is_taken_without_a_look(wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def never() -> bool:
        raise AssertionError("nobody has to look for a GPU")

    monkeypatch.setattr(device, "torch_finds_gpu", never)
    assert device.choose_device(wanted) == wanted


def test_a_gpu_on_one_node_of_the_jobs_cluster_is_a_gpu(nodes: list[dict[str, dict[str, float]]]) -> None:
    nodes += [{"Resources": {"CPU": 8.0}}, {"Resources": {"CPU": 8.0, "GPU": 1.0}}]
    assert device.choose_device("auto") == "gpu"


def test_a_cluster_without_gpus_is_a_cpu(nodes: list[dict[str, dict[str, float]]]) -> None:
    nodes += [{"Resources": {"CPU": 8.0}}, {"Resources": {"CPU": 8.0, "GPU": 0.0}}]
    assert device.choose_device("auto") == "cpu"


@pytest.mark.parametrize(("version", "finds"), [("2.9.0+cpu", False), ("2.9.0", True)])
def test_torch_of_a_cpu_build_is_not_asked(version: str, finds: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(device.importlib.metadata, "version", lambda name: version)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert device.torch_finds_gpu() is finds
