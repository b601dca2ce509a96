"""GPU, Ray and disk: real folders, a real cluster, and an address that never answers."""

import json
import shutil
import socket
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from openrlhf_gtpo.checks import machine
from openrlhf_gtpo.checks.isolated import ProbeFailed
from openrlhf_gtpo.checks.machine import (
    Cluster,
    ask_cluster,
    check_disk,
    check_gpu,
    check_memory,
    check_ray,
    parameters,
)
from openrlhf_gtpo.settings import Settings

# Disk

Ask = Callable[..., Settings]


@pytest.fixture
def asked(settings: Ask) -> Ask:
    """A run on GPUs that keeps three checkpoints to resume from."""
    return lambda *flags: settings("--ckpt.save_steps", 1, *flags).changed({"device": "gpu"})


def test_a_folder_that_does_not_exist_yet_is_tried_at_the_one_that_does(asked: Ask, tmp_path: Path) -> None:
    found = check_disk(asked("--ckpt.output_dir", tmp_path / "runs" / "first"))
    assert found.state == "ok"
    assert f"{tmp_path / 'runs' / 'first'} can be written" in found.sentence
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_told(asked: Ask, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = check_disk(asked("--ckpt.output_dir", tmp_path / "file" / "out"))
    assert (found.state, found.sentence) == (
        "fault",
        f"{tmp_path / 'file'} cannot be written (Not a directory): give another --ckpt.output_dir or change "
        "its permissions.",
    )


def test_parameters_are_counted_from_the_files_headers(tiny_model: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    expected = sum(weight.numel() for weight in AutoModelForCausalLM.from_pretrained(tiny_model).parameters())
    assert parameters(tiny_model) == expected
    assert parameters(tmp_path) == 0
    (tmp_path / "pytorch_model-00001-of-00001.bin").write_bytes(bytes(1000))
    assert parameters(tmp_path) == 500


@pytest.mark.parametrize(
    ("free_gib", "state", "words"),
    [
        (5.9, "fault", "3 checkpoints of the policy's weights take 6.0 GiB"),
        (6.1, "warning", "3 checkpoints to resume from take 42.0 GiB"),
        (42.1, "ok", "3 checkpoints to resume from take 42.0 GiB"),
    ],
)
def test_free_space_is_compared_with_what_checkpoints_need(
    free_gib: float, state: str, words: str, asked: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2^30 parameters: 2 GiB of weights, 14 GiB with the optimiser's state."""
    header = json.dumps({"__metadata__": {"format": "pt"}, "weight": {"dtype": "BF16", "shape": [2**20, 2**10]}})
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header.encode())
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(0, 0, int(free_gib * 2**30)))
    found = check_disk(asked("--ckpt.output_dir", tmp_path / "out", "--actor.model_name_or_path", tmp_path))
    assert (found.state, words in found.sentence) == (state, True), found.sentence


def test_a_model_that_is_not_here_counts_by_its_shape(
    asked: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """7,615,616,512 parameters, of 14 bytes in each of three checkpoints."""
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(0, 0, 100 * 2**30))
    found = check_disk(asked("--ckpt.output_dir", tmp_path / "out", "--actor.model_name_or_path", "Qwen/Qwen2.5-7B"))
    assert found.state == "warning"
    assert (
        "100.0 GiB are free there, enough for weights, but 3 checkpoints to resume from take 297.9 GiB"
        in found.sentence
    )


def test_a_run_without_checkpoints_needs_no_space_for_them(asked: Ask, tmp_path: Path) -> None:
    found = check_disk(asked("--actor.model_name_or_path", "Qwen/Qwen2.5-7B", "--ckpt.save_steps", -1))
    assert (found.state, "--ckpt.save_steps" in found.sentence) == ("ok", True)


# Memory

SEVEN_BILLION = ["--actor.model_name_or_path", "Qwen/Qwen2.5-7B", "--data.max_len", 6144, "--vllm.num_engines", 8]
SEVEN_BILLION += ["--ds.zero_stage", 3, "--train.colocate_all", "--vllm.enable_sleep", "--ds.enable_sleep"]
SEVEN_BILLION += ["--train.micro_batch_size", 1, "--rollout.micro_batch_size", 1, "--vllm.max_num_seqs", 256]
SEVEN_BILLION += ["--vllm.gpu_memory_utilization", 0.6, "--actor.gradient_checkpointing_enable"]
SEVEN_BILLION += ["--algo.kl.init_coef", 0]


def test_seven_billion_parameters_fit_on_eight_gpus_of_80_gib(asked: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """7,615,616,512 x 20 / 8 bytes, 1e9 parameters gathered, 6,144 tokens with 10 bytes for each of 152,064 logits,
    their activations and 2 GiB."""
    monkeypatch.setenv("GPU_GB", "80")
    found = check_memory(asked(*SEVEN_BILLION))
    assert found.state == "ok", found.sentence
    activations = 6144 * (2 * 3584 * 28 + 2 * (8 * 3584 + 2 * 512 + 4 * 18944))
    wanted = (7_615_616_512 * 20 / 8 + 2e9 + 6144 * 152_064 * 10 + activations) / 2**30 + 2
    assert found.sentence.startswith(f"Qwen/Qwen2.5-7B takes at most {wanted:.1f} GiB of 80.0 on each of 8 GPUs")


def test_what_cannot_fit_is_a_warning_with_what_helps(asked: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_GB", "24")
    found = check_memory(asked(*SEVEN_BILLION, "--actor.num_gpus_per_node", 1))
    assert found.state == "warning"
    assert found.sentence.startswith("Weights, gradients and optimizer take 141.9 GiB of a GPU that has 24.0: ")


def test_what_is_not_known_of_the_memory_is_asked_for(asked: Ask) -> None:
    assert "it is about GPUs" in check_memory(asked(*SEVEN_BILLION).changed({"device": "cpu"})).sentence
    assert "give --actor.model_name_or_path" in check_memory(asked()).sentence
    unknown = check_memory(asked("--actor.model_name_or_path", "nobody/has-this"))
    assert (unknown.state, "has no config.json here" in unknown.sentence) == ("skipped", True)


# GPU


def test_no_gpu_is_needed_on_the_cpu_platform() -> None:
    assert check_gpu("cpu", None).state == "ok"


@pytest.fixture
def without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)


@pytest.mark.usefixtures("without_gpu")
def test_a_build_for_gpus_that_sees_none_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def init() -> None:
        raise RuntimeError("Found no NVIDIA driver on your system.\nPlease check.")

    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "init", init)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    found = check_gpu("auto", None)
    assert (found.state, "finds none (Found no NVIDIA driver on your system): fix" in found.sentence) == (
        "fault",
        True,
    )
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert "(CUDA_VISIBLE_DEVICES hides them all)" in check_gpu("auto", None).sentence
    assert check_gpu("auto", "10.0.0.1:6379").state == "ok"  # the cluster may have them


@pytest.mark.usefixtures("without_gpu")
def test_a_build_for_cpus_is_a_fault_only_where_a_gpu_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    assert check_gpu("auto", None).state == "ok"
    assert check_gpu("gpu", None).state == "fault"


def test_gpus_are_listed_with_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    card = SimpleNamespace(name="NVIDIA H100", total_memory=80 * 2**30)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda i: card)
    found = check_gpu("auto", None)
    assert (found.state, found.sentence) == (
        "ok",
        "2 visible: NVIDIA H100 with 80 GiB, NVIDIA H100 with 80 GiB.",
    )


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
    assert found.sentence == f"{cluster} has 1 node, 1 CPUs and 2 GPUs, all free."
    asked = ask_cluster(cluster)
    assert (asked.gpus, asked.problem) == (2, "")
    assert check_ray(cluster, "gpu", asked)[1] == found


