"""Several engines side by side, each in a process with GPUs of its own: an evaluation on all GPUs of a machine. A
response does not depend on the engine that samples it, since each prompt has its own seed."""

import multiprocessing
import os
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from openrlhf_gtpo.errors import UserError, reason
from openrlhf_gtpo.evaluation.sampling import Sample

VISIBLE = "CUDA_VISIBLE_DEVICES"


def shares_of_gpus(tensor_parallel_size: int) -> list[str]:
    """This process's GPUs in shares of that size, as the variable ``CUDA_VISIBLE_DEVICES`` has them."""
    import torch

    named = os.environ.get(VISIBLE)
    gpus = named.split(",") if named else [str(place) for place in range(torch.cuda.device_count())]
    size = tensor_parallel_size
    return [",".join(gpus[first : first + size]) for first in range(0, len(gpus) - size + 1, size)]


class Engines:
    """As `sampling.Sampler`, with one such in each of several processes.

    Args:
        sampler: `sampling.Sampler`.
        arguments: of each.
        gpus: the GPUs of each, as `shares_of_gpus` gives them.

    Raises:
        UserError: an engine could not be started.
    """

    def __init__(self, sampler: Any, arguments: Sequence[Any], gpus: Sequence[str]) -> None:
        context = multiprocessing.get_context("spawn")
        self._engines: list[tuple[Any, Any]] = []
        before = os.environ.get(VISIBLE)
        try:
            for share in gpus:
                ours, theirs = context.Pipe()
                os.environ[VISIBLE] = share  # the process begins with it
                process = context.Process(target=_serve, args=(theirs, sampler, arguments))
                process.start()
                theirs.close()  # so that the death of the process ends our waiting
                self._engines.append((process, ours))
        finally:
            os.environ.pop(VISIBLE)
            if before is not None:
                os.environ[VISIBLE] = before
        try:
            for place in range(len(self._engines)):
                self._answer(place)
        except UserError:
            self.__exit__()
            raise

    def __enter__(self) -> "Engines":
        return self

    def __exit__(self, *raised: object) -> None:
        """End the engines and their processes."""
        for _, connection in self._engines:
            connection.close()
        for engine, _ in self._engines:
            engine.join()

    def sample(self, chats: Sequence[Sequence[dict[str, str]]], numbers: Sequence[int]) -> list[list[Sample]]:
        """As `sampling.Sampler.sample`; each engine takes every so-manieth prompt.

        Raises:
            UserError: an engine failed.
        """
        count = len(self._engines)
        for place, (_, connection) in enumerate(self._engines):
            connection.send((chats[place::count], numbers[place::count]))
        samples: list[list[Sample]] = [[] for _ in chats]
        for place in range(count):
            samples[place::count] = self._answer(place)
        return samples

    def _answer(self, place: int) -> Any:
        try:
            good, answer = self._engines[place][1].recv()
        except (EOFError, OSError):
            good, answer = False, "its process died, and its last output is above"
        if not good:
            raise UserError(f"Engine {place + 1} of {len(self._engines)} failed: {answer}.")
        return answer


def _serve(connection: Connection, sampler: Any, arguments: Sequence[Any]) -> None:
    """In the process of an engine: sample until the connection ends."""
    try:
        with sampler(*arguments) as engine:
            connection.send((True, None))
            while True:
                chats, numbers = connection.recv()
                connection.send((True, engine.sample(chats, numbers) if chats else []))
    except (EOFError, ConnectionError):
        pass
    except Exception as error:
        connection.send((False, reason(error)))
