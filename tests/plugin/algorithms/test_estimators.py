"""The table of estimators: names, and the functions behind them."""

from openrlhf_gtpo.algorithms.estimators import ESTIMATORS, estimator_named


def test_grpo_is_openrlhfs_group_norm() -> None:
    assert estimator_named("grpo") is estimator_named("group_norm") is ESTIMATORS["group_norm"]
