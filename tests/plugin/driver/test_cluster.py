"""What a run asks of a Ray cluster, and clusters that can never give it."""

from collections.abc import Callable

import pytest

from openrlhf_gtpo.driver.cluster import GROWS, ClusterTooSmall, check_cluster, gpus_by_role
from openrlhf_gtpo.settings import Settings

from ...refusals import assert_refusal

SIZES = ["--actor.num_gpus_per_node", "2", "--vllm.num_engines", "3", "--ref.num_gpus_per_node", "2"]
SIZES += ["--algo.advantage.estimator", "gtpo", "--algo.kl.init_coef", "0"]


def node(gpus: float, cpus: float) -> dict[str, dict[str, float]]:
    """As ray.nodes() has it, without the entries that are 0."""
    return {"Resources": {name: number for name, number in (("GPU", gpus), ("CPU", cpus)) if number}}


@pytest.mark.parametrize(
    ("flags", "roles"),
    [
        ([], {"trainers": 2, "engines": 3}),
        (["--vllm.tensor_parallel_size", "2"], {"trainers": 2, "engines": 6}),
        (["--actor.num_nodes", "4"], {"trainers": 8, "engines": 3}),
        (["--algo.kl.init_coef", "0.1"], {"trainers": 2, "the reference policy": 2, "engines": 3}),
        (["--algo.kl.init_coef", "0.1", "--train.colocate_actor_ref"], {"trainers": 2, "engines": 3}),
        (["--algo.kl.init_coef", "0.1", "--train.colocate_all"], {"trainers": 2}),
        (["--train.colocate_all", "--train.async_enable"], {"trainers": 2, "engines": 3}),
        (["--guide.model", "g", "--guide.engines", "2"], {"trainers": 2, "engines": 3, "the guide's engines": 2}),
    ],
)
def test_every_role_with_gpus_of_its_own_is_counted(
    settings: Callable[..., Settings], flags: list[str], roles: dict[str, int]
) -> None:
    assert gpus_by_role(settings(*SIZES, *flags)) == roles


def test_a_cluster_with_enough_is_accepted_however_many_nodes_it_has(settings: Callable[..., Settings]) -> None:
    flags = settings(*SIZES)
    check_cluster(flags, [node(5, 5)], logical=True)
    check_cluster(flags, [node(4, 2), node(1, 3), node(0, 8)], logical=False)


@pytest.mark.parametrize(
    ("nodes", "has", "fix"),
    [
        ([node(0, 8)], "0 and 8", "--num-gpus 5"),
        ([node(1, 8), node(1, 8)], "2 and 16", "--num-gpus 5"),
        ([node(5, 2)], "5 and 2", "--num-cpus 5"),
    ],
)
def test_a_cluster_that_can_never_be_enough_is_refused_with_what_is_needed_what_there_is_and_what_to_do(
    settings: Callable[..., Settings], nodes: list[dict[str, dict[str, float]]], has: str, fix: str
) -> None:
    with pytest.raises(ClusterTooSmall) as refused:
        check_cluster(settings(*SIZES), nodes, logical=True)
    assert_refusal(str(refused.value), "5 logical GPUs (2 for trainers, 3 for engines)", has, fix)


def test_a_cluster_that_adds_nodes_by_itself_may_be_small_at_first(
    settings: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(GROWS, "1")
    check_cluster(settings(*SIZES), [node(0, 2)], logical=False)
