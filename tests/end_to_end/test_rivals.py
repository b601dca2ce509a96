"""Rivals and controls in the real loop, two steps each."""

import hashlib
import json
from pathlib import Path

import pytest

from .loop import Run, train

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
DELTA = 0.005
pytestmark = pytest.mark.engine


def check_steps(run: Run, first: int = 1) -> None:
    """Two steps that learned and handed their weights on."""
    assert [line["step"] for line in run.metrics[first - 1 :]] == [first, first + 1]
    for line in run.metrics:
        assert line["actor_grad_norm"] > 0
        assert line["mismatch/logprob_gap"] <= run.gap


@pytest.fixture(scope="module")
def bonus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A folder, and the flags of an entropy bonus over two ranks that is always below its target."""
    folder = tmp_path_factory.mktemp("covariance")
    flags = ["--actor.num_gpus_per_node=2", "--actor.entropy_target=9", f"--actor.entropy_coef_delta={DELTA}"]
    return folder, [*flags, f"--ckpt.path={folder / 'checkpoints'}", "--ckpt.save_steps=2"]


@pytest.fixture(scope="module")
def clip_cov(policy: Path, bonus: tuple[Path, list[str]]) -> Run:
    """Clip-Cov with the bonus."""
    folder, flags = bonus
    flags = [*flags, "--clip_cov.share=0.1", "--clip_cov.bounds", "0.0", "9.0", "--train.max_steps=2"]
    return train(policy, folder, "clip_cov", 4, *flags).check()


@pytest.fixture(scope="module")
def kl_cov(policy: Path, clip_cov: Run, bonus: tuple[Path, list[str]]) -> Run:
    """KL-Cov with the bonus, from Clip-Cov's checkpoint on."""
    folder, flags = bonus
    flags = [*flags, "--kl_cov.share=0.1", "--train.max_steps=4", "--ckpt.load_enable"]
    return train(policy, folder, "kl_cov", 4, *flags).check()


def test_clip_cov_cuts_its_share_of_the_tokens(clip_cov: Run) -> None:
    check_steps(clip_cov)
    for line in clip_cov.metrics:
        assert line["clip_cov/between_share"] > line["clip_cov/cut_share"]
        assert 0.05 < line["clip_cov/cut_share"] < 0.15
        assert line["covariance/logprob_mean"] < 0


def test_kl_cov_penalises_its_share_of_the_tokens_once_the_policy_has_moved(kl_cov: Run) -> None:
    check_steps(kl_cov, first=3)
    for line in kl_cov.metrics[2:]:
        assert 0.05 < line["kl_cov/penalised_share"] < 0.3
        assert line["kl_cov/penalty"] > 0, "the second update of a step"


def test_the_bonus_rises_with_every_update_on_all_ranks_and_goes_on_after_a_resumption(
    clip_cov: Run, kl_cov: Run
) -> None:
    # Two updates a step, of 64 responses: coefficients 0 and 1, 2 and 3, ... steps of delta, averaged by tokens over
    # both ranks. If a rank had another one, or the resumption had begun again, a step would be out of its range.
    for line in kl_cov.metrics:
        first = 2 * (line["step"] - 1)
        assert first * DELTA < line["entropy_bonus/coefficient"] < (first + 1) * DELTA
        assert line["entropy_loss"] > 0


@pytest.mark.parametrize(
    ("estimator", "flags", "name"),
    [
        ("gtpo", ["--shaping.weights=shuffled"], "shaping/weight_entropy_correlation"),
        (f"{EXAMPLES / 'shaping_function.py'}:surprise", [], "advantage/std"),
        (
            f"{EXAMPLES / 'less_from_success.py'}:less_from_success",
            ["--less_from_success.weight=0.2"],
            "less_from_success/negative_share",
        ),
    ],
    ids=["shuffled weights", "a function of ones own", "an estimator of ones own"],
)
def test_a_control_a_function_and_an_estimator_of_ones_own_train(
    policy: Path, tmp_path: Path, estimator: str, flags: list[str], name: str
) -> None:
    run = train(policy, tmp_path, estimator, 2, *flags).check()
    check_steps(run)
    assert all(abs(line[name]) > 0 for line in run.metrics)
    hashes = json.loads((tmp_path / "run.json").read_text())["sha256"]
    if estimator != "gtpo":
        file = Path(estimator.rpartition(":")[0])
        assert hashes["algo.advantage.estimator"] == hashlib.sha256(file.read_bytes()).hexdigest()
    else:
        assert all(abs(line[name]) < 0.9 for line in run.metrics), "weights that follow entropy less than entropy does"