def test_a_cluster_that_cannot_be_joined_has_no_gpus_to_train_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def isolated(*_: object) -> None:
        raise ProbeFailed("it is gone")

    monkeypatch.setattr(machine, "isolated", isolated)
    monkeypatch.setattr(machine, "_unreachable", lambda address: None)
    assert ask_cluster("10.0.0.1:6379") == Cluster(problem="it is gone")


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "ray://127.0.0.1:{}"])
def test_an_address_where_nothing_listens_is_told_without_ray_which_tries_for_minutes(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def isolated(probe: str, arguments: dict[str, object], seconds: float) -> None:
        assert arguments == {"address": None}, "Ray was asked to join"

    monkeypatch.setattr(machine, "isolated", isolated)
    with socket.socket() as held:  # bound and not listening: refused, and nobody else can take it
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        _, found = check_ray(form.format(port), "cpu")
    assert (found.state, found.sentence) == (
        "fault",
        f"The cluster at {form.format(port)} cannot be joined (nothing listens on port {port} of 127.0.0.1): start it "
        "by `ray start --head`, or fix the address or the firewall.",
    )


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("no-such-host.invalid:6379", "the host name no-such-host.invalid is not known here"),
        ("127.0.0.1:99999", "it is not HOST:PORT"),
        ("auto", None),
    ],
)
def test_an_address_is_looked_at_before_ray_is_asked(address: str, problem: str | None) -> None:
    assert machine._unreachable(address) == problem


def test_a_cluster_that_was_asked_before_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_import_fault", lambda: None)
    monkeypatch.setattr(machine, "ask_cluster", lambda address: pytest.fail("asked again"))
    _, found = check_ray("10.0.0.1:6379", "gpu", Cluster(problem="it is gone"))
    assert (found.state, "cannot be joined (it is gone)" in found.sentence) == ("fault", True)


def test_without_an_address_only_the_import_is_tried() -> None:
    imported, found = check_ray(None, "cpu")
    assert (imported.state, found.state) == ("ok", "skipped")
    assert "RAY_ADDRESS" in found.sentence


def test_an_address_that_never_answers_does_not_hold_the_doctor_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_import_fault", lambda: None)
    monkeypatch.setattr(machine, "RAY_SECONDS", 3.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        _, found = check_ray(address, "cpu")
    assert (found.state, found.sentence) == (
        "fault",
        f"The cluster at {address} cannot be joined (there was no answer within 3 s): start it by `ray start "
        "--head`, or fix the address or the firewall.",
    )


@pytest.mark.parametrize(
    ("has", "device", "state"),
    [
        ({"gpus": 0, "free_gpus": 0}, "gpu", "fault"),
        ({"gpus": 0, "free_gpus": 0}, "cpu", "warning"),
        ({"gpus": 8, "free_gpus": 2}, "gpu", "warning"),
        ({"gpus": 8, "free_gpus": 8}, "gpu", "ok"),
    ],
)
def test_a_cluster_without_free_gpus_is_told(
    has: dict[str, float], device: str, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "isolated", lambda *_: {"nodes": 2, "cpus": 64.0, **has})
    monkeypatch.setattr(machine, "_unreachable", lambda address: None)
    _, found = check_ray("10.0.0.1:6379", device)
    assert (found.state, "10.0.0.1:6379 has 2 nodes, 64 CPUs" in found.sentence) == (state, True)


def test_the_dashboards_address_is_told_from_the_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_import_fault", lambda: None)
    _, found = check_ray("http://10.0.0.1:8265", "gpu")
    assert (found.state, "is the address of Ray's dashboard" in found.sentence) == ("fault", True)
