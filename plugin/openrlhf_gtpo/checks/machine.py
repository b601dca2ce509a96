"""Checks the GPUs and their memory, the Ray cluster and the disk."""

import json
import math
import os
import shutil
import socket
import tempfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from openrlhf_gtpo.checks.findings import Finding, fault, ok, skipped, warning
from openrlhf_gtpo.checks.isolated import ProbeFailed, isolated
from openrlhf_gtpo.driver import memory
from openrlhf_gtpo.driver.cuda import architecture_fault, compiler_fault
from openrlhf_gtpo.driver.disk import WEIGHT_BYTES, checkpoint_bytes
from openrlhf_gtpo.driver.model_size import model_named
from openrlhf_gtpo.errors import reason
from openrlhf_gtpo.settings import Settings

RAY_SECONDS = 45.0
CONNECT_SECONDS = 5.0
GIB = 2**30


def check_gpu(device: str, ray_address: str | None) -> Finding:
    """Check the GPUs that torch finds on this machine.

    Args:
        device: ``auto``, ``cpu`` or ``gpu``, as given.
        ray_address: of a cluster that may have GPUs instead.
    """
    if device == "cpu":
        return ok("GPU", "None is needed for --device cpu.")
    import torch

    if count := torch.cuda.device_count():
        cards = [torch.cuda.get_device_properties(i) for i in range(count)]
        listed = ", ".join(f"{card.name} with {card.total_memory / GIB:.0f} GiB" for card in cards)
        sentence = architecture_fault()
        return fault("GPU", sentence) if sentence else ok("GPU", f"{count} visible: {listed}.")
    if ray_address is not None:
        return ok("GPU", "This machine has none; those of the cluster are in the line about Ray.")
    if torch.version.cuda is None and torch.version.hip is None:
        if device == "gpu":
            return fault(
                "GPU",
                f"torch {torch.__version__} is a build for CPUs: install one for CUDA, or give --device cpu.",
            )
        return ok("GPU", f"None, and torch {torch.__version__} is a build for CPUs: training uses the CPU platform.")
    return fault(
        "GPU",
        f"torch {torch.__version__} is built for GPUs but finds none ({_why_no_gpu()}): fix the driver or "
        "CUDA_VISIBLE_DEVICES, use a machine with a GPU, or give --device cpu.",
    )


def check_compiler() -> Finding:
    """Check for the nvcc with which DeepSpeed compiles its optimizer."""
    if sentence := compiler_fault():
        return fault("compiler", sentence)
    return ok("compiler", "DeepSpeed's optimizer for GPUs is compiled, or can be.")


def _why_no_gpu() -> str:
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return "CUDA_VISIBLE_DEVICES hides them all"
    import torch

    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        return reason(error)
    return "the driver lists none"


@dataclass(frozen=True)
class Cluster:
    """The resources of a Ray cluster, or why it cannot be joined."""

    nodes: float = 0
    cpus: float = 0
    gpus: float = 0
    """Logical ones included."""
    free_gpus: float = 0
    problem: str = ""
    """Part of a sentence; "" if the cluster was joined."""


def ask_cluster(address: str) -> Cluster:
    """Join a cluster for a moment; takes at most CONNECT_SECONDS + RAY_SECONDS."""
    if problem := _unreachable(address):
        return Cluster(problem=problem)
    try:
        return Cluster(**isolated("ray_cluster", {"address": address}, RAY_SECONDS))
    except ProbeFailed as error:
        return Cluster(problem=str(error).rstrip("."))


