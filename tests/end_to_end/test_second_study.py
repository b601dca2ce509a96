"""The second entropy study: its arms, what its records keep, and its tables, of records whose answer is known."""

import dataclasses
import json
import random
from pathlib import Path

import pytest
import torch

import designs
import inference
import one_dose
import pivotal
import pivotal_study
import pivotal_study_1
import record
import traps_study
from openrlhf_gtpo.algorithms import estimators
from openrlhf_gtpo.algorithms.estimators import Rollouts
from record import Record

from .test_policies import flags_of, replicates, saved


def study(design: designs.Design, out: Path) -> designs.Study:
    arms = tuple(arm.key for arm in design.arms)
    rest = (1, design.learning_rate, out / "warm_start", None, design.final_prompts)
    return designs.Study(design, out, arms, None, design.steps, *rest, policies=design.policies)


# --- equality within a bound


def test_two_arms_are_equal_within_a_bound_where_the_90_percent_interval_lies_inside_it() -> None:
    gaps = {policy: [gap] for policy, gap in enumerate((0.004, -0.006, 0.011, 0.002, 0.009, -0.003))}
    found = inference.paired(replicates(gaps), dict.fromkeys(replicates(gaps), 0.0), by_policy=True)
    assert found is not None
    half = inference.quantile(0.95, 5) * found.deviation / 6**0.5
    edge = found.mean + half
    assert found.equivalent(edge) == pytest.approx(0.05)
    assert found.equivalent(edge + 1e-4) < 0.05 < found.equivalent(edge - 1e-4)
    assert found.equivalent(found.mean) == pytest.approx(0.5), "a difference at the bound"
    assert found.equivalent(0.001) > 0.5, "a difference outside it"


# --- arms


def test_the_arms_of_the_traps_have_one_filter_one_clip_and_one_number_of_prompts(tmp_path: Path) -> None:
    one = study(traps_study.DESIGN, tmp_path)
    jobs = one.jobs_in_order()
    shared = (
        *("algo.dynamic_filtering_enable", "algo.dynamic_filtering_range", "actor.eps_clip_low_high"),
        *("actor.min_lr_ratio", "actor.adam.lr", "train.max_steps", "data.prompt_dataset", "algo.kl.init_coef"),
        *("rollout.n_samples_per_prompt", "rollout.max_new_tokens", "train.batch_size", "train.seed"),
    )
    found = {job.arm.key: flags_of(designs.training(one, job)) for job in jobs if job.policy == 2}
    for flag in shared:
        assert len({str(flags[flag]) for flags in found.values()}) == 1, flag
    kinds = {key: (flags["shaping.alpha2"], flags["shaping.weights"]) for key, flags in found.items()}
    assert kinds["gtpo_0"] == (0.0, "entropy")
    assert kinds["gtpo_0.1"] == kinds["grpo_s_0.1"] == (0.1, "entropy")
    assert kinds["inverse_0.1"] == (0.1, "inverse")
    assert not any(found[key]["shaping.grop"] for key in ("gtpo_0", "gtpo_0.1", "grpo_s_0.1", "inverse_0.1"))


def test_the_two_doses_differ_in_the_dose_alone(tmp_path: Path) -> None:
    one = study(one_dose.DESIGN, tmp_path)
    none, paper = (flags_of(designs.training(one, designs.Job(arm, 3, 5))) for arm in one_dose.ARMS)
    differing = {flag for flag in none if none[flag] != paper[flag]}
    assert differing == {"shaping.alpha2", "ckpt.output_dir", "ckpt.path", "logger.metrics_path"}
    assert (none["shaping.alpha2"], paper["shaping.alpha2"]) == (0.0, 0.1)
    assert len(one.jobs_in_order()) == 48


@pytest.mark.parametrize(
    ("design", "dose", "policies"), [(pivotal_study.DESIGN, 0.1, 4), (pivotal_study_1.DESIGN, 1.0, 6)]
)
def test_the_arms_that_pull_explanations_apart_differ_in_their_weights_alone(
    design: designs.Design, dose: float, policies: int, tmp_path: Path
) -> None:
    one = study(design, tmp_path)
    found = {job.arm.key: flags_of(designs.training(one, job)) for job in one.jobs_in_order() if job.policy == 3}
    own = {"pivotal.weights", "pivotal.dose", "ckpt.output_dir", "ckpt.path", "logger.metrics_path"}
    for flags in found.values():
        assert {flag for flag in flags if flags[flag] != found["real"][flag]} <= own
    assert {key: flags["pivotal.dose"] for key, flags in found.items() if flags["pivotal.dose"] != dose} == {"none": 0}
    assert [key for key, flags in found.items() if flags["pivotal.weights"] == "entropy"] == ["none", "real"]
    assert len(one.jobs_in_order()) == policies * 8


# --- weights of part C


@pytest.fixture
def rollouts() -> Rollouts:
    """One group of three right responses and one wrong one, three tokens each; the second is pivotal."""
    entropy = torch.tensor([[0.1, 2.0, 0.2], [0.3, 2.4, 0.1], [0.2, 1.6, 0.3], [0.1, 2.2, 0.4]])
    correct = torch.tensor([True, True, True, False])
    mask, group, reward = torch.ones(4, 3, dtype=torch.bool), torch.zeros(4, dtype=torch.long), correct.float()
    return Rollouts(entropy, -entropy, mask, correct, group, reward, torch.zeros(4))


def test_real_weights_and_none_are_those_of_gtpo(rollouts: Rollouts) -> None:
    for dose in (0.0, 1.0):
        ours = pivotal.pivotal(rollouts, weights="entropy", dose=dose)
        assert torch.equal(ours.advantages, estimators.gtpo(rollouts, alpha2=dose).advantages)


