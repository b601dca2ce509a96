"""The settings of a run choose its loss, which keeps the options of OpenRLHF's."""

from collections.abc import Callable

import pytest
import torch
from openrlhf.models.loss import PolicyLoss

from openrlhf_gtpo.guide.loss import GuideLoss, ShapedGuideLoss, SupervisedGuideLoss
from openrlhf_gtpo.policy.covariance_loss import ClipCovLoss, KLCovLoss
from openrlhf_gtpo.policy.loss import SequenceRatioLoss
from openrlhf_gtpo.policy.objective import loss_of
from openrlhf_gtpo.settings import Settings


@pytest.mark.parametrize(
    ("estimator", "flags", "kind", "own"),
    [
        ("rloo", [], PolicyLoss, {}),
        ("gtpo", [], PolicyLoss, {}),
        ("grpo_s", [], SequenceRatioLoss, {}),
        ("clip_cov", ["--clip_cov.bounds", 0.5, 2.0], ClipCovLoss, {"bounds": (0.5, 2.0)}),
        ("kl_cov", ["--kl_cov.coef", 0.5], KLCovLoss, {"coef": 0.5}),
    ],
)
@pytest.mark.parametrize(
    ("guide", "around"),
    [
        ([], None),
        (["--guide.model", "org/guide", "--guide.ratio_shaping", 0.1], ShapedGuideLoss),
        (
            ["--guide.model", "org/guide", "--guide.when", "zero_reward", "--guide.objective", "supervised"],
            SupervisedGuideLoss,
        ),
    ],
)
def test_the_loss_of_a_run(
    settings: Callable[..., Settings],
    estimator: str,
    flags: list[object],
    kind: type[torch.nn.Module],
    own: dict[str, object],
    guide: list[object],
    around: type[GuideLoss] | None,
) -> None:
    theirs = PolicyLoss(clip_eps_low=0.1, clip_eps_high=0.3, dual_clip=3.0)
    args = settings("--algo.advantage.estimator", estimator, *flags, *guide).nested()
    loss = loss_of(args, theirs)
    if around is not None:
        assert isinstance(loss, GuideLoss)
        assert type(loss) is around
        assert getattr(loss, "gamma", 0.1) == 0.1
        loss = loss.loss
    assert type(loss) is kind
    expected = {"clip_eps_low": 0.1, "clip_eps_high": 0.3, "dual_clip": 3.0, **own}
    assert {name: getattr(loss, name) for name in expected} == expected
