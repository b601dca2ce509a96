"""What others see of an engine that sleeps, and of a weight that is handed over on one GPU."""

import pickle
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from openrlhf.trainer.ray.vllm_worker_wrap import WorkerWrap

from openrlhf_gtpo.cpu import rehearsal, sleep, weight_sync


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


def test_an_engine_generates_while_its_cache_is_there(worker: Any, capsys: pytest.CaptureFixture[str]):
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


def test_what_was_cached_is_gone_after_a_sleep(worker: Any):
    worker.sleep()
    worker.wake_up()
    assert torch.equal(worker.model_runner.kv_caches[0], torch.full((2, 3), sleep.GARBAGE))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_openrlhfs_own_method_gives_the_engine_the_weight_of_its_gpu(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
):
    weights = {gpu: torch.randn(3, 5).to(dtype) for gpu in ("node1:0", "node2:0")}
    handles = pickle.loads(pickle.dumps({gpu: weight_sync.handle(weight) for gpu, weight in weights.items()}))
    monkeypatch.setenv(sleep.NAME, "node2:0")
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)
    received: list[tuple[str, torch.Tensor]] = []
    worker: Any = SimpleNamespace(
        device=torch.device("cuda", 0),
        model_config=SimpleNamespace(dtype=dtype),
        model_runner=SimpleNamespace(model=SimpleNamespace(load_weights=lambda weights: received.extend(weights))),
    )

    with weight_sync.received(handles):
        WorkerWrap.update_weight_cuda_ipc(worker, "a.weight", dtype, (3, 5), ipc_handles=handles)

    ((name, weight),) = received
    assert name == "a.weight"
    assert torch.equal(weight, weights["node2:0"])


@pytest.mark.parametrize(
    ("numbers", "text"), [([3], "3"), ([0, 1, 2], "0-2"), ([0, 17, 18, 20], "0, 17-18, 20"), ([], "")]
)
def test_numbers_are_written_as_ranges(numbers: list[int], text: str):
    assert rehearsal._ranges(numbers) == text
