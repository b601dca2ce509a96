"""What a run asks of a Ray cluster, and machines and clusters that can never give it."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from openrlhf_gtpo.checks import Finding, machine

from ...refusals import assert_refusal

SIZES = ["--actor.num_gpus_per_node", "2", "--vllm.num_engines", "3", "--ref.num_gpus_per_node", "2"]
SIZES += ["--algo.advantage.estimator", "gtpo", "--algo.kl.init_coef", "0"]


def node(gpus: float, cpus: float) -> dict[str, Any]:
    """As ray.nodes() has it, without the entries that are 0."""
    return {"Resources": {name: number for name, number in (("GPU", gpus), ("CPU", cpus)) if number}}


@pytest.mark.parametrize(
    ("flags", "roles"),
    [
        ([], {"trainers": 2, "engines": 3}),
        (["--vllm.tensor_parallel_size", "2", "--actor.num_nodes", "4"], {"trainers": 8, "engines": 6}),
        (["--algo.kl.init_coef", "0.1"], {"trainers": 2, "the reference policy": 2, "engines": 3}),
        (["--algo.kl.init_coef", "0.1", "--train.colocate_actor_ref"], {"trainers": 2, "engines": 3}),
        (["--algo.kl.init_coef", "0.1", "--train.colocate_all"], {"trainers": 2}),
        (["--train.colocate_all", "--train.async_enable"], {"trainers": 2, "engines": 3}),
        (["--guide.model", "g", "--guide.engines", "2"], {"trainers": 2, "engines": 3, "the guide's engines": 2}),
    ],
)
def test_every_role_with_gpus_of_its_own_is_counted(
    parse: Callable[..., dict[str, Any]], flags: list[str], roles: dict[str, int]
) -> None:
    assert machine.gpus_by_role(parse(*SIZES, *flags)) == roles


@pytest.fixture
def finding(
    parse: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Finding]:
    """What is found about a cluster of these nodes."""

    def find(*nodes: dict[str, Any], words: tuple[str, ...] = ("--reward.remote_url=http://h:1",)) -> Finding:
        monkeypatch.setenv("RAY_ADDRESS", "auto")
        monkeypatch.setattr(machine, "nodes_of", lambda address: nodes)
        found = {one.check: one for one in machine.check(parse(*SIZES, *words, f"--ckpt.output_dir={tmp_path}"))}
        return found["Ray cluster"]

    return find


@pytest.mark.parametrize(
    ("nodes", "has", "fix"),
    [
        ([node(0, 8)], "0 and 8", "--num-gpus 5"),
        ([node(1, 8), node(1, 8)], "2 and 16", "--num-gpus 5"),
        ([node(5, 2)], "5 and 2", "--num-cpus 5"),
    ],
)
def test_a_cluster_that_can_never_be_enough_is_refused_with_what_is_needed_what_there_is_and_what_to_do(
    finding: Callable[..., Finding], nodes: list[dict[str, Any]], has: str, fix: str
) -> None:
    found = finding(*nodes)
    assert found.state == "fault"
    assert_refusal(found.sentence, "5 logical GPUs (2 for trainers, 3 for engines)", has, fix)
    assert finding(node(4, 2), node(1, 3)).state == "ok", "enough, over any number of nodes"


def test_the_built_in_service_is_refused_on_several_machines_which_could_not_reach_it(
    finding: Callable[..., Finding],
) -> None:
    assert finding(node(9, 9), words=()).state == "ok"
    found = finding(node(9, 9), node(9, 9), words=())
    assert found.state == "fault"
    assert_refusal(found.sentence, "built-in reward service", "--reward.remote_url")


def test_a_folder_that_cannot_be_written_is_refused_and_nothing_is_left_in_one_that_can(
    parse: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    inside, new, to = tmp_path / "file" / "out", tmp_path / "new" / "out", "--ckpt.output_dir"
    for words, named in (
        ([to, inside], to),
        ([to, new, "--logger.metrics_path", new / "metrics.jsonl"], None),
        ([to, new, "--logger.metrics_path", tmp_path], "it is a folder"),
        ([to, new, "--logger.metrics_path", inside], "--logger.metrics_path"),
        ([to, new, "--logger.tensorboard_dir", inside], "--logger.tensorboard_dir"),
        ([to, new, "--ckpt.path", inside, "--ckpt.save_steps", 1], "--ckpt.path"),
        ([to, new, "--ckpt.path", inside], None),
    ):
        (found,) = machine.check(parse(*words))
        assert found.state == ("fault" if named else "ok"), found
        assert (named or "are free") in found.sentence
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.fixture
def gpus_found(
    monkeypatch: pytest.MonkeyPatch, parse: Callable[..., dict[str, Any]], tmp_path: Path
) -> Callable[..., Finding]:
    """What is said of a machine with so many GPUs, and of the cluster that `ray start` noted there."""

    def find(count: int, noted: str | None = None, model: str | None = "m") -> Finding:
        monkeypatch.setattr("torch.cuda.device_count", lambda: count)
        card = SimpleNamespace(name="NVIDIA H100 80GB HBM3", total_memory=80 * 2**30)
        monkeypatch.setattr("torch.cuda.get_device_properties", lambda number: card)
        monkeypatch.setattr(machine, "noted_address", lambda: noted)
        words = [] if model is None else [f"--actor.model_name_or_path={model}"]
        flags = parse(*SIZES, f"--ckpt.output_dir={tmp_path}", *words)
        return next(iter(machine.check({**flags, "device": "gpu"})))

    return find


def test_too_few_gpus_are_refused_with_the_numbers_and_a_cluster_that_was_started_here_is_asked_for_its_own(
    gpus_found: Callable[..., Finding], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    assert gpus_found(5).state == "ok"
    assert gpus_found(1, model=None).state == "ok", "a doctor asks of no run"
    found = gpus_found(4)
    assert found.state == "fault"
    assert_refusal(found.sentence, "5 GPUs (2 for trainers, 3 for engines)", "sees 4", "0,1,2,3", "--vllm.num_engines")
    assert_refusal(gpus_found(0).sentence, "torch", "--device cpu")
    monkeypatch.setattr(machine, "nodes_of", lambda address: [node(4, 8)] if address == "auto" else [])
    found = gpus_found(8, noted="auto")
    assert (found.check, found.state) == ("Ray cluster", "fault")
