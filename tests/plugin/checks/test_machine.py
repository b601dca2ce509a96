"""GPU, Ray and disk: real folders, a real cluster, and an address that never answers."""

import json
import shutil
import socket
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from openrlhf_gtpo.checks import machine
from openrlhf_gtpo.checks.findings import Finding
from openrlhf_gtpo.checks.isolated import ProbeFailed
from openrlhf_gtpo.checks.machine import Cluster, ask_cluster, check_disk, check_gpu, check_memory, check_ray
from openrlhf_gtpo.settings import Settings

from ...refusals import assert_refusal

# Disk

Ask = Callable[..., Settings]


@pytest.fixture
def asked(settings: Ask) -> Ask:
    """A run on GPUs that keeps three checkpoints to resume from."""
    return lambda *flags: settings("--ckpt.save_steps", 1, *flags).changed({"device": "gpu"})


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the free space, in GiB."""
    usage = namedtuple("usage", "total used free")
    return lambda gib: monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(0, 0, int(gib * 2**30)))


def test_a_folder_that_does_not_exist_yet_is_tried_at_the_one_that_does(asked: Ask, tmp_path: Path) -> None:
    found = check_disk(asked("--ckpt.output_dir", tmp_path / "runs" / "first"))
    assert found.state == "ok"
    assert f"{tmp_path / 'runs' / 'first'} can be written" in found.sentence
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    found = check_disk(asked("--ckpt.output_dir", tmp_path / "file" / "out"))
    assert found.state == "fault"
    assert_refusal(found.sentence, f"{tmp_path / 'file'} ", "(Not a directory)", "--ckpt.output_dir")


def test_a_policy_is_as_large_as_its_files_headers_say(asked: Ask, tiny_model: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    weights = sum(weight.numel() for weight in AutoModelForCausalLM.from_pretrained(tiny_model).parameters())
    assert machine.parameters(tiny_model) == weights
    assert machine.parameters(tmp_path) == 0
    (tmp_path / "pytorch_model-00001-of-00001.bin").write_bytes(bytes(1000))
    assert machine.parameters(tmp_path) == 500


@pytest.mark.parametrize(
    ("gib", "state", "need"), [(5.9, "fault", "6.0 GiB"), (6.1, "warning", "42.0 GiB"), (42.1, "ok", "42.0 GiB")]
)
def test_free_space_is_compared_with_what_checkpoints_need(
    gib: float, state: str, need: str, asked: Ask, tmp_path: Path, free: Callable[[float], None]
) -> None:
    """2^30 parameters: 2 GiB of weights, 14 GiB with the optimiser's state."""
    header = json.dumps({"__metadata__": {"format": "pt"}, "weight": {"dtype": "BF16", "shape": [2**20, 2**10]}})
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header.encode())
    free(gib)
    found = check_disk(asked("--ckpt.output_dir", tmp_path / "out", "--actor.model_name_or_path", tmp_path))
    assert found.state == state
    assert_refusal(found.sentence, " 3 checkpoints ", need)


def test_a_model_that_is_not_here_counts_by_its_shape(
    asked: Ask, tmp_path: Path, free: Callable[[float], None]
) -> None:
    """7,615,616,512 parameters, of 14 bytes in each of three checkpoints."""
    free(100)
    flags = ["--actor.model_name_or_path", "Qwen/Qwen2.5-7B", "--ckpt.output_dir", tmp_path / "out"]
    found = check_disk(asked(*flags))
    assert (found.state, "297.9 GiB" in found.sentence) == ("warning", True)
    found = check_disk(asked(*flags, "--ckpt.save_steps", -1))
    assert (found.state, "--ckpt.save_steps" in found.sentence) == ("ok", True)


# Memory

SEVEN_BILLION = ["--actor.model_name_or_path", "Qwen/Qwen2.5-7B", "--data.max_len", 6144, "--vllm.num_engines", 8]
SEVEN_BILLION += ["--ds.zero_stage", 3, "--train.colocate_all", "--vllm.enable_sleep", "--ds.enable_sleep"]
SEVEN_BILLION += ["--train.micro_batch_size", 1, "--rollout.micro_batch_size", 1, "--vllm.max_num_seqs", 256]
SEVEN_BILLION += ["--vllm.gpu_memory_utilization", 0.6, "--actor.gradient_checkpointing_enable"]
SEVEN_BILLION += ["--algo.kl.init_coef", 0]