def _unreachable(address: str) -> str | None:
    """Why the address cannot be reached; None if it can, or if it names no port. Ray itself would try for a minute or
    more."""
    try:
        parts = urlsplit(address if "//" in address else f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        return "it is not HOST:PORT"
    if host is None or port is None:
        return None
    try:
        socket.create_connection((host, port), CONNECT_SECONDS).close()
    except ConnectionRefusedError:
        return f"nothing listens on port {port} of {host}"
    except socket.gaierror:
        return f"the host name {host} is not known here"
    except OSError as error:
        return f"{host} does not answer on port {port}: {reason(error)}"
    return None


def check_ray(address: str | None, device: str, cluster: Cluster | None = None) -> list[Finding]:
    """Check that Ray can be imported, and that the cluster, if there is one, has what training needs.

    Args:
        address: of the cluster, or None.
        device: ``cpu`` or ``gpu``.
        cluster: its resources, if it was asked before.
    """
    try:
        isolated("ray_cluster", {"address": None}, RAY_SECONDS)
    except ProbeFailed as error:
        return [fault("Ray", f"It cannot be imported ({error}): install the Ray that OpenRLHF asks for.")]
    here = ok("Ray", "It can be imported.")
    if address is None:
        return [here, skipped("Ray cluster", "Not checked: set RAY_ADDRESS.")]
    return [here, _cluster(address, device, cluster)]


def _cluster(address: str, device: str, cluster: Cluster | None) -> Finding:
    name = "Ray cluster"
    if address.startswith(("http://", "https://")):
        return fault(
            name,
            f"{address} is the address of Ray's dashboard, which is for jobs: give the address of the cluster, such "
            "as HOST:6379 or ray://HOST:10001.",
        )
    cluster = cluster or ask_cluster(address)
    if cluster.problem:
        what = f"The cluster at {address} cannot be joined ({cluster.problem})"
        return fault(name, f"{what}: start it by `ray start --head`, or fix the address or the firewall.")
    size = f"{cluster.nodes:g} nodes" if cluster.nodes != 1 else "1 node"
    has = f"{address} has {size}, {cluster.cpus:g} CPUs and {cluster.gpus:g} GPUs"
    if cluster.gpus == 0 and device == "gpu":
        return fault(name, f"{has}: start its nodes on machines with GPUs, or give --device cpu.")
    if cluster.gpus == 0:
        return warning(
            name,
            f"{has}, but actors need GPUs, logical ones on a CPU: start its nodes with --num-gpus.",
        )
    if cluster.free_gpus < cluster.gpus:
        return warning(
            name,
            f"{has}, of which {cluster.free_gpus:g} are free: training would wait for the others, so end the jobs "
            "that hold them or ask for fewer.",
        )
    return ok(name, f"{has}, all free.")


def check_disk(settings: Settings) -> Finding:
    """Check that the folder of the policy can be written and has space for checkpoints. Nothing is left in it."""
    out, model = Path(settings.flags["ckpt.output_dir"]), settings.flags["actor.model_name_or_path"]
    place = out.absolute()
    while not place.exists():
        place = place.parent
    try:
        with tempfile.NamedTemporaryFile(dir=place):
            pass
    except OSError as error:
        return fault(
            "disk",
            f"{place} cannot be written ({error.strerror}): give another --ckpt.output_dir or change its permissions.",
        )
    free = shutil.disk_usage(place).free
    has = f"{out} can be written, and {free / GIB:,.1f} GiB are free there"
    weights = 0 if model is None else parameters(Path(model))
    if model is not None and not weights and (shape := model_named(model)):
        weights = shape.parameters
    if not weights:
        return ok("disk", f"{has}; the size of the policy, to compare that with what checkpoints need, is not known.")
    kept, states = settings.flags["ckpt.max_num"], checkpoint_bytes(weights, settings)
    if not states:
        return ok("disk", f"{has}; without --ckpt.save_steps there are no checkpoints to resume from.")
    models = kept * WEIGHT_BYTES * weights
    if free < models:
        return fault(
            "disk",
            f"{has}, but {kept} checkpoints of the policy's weights take {models / GIB:,.1f} GiB: free some, or give "
            "another --ckpt.output_dir.",
        )
    if free < states:
        return warning(
            "disk",
            f"{has}, enough for weights, but {kept} checkpoints to resume from take {states / GIB:,.1f} GiB: free "
            "some, or keep fewer by --ckpt.max_num.",
        )
    return ok("disk", f"{has}; {kept} checkpoints to resume from take {states / GIB:,.1f} GiB.")


def check_memory(settings: Settings) -> Finding:
    """Check the memory of this machine's GPUs, or of GPUs with `memory.GPU_VARIABLE` GiB, as ``--dry-run`` does."""
    name, model = "memory", settings.flags["actor.model_name_or_path"]
    if settings.device == "cpu":
        return skipped(name, "Not checked: it is about GPUs.")
    if model is None:
        return skipped(name, "Not checked: give --actor.model_name_or_path.")
    shape = model_named(model)
    if shape is None:
        return skipped(name, f"Not checked: {model} has no config.json here, or is not of a supported kind.")
    flags = settings.flags
    gpus, batch = flags["actor.num_nodes"] * flags["actor.num_gpus_per_node"], flags["train.micro_batch_size"]
    needed = memory.need(shape, settings, memory.gpu_bytes())
    if faults := memory.warnings(needed, settings):
        return warning(name, " ".join(faults))
    training, has, host = (size / memory.GIB for size in (needed.training, needed.gpu, needed.host))
    return ok(
        name,
        f"{model} takes at most {training:.1f} GiB of {has:.1f} on each of {gpus} GPUs with micro-batches of "
        f"{batch} responses, and {host:.1f} GiB of a node's memory for what sleeps or is offloaded; an engine has "
        f"room for {int(needed.full_length):,} responses of {flags['data.max_len']:,} tokens.",
    )


def parameters(folder: Path) -> int:
    """The number of parameters in the weights of a local folder; 0 without weights."""
    return sum(map(_in_safetensors, folder.glob("*.safetensors"))) or sum(
        path.stat().st_size // 2
        for path in folder.glob("pytorch_model*.bin")  # 2 bytes each, as usual
    )


def _in_safetensors(path: Path) -> int:
    """Parameters of one file, from its header: 8 bytes of length, then JSON with the shape of each tensor."""
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return sum(math.prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__")
