"""What others see of an engine that sleeps, and of a weight that is handed over on one GPU."""

import pickle
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from openrlhf_gtpo.cpu import sleep, weight_sync


class Worker:
    """As vLLM's CPU worker: it ignores that it shall sleep."""

    def __init__(self) -> None:
        self.model_runner = SimpleNamespace(kv_caches=[torch.zeros(2, 3)])

    def sleep(self, level: int = 1) -> None: ...

    def wake_up(self, tags: list[str] | None = None) -> None: ...

    def execute_model(self, batch: str) -> str:
        return f"tokens of {batch}"


def test_an_engine_generates_while_its_cache_is_there_and_has_nothing_cached_after_a_sleep(
    capsys: pytest.CaptureFixture[str],
) -> None:
    kind = type("OwnWorker", (Worker,), dict(vars(Worker)))
    sleep.install_engine_sleep(kind)
    sleep.install_engine_sleep(kind)  # a second time changes nothing
    worker: Any = kind()
    assert worker.execute_model("a batch") == "tokens of a batch"
    worker.sleep()
    with pytest.raises(RuntimeError, match="kv_cache"):
        worker.execute_model("a batch")
    worker.wake_up(["weights"])
    with pytest.raises(RuntimeError, match="kv_cache"):
        worker.execute_model("a batch")
    worker.wake_up(["kv_cache"])
    assert worker.execute_model("a batch") == "tokens of a batch"
    assert torch.equal(worker.model_runner.kv_caches[0], torch.full((2, 3), sleep.GARBAGE))
    worker.sleep()
    worker.wake_up()
    assert worker.execute_model("a batch") == "tokens of a batch", "without tags it wakes up whole"
    lines = capsys.readouterr().out.splitlines()
    words = ["sleeps", "weights", "kv_cache", "sleeps", "weights and kv_cache"]
    assert all(word in line for word, line in zip(words, lines, strict=True))
    times = [float(line.split()[0]) for line in lines]
    assert times == sorted(times)


def test_an_engine_takes_the_weight_of_its_gpu_and_one_of_several_workers_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weights = {gpu: torch.randn(3, 5).to(torch.bfloat16) for gpu in ("node1:0", "node2:0")}
    handles = pickle.loads(pickle.dumps({gpu: weight_sync.reduce_tensor(weight) for gpu, weight in weights.items()}))
    monkeypatch.setenv(sleep.GPU_VARIABLE, "node2:0")
    assert torch.equal(weight_sync.tensor_of(handles), weights["node2:0"])
    monkeypatch.delenv(sleep.GPU_VARIABLE)
    assert torch.equal(weight_sync.tensor_of(handles), weights["node1:0"])