def test_a_model_that_may_not_fit_is_a_warning_and_one_that_is_not_known_is_not_checked(
    asked: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_GB", "80")
    found = check_memory(asked(*SEVEN_BILLION))
    assert (found.state, " on each of 8 GPUs" in found.sentence) == ("ok", True)
    monkeypatch.setenv("GPU_GB", "24")
    found = check_memory(asked(*SEVEN_BILLION, "--actor.num_gpus_per_node", 1))
    assert found.state == "warning"
    assert_refusal(found.sentence, "141.9 GiB", "24.0")
    on_a_cpu = asked(*SEVEN_BILLION).changed({"device": "cpu"})
    for settings in (on_a_cpu, asked(), asked("--actor.model_name_or_path", "nobody/has-this")):
        assert check_memory(settings).state == "skipped"


# GPU


def no_driver() -> None:
    raise RuntimeError("Found no NVIDIA driver on your system.\nPlease check.")


@pytest.mark.parametrize(
    ("device", "cuda", "hidden", "cluster", "state", "named"),
    [
        ("cpu", "13.0", None, None, "ok", "--device cpu"),
        ("auto", "13.0", None, None, "fault", "(Found no NVIDIA driver on your system)"),
        ("auto", "13.0", "", None, "fault", "(CUDA_VISIBLE_DEVICES "),
        ("auto", "13.0", None, "10.0.0.1:6379", "ok", "the cluster"),
        ("auto", None, None, None, "ok", "CPU platform"),
        ("gpu", None, None, None, "fault", "--device cpu"),
    ],
)
def test_a_machine_without_a_gpu_is_a_fault_where_training_would_want_one(
    monkeypatch: pytest.MonkeyPatch,
    device: str,
    cuda: str | None,
    hidden: str | None,
    cluster: str | None,
    state: str,
    named: str,
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.cuda, "init", no_driver)
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if hidden is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    found = check_gpu(device, cluster)
    assert found.state == state
    assert_refusal(found.sentence, named)


def test_gpus_are_listed_with_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    card = SimpleNamespace(name="NVIDIA H100", total_memory=80 * 2**30)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda i: card)
    found = check_gpu("auto", None)
    assert (found.state, found.sentence.count("NVIDIA H100 with 80 GiB")) == ("ok", 2)


# Ray


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    import ray

    context = ray.init(
        address="local",
        num_cpus=1,
        num_gpus=2,
        include_dashboard=False,
        object_store_memory=128 * 2**20,
        log_to_driver=False,
    )
    yield context.address_info["gcs_address"]
    ray.shutdown()


@pytest.mark.engine
def test_a_real_cluster_is_counted(cluster: str) -> None:
    imported, found = check_ray(cluster, "gpu")
    assert (imported.state, found.state) == ("ok", "ok"), (imported.sentence, found.sentence)
    assert_refusal(found.sentence, f"{cluster} has 1 node", " 2 GPUs")
    asked = ask_cluster(cluster)
    assert (asked.gpus, asked.problem) == (2, "")
    assert check_ray(cluster, "gpu", asked)[1] == found


Answers = Callable[[Any], None]


@pytest.fixture
def ray_answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Ray can be imported; what it says of a cluster is given. None where it may not be asked to join one."""

    def answers(resources: Any) -> None:
        def isolated(probe: str, arguments: dict[str, Any], seconds: float) -> Any:
            if isinstance(resources, Exception) and arguments["address"]:
                raise resources
            assert resources or not arguments["address"], "Ray was asked to join"
            return resources

        monkeypatch.setattr(machine, "isolated", isolated)

    return answers


def of_the_cluster(address: str | None, device: str = "gpu", cluster: Cluster | None = None) -> Finding:
    imported, found = check_ray(address, device, cluster)
    assert imported.state == "ok"
    return found


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "ray://127.0.0.1:{}"])
def test_an_address_where_nothing_listens_is_told_without_ray_which_tries_for_minutes(
    form: str, ray_answers: Answers
) -> None:
    ray_answers(None)
    with socket.socket() as held:  # bound and not listening: refused, and nobody else can take it
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        found = of_the_cluster(form.format(port))
    assert found.state == "fault"
    assert_refusal(found.sentence, form.format(port), f"port {port} of 127.0.0.1", "ray start --head")


@pytest.mark.parametrize(
    ("address", "named"),
    [
        ("no-such-host.invalid:6379", "host name no-such-host.invalid"),
        ("127.0.0.1:99999", "HOST:PORT"),
        ("http://10.0.0.1:8265", "dashboard"),
    ],
)
def test_an_address_that_is_none_is_told_before_ray_is_asked(address: str, named: str, ray_answers: Answers) -> None:
    ray_answers(None)
    found = of_the_cluster(address)
    assert found.state == "fault"
    assert_refusal(found.sentence, address, named)


def test_a_cluster_that_cannot_be_joined_has_no_gpus_to_train_on(ray_answers: Answers) -> None:
    ray_answers(ProbeFailed("it is gone"))
    assert ask_cluster("auto") == Cluster(problem="it is gone")
    found = of_the_cluster("auto")
    assert (found.state, "(it is gone)" in found.sentence) == ("fault", True)


def test_a_cluster_that_was_asked_before_is_not_asked_again(ray_answers: Answers) -> None:
    ray_answers(None)
    assert of_the_cluster("10.0.0.1:6379", cluster=Cluster(problem="it is gone")).state == "fault"


def test_without_an_address_only_the_import_is_tried() -> None:
    found = of_the_cluster(None)
    assert (found.state, "RAY_ADDRESS" in found.sentence) == ("skipped", True)


def test_an_address_that_never_answers_does_not_hold_the_doctor_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "RAY_SECONDS", 3.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        found = ask_cluster(f"127.0.0.1:{silent.getsockname()[1]}")
    assert "3 s" in found.problem


@pytest.mark.parametrize(
    ("gpus", "free_gpus", "device", "state"),
    [(0, 0, "gpu", "fault"), (0, 0, "cpu", "warning"), (8, 2, "gpu", "warning"), (8, 8, "gpu", "ok")],
)
def test_a_cluster_without_free_gpus_is_told(
    gpus: int, free_gpus: int, device: str, state: str, ray_answers: Answers
) -> None:
    ray_answers({"nodes": 2, "cpus": 64.0, "gpus": gpus, "free_gpus": free_gpus})
    found = of_the_cluster("auto", device)
    assert (found.state, "auto has 2 nodes, 64 CPUs" in found.sentence) == (state, True)
