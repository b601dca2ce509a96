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


@pytest.fixture
def worker() -> Any:
    kind = type("OwnWorker", (Worker,), dict(vars(Worker)))
    sleep.install_engine_sleep(kind)
    sleep.install_engine_sleep(kind)  # a second time changes nothing
    return kind()


def test_an_engine_generates_while_its_cache_is_there(worker: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert worker.execute_model("a batch") == "tokens of a batch"
    worker.sleep()
    with pytest.raises(RuntimeError, match="kv_cache"):
        worker.execute_model("a batch")
    worker.wake_up(["weights"])
    with pytest.raises(RuntimeError, match="kv_cache"):
        worker.execute_model("a batch")
    worker.wake_up(["kv_cache"])
    assert worker.execute_model("a batch") == "tokens of a batch"

    lines = capsys.readouterr().out.splitlines()
    assert all(word in line for word, line in zip(["sleeps", "weights", "kv_cache"], lines, strict=True))
    times = [float(line.split()[0]) for line in lines]
    assert times == sorted(times)


def test_what_was_cached_is_gone_after_a_sleep(worker: Any) -> None:
    worker.sleep()
    worker.wake_up()
    assert torch.equal(worker.model_runner.kv_caches[0], torch.full((2, 3), sleep.GARBAGE))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_engine_takes_the_weight_of_its_gpu(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = {gpu: torch.randn(3, 5).to(dtype) for gpu in ("node1:0", "node2:0")}
    handles = pickle.loads(pickle.dumps({gpu: weight_sync.reduce_tensor(weight) for gpu, weight in weights.items()}))
    monkeypatch.setenv(sleep.GPU_VARIABLE, "node2:0")
    assert torch.equal(weight_sync.tensor_of(handles), weights["node2:0"])


def test_the_workers_of_an_engine_that_has_several_take_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(sleep.GPU_VARIABLE, raising=False)
    handles = {gpu: weight_sync.reduce_tensor(torch.tensor([1.0])) for gpu in ("node1:0", "node1:1")}
    assert weight_sync.tensor_of(handles).tolist() == [1.0]
