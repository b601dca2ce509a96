"""The table of estimators: names, and the functions behind them."""

import pytest

from openrlhf_gtpo.algorithms.estimators import ESTIMATORS, estimator_named


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_line_of_the_table_has_a_function_whose_docstring_names_its_paper(name: str) -> None:
    assert "arXiv" in (ESTIMATORS[name].function.__doc__ or "")


def test_grpo_is_openrlhfs_group_norm() -> None:
    assert estimator_named("grpo") is estimator_named("group_norm") is ESTIMATORS["group_norm"]


def test_an_estimator_that_openrlhf_alone_has_is_none_of_ours() -> None:
    assert estimator_named("rloo") is None
