"""Weight sync without CUDA: to an engine on the policy's logical GPU as bytes, in place of CUDA's handles of memory;
to other engines by gloo, in place of NCCL."""

import math
import os
import pickle
import socket
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, TypeAlias

import psutil
import ray
import torch

from openrlhf_gtpo.cpu.sleep import gpu_name

MESSAGE = 64 * 2**20
"""Bytes of weights with which a message is full: policy and engine have two copies of it each."""
Header: TypeAlias = tuple[list[str], list[torch.dtype], list[Sequence[int]]]
"""Names, types and shapes of the weights of a message."""


def reduce_tensor(tensor: torch.Tensor) -> bytes:
    """Takes the place of ``torch.multiprocessing.reductions.reduce_tensor``, with which OpenRLHF makes a handle: the
    values themselves."""
    return pickle.dumps(tensor)


def tensor_of(handles: dict[str, bytes]) -> torch.Tensor:
    """In an engine: the policy's tensor on this GPU, of those that `reduce_tensor` made, by the names of logical GPUs.
    The workers of an engine that has several do not know theirs and take the first; all hold the same values."""
    tensor: torch.Tensor = pickle.loads(handles[gpu_name() or next(iter(handles))])
    return tensor


class WeightGroup:
    """Policy, which is rank 0, and engines, joined by gloo. Takes the place of vLLM's ``PyNcclCommunicator``."""

    def __init__(self, host: str, port: int, rank: int, world_size: int, *_: Any) -> None:
        from vllm.distributed.utils import stateless_init_torch_distributed_process_group

        # By default gloo takes the address of this machine's name, which is often one that other nodes cannot reach.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface_to(host, port))
        self._group: Any = stateless_init_torch_distributed_process_group(host, port, rank, world_size, "gloo")
        self._work: Any = None

    def send(self, weights: Sequence[torch.Tensor]) -> None:
        """From the policy to all engines. Returns before they have it: OpenRLHF then waits for their answers, and an
        engine that cannot take it answers with its error."""
        if self._work is not None:
            self._work.wait()
        self._sent = torch.cat([weight.reshape(-1).view(torch.uint8) for weight in weights])
        self._work = self._group.broadcast(self._sent, 0)

    def receive(self, dtypes: Sequence[torch.dtype], shapes: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        """In an engine: what the policy sends."""
        sizes = [math.prod(shape) * dtype.itemsize for dtype, shape in zip(dtypes, shapes, strict=True)]
        received = torch.empty(sum(sizes), dtype=torch.uint8)
        self._group.broadcast(received, 0).wait()
        parts = received.split(sizes)  # each is copied to where its own type may begin
        return [
            part.clone().view(dtype).view(torch.Size(shape))
            for part, dtype, shape in zip(parts, dtypes, shapes, strict=True)
        ]


def interface_to(host: str, port: int) -> str:
    """The network interface by which this machine reaches that address."""
    family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as route:
        route.connect(address)  # of a datagram's socket, which sends nothing
        mine = route.getsockname()[0]
    return next(
        name for name, found in psutil.net_if_addrs().items() if mine in {one.address.split("%")[0] for one in found}
    )


class Messages:
    """Engines and group in OpenRLHF's loop over the weights, of which it sends one after the other. Here many go in a
    message: the call and the answer for a small weight take longer than the weight."""

    def __init__(self, engines: Sequence[Any], group: WeightGroup) -> None:
        """``engines``: Ray's handles of the rollout actors."""
        self.engines = [_Engine(engine, self) for engine in engines]
        self.nothing = ray.put(None)
        self._group = group
        self._names: list[str] = []
        self._weights: list[torch.Tensor] = []
        self._ends = False

    def header(self, name: str, dtype: torch.dtype, shape: Sequence[int], last: bool) -> Header | None:
        """Of the message that ends with this weight, which is the next; None where it does not end."""
        held = sum(weight.nbytes for weight in self._weights)
        self._ends = last or held + math.prod(shape) * dtype.itemsize >= MESSAGE
        self._names[len(self._weights) :] = [name]
        dtypes, shapes = ([getattr(weight, what) for weight in self._weights] for what in ("dtype", "shape"))
        return (self._names[:], [*dtypes, dtype], [*shapes, shape]) if self._ends else None

    def broadcast(self, tensor: torch.Tensor, src: int, stream: Any = None) -> None:
        """Keep the weight that was named; where the message ends with it, send all that are kept."""
        self._weights.append(tensor.detach().clone())  # ZeRO-3 gathers it for this call alone
        if self._ends:
            self._group.send(self._weights)
            self._names, self._weights = [], []


class _Engine:
    """An engine that is called where a message ends."""

    def __init__(self, engine: Any, messages: Messages) -> None:
        self._engine, self._messages = engine, messages
        self.update_weight = SimpleNamespace(remote=self._update)

    def _update(self, name: str, dtype: torch.dtype, shape: Sequence[int], empty_cache: bool) -> Any:
        header = self._messages.header(name, dtype, shape, empty_cache)
        if header is None:
            return self._messages.nothing
        names, dtypes, shapes = header
        return self._engine.update_weight.remote(names, dtype=dtypes, shape=shapes, empty_cache=empty_cache)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def send_together(trainer: Any) -> None:
    """Let OpenRLHF's policy trainer, which has joined its engines' group if it is to send through one, send many
    weights in a message."""
    group = getattr(trainer, "_model_update_group", None)
    if group is not None:
        messages = Messages(trainer.vllm_engines, group)
        trainer.vllm_engines, trainer._model_update_group = messages.engines, messages