def test_an_indicator_has_the_mean_of_its_kind_at_every_token(rollouts: Rollouts) -> None:
    on = rollouts.entropy > pivotal.PIVOTAL
    values = pivotal.weighed("indicator", rollouts, on)
    # (2.0 + 2.4 + 1.6 + 2.2) / 4 and (0.1 + 0.2 + 0.3 + 0.1 + 0.2 + 0.3 + 0.1 + 0.4) / 8
    assert values[on].tolist() == pytest.approx([2.05] * 4)
    assert values[~on].tolist() == pytest.approx([0.2125] * 8)


def test_an_average_over_shuffles_nears_equal_shares_in_every_position_of_a_class(rollouts: Rollouts) -> None:
    values = pivotal.weighed("average", rollouts, rollouts.entropy > pivotal.PIVOTAL)
    right = rollouts.entropy[:3].mean(0)
    assert (values[:3] - right).abs().max() < (rollouts.entropy[:3] - right).abs().max() / 2
    assert values[:3].sum(0).tolist() == pytest.approx(rollouts.entropy[:3].sum(0).tolist()), "shares add up"
    assert values[3].tolist() == pytest.approx(rollouts.entropy[3].tolist()), "a class of one has nothing to shuffle"


# --- records


def test_a_record_has_the_mean_entropy_of_the_operations_in_each_step(tmp_path: Path) -> None:
    lines = [
        {"step": 1, "tokens": ["c", "3", "*", "9"], "entropy": [1.0, 0.0, 0.6, 0.0]},
        {"step": 1, "tokens": ["c", "+", " is ", "*"], "entropy": [1.0, 0.2, 2.0, 0.1]},
        {"step": 3, "tokens": ["+"], "entropy": [0.5]},
    ]
    (tmp_path / "rollouts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert record.entropy_of(("*", "+"), tmp_path, 3) == (0.3, None, 0.5)


# --- tables


def on_traps(arm: str, policy: int, right: tuple[int, ...]) -> Record:
    series = {"entropy": (0.5, 0.4, 0.3), "length": (50.0,) * 3}
    # Three right responses of 32 are below a tenth, four are not.
    solved = {"start": (3, 4, 0, 0), "final": right}
    about = {"policy": policy, "solved": solved, "operations": (0.6, None, 0.2), "final": {"response_length": 48.0}}
    return Record(arm, 0, (arm,), 80, "abc", 200.0, (), series, **about)


def test_hard_prompts_are_those_that_began_below_a_tenth() -> None:
    found = traps_study.outcomes(on_traps("dapo", 0, (32, 16, 0, 8)))
    assert found["mean@32"] == pytest.approx((1 + 0.5 + 0 + 0.25) / 4)
    assert found["pass@32"] == 3 / 4
    assert found["pass@32, hard prompts"] == pytest.approx(2 / 3)
    assert found["mean@32, hard prompts"] == pytest.approx(1.25 / 3)
    assert found["entropy of operations at the end"] == pytest.approx(0.4)
    assert found["rebound"] == 0


def test_a_planted_gain_on_hard_prompts_is_found_in_its_family(tmp_path: Path) -> None:
    rng = random.Random(3)
    records = []
    for policy in range(6):
        for arm in traps_study.ARMS:
            kept = 20 if arm.key == "gtpo_0.1" else 4
            right = tuple(int(n < kept + rng.choice((0, 0, 1))) for n in range(40))
            mine = on_traps(arm.key, policy, right)
            records.append(dataclasses.replace(mine, solved={"start": (0,) * 40, "final": right}))
    text = traps_study.analyse(saved(tmp_path, records), tmp_path)
    family = text[text.index("What entropy does") : text.index("What the paper says")]
    rows = [line.split("|") for line in family.splitlines() if "pass@32, hard prompts" in line]
    assert [row[4].strip().startswith("**") for row in rows] == [True, True, False]
    assert float(rows[0][4].strip(" *").split(" ")[0]) == pytest.approx(16 / 40, abs=0.03)
    assert (tmp_path / "table.md").read_text() == text


def test_the_table_of_the_dose_tells_a_gain_from_equality(tmp_path: Path) -> None:
    rng = random.Random(7)

    def made(arm: str, policy: int, seed: int, rate: float) -> Record:
        rows = tuple({"step": step, "pass@1": rate, "entropy": 0.4} for step in (0, 16, 32))
        series = {"entropy": (0.3,) * 32, "length": (80.0,) * 32, "reward": (rate - 0.1, rate + 0.1) * 16}
        return Record(arm, seed, (arm,), 32, "abc", 100.0, rows, series, policy=policy)

    def row(gain: float) -> list[str]:
        records = []
        for policy in range(6):
            for seed in range(4):
                level = 0.5 + 0.1 * rng.random()
                for arm, more in (("gtpo_0", 0.0), ("gtpo_0.1", gain)):
                    records.append(made(arm, policy, seed, level + more + rng.gauss(0, 0.005)))
        text = one_dose.DESIGN.analyse(saved(tmp_path, records), tmp_path)
        primary = text[text.index("Primary") : text.index("Secondary")]
        (found,) = [line for line in primary.splitlines() if "pass rate in training" in line]
        return [cell.strip() for cell in found.strip("|").split("|")]

    gain, none = row(0.05), row(0.0)
    assert (tmp_path / "differences.png").read_bytes().startswith(b"\x89PNG")
    assert gain[3].startswith("**+0.0")
    assert float(gain[-1]) > 0.5
    assert not none[3].startswith("**")
    assert float(none[-1]) < 0.05
