"""The shaped rewards and advantages of GTPO and GRPO-S: worked example, properties, readings, refusals."""

import importlib.util
import math
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from openrlhf_gtpo.shaping import grpo_s, gtpo

_spec = importlib.util.spec_from_file_location("naive_shaping", Path(__file__).with_name("naive_shaping.py"))
naive = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(naive)

BOTH = pytest.mark.parametrize("algorithm", [gtpo, grpo_s])
moderate = settings(max_examples=50, deadline=None)


class Rollouts(NamedTuple):
    entropy: torch.Tensor  # (N, T)
    mask: torch.Tensor  # (N, T)
    correct: torch.Tensor  # (N,)
    group: torch.Tensor  # (N,)

    def positions(self) -> torch.Tensor:
        """(N, T) how many of the response's tokens stand before this column."""
        return self.mask.long().cumsum(1) - 1


def rollouts(rows, correct, group=None, begin=0) -> Rollouts:
    """Responses with the given entropies, the first token of each in column `begin`; NaN off the mask."""
    entropy = torch.full((len(rows), begin + max(map(len, rows))), math.nan, dtype=torch.float64)
    for i, row in enumerate(rows):
        entropy[i, begin : begin + len(row)] = torch.tensor(row, dtype=torch.float64)
    group = torch.tensor(group if group is not None else [0] * len(rows))
    return Rollouts(entropy, ~entropy.isnan(), torch.tensor(correct, dtype=torch.bool), group)


def worked_example() -> Rollouts:
    """Four responses to one prompt, two correct (4 and 2 tokens) and two wrong (3 and 5 tokens)."""
    rows = [[0.90, 0.10, 0.25, 1.60], [0.30, 0.50], [0.05, 0.80, 0.24], [0.40, 0.20, 0.60, 1.20, 0.02]]
    return rollouts(rows, [True, True, False, False], begin=1)


@st.composite
def batches(draw, smallest=0, layouts=("right padded", "after a prompt", "gaps")) -> Rollouts:
    """Up to 3 groups in any order, lengths 0 to 6, entropies in thousandths of a nat from `smallest` to 4 nats."""
    n = draw(st.integers(1, 9))
    t = draw(st.integers(1, 6))
    layout = draw(st.sampled_from(layouts))
    if layout == "gaps":
        mask = draw(st.lists(st.lists(st.booleans(), min_size=t, max_size=t), min_size=n, max_size=n))
    else:
        begin = 2 if layout == "after a prompt" else 0
        lengths = draw(st.lists(st.integers(0, t), min_size=n, max_size=n))
        mask = [[begin <= column < begin + length for column in range(begin + t)] for length in lengths]
    mask = torch.tensor(mask)
    thousandths = st.integers(smallest, 4000)
    nats = draw(st.lists(thousandths, min_size=mask.numel(), max_size=mask.numel()))
    entropy = (torch.tensor(nats, dtype=torch.float64) / 1000).reshape(mask.shape)
    correct = torch.tensor(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    group = torch.tensor(draw(st.lists(st.sampled_from([-3, 5, 10**12]), min_size=n, max_size=n)))
    return Rollouts(entropy, mask, correct, group)


def on(batch: Rollouts, values: torch.Tensor) -> list[list[float]]:
    return [row[keep].tolist() for row, keep in zip(values, batch.mask, strict=True)]


def assert_rows(batch: Rollouts, values: torch.Tensor, expected, tolerance=1e-6):
    for row, wanted in zip(on(batch, values), expected, strict=True):
        assert row == pytest.approx(wanted, abs=tolerance)
    assert (values[~batch.mask] == 0).all()


# The worked example


def test_gtpo_gives_the_worked_example():
    batch = worked_example()
    shaped = gtpo(*batch, eps=0)
    assert_rows(
        batch,
        shaped.rewards,
        [
            [1.15, 1.033333, 1.1, 1.1],
            [1.05, 1.166667],
            [-1.177778, -1.04, -1.142857],
            [-1.022222, -1.16, -1.057143, -1.1, -1.1],
        ],
    )
    assert_rows(
        batch,
        shaped.advantages,
        [
            [1.244470, 1.030509, 1.152772, 1.152772],
            [1.061075, 1.275036],
            [-1.006123, -0.753720, -0.942150],
            [-0.721152, -0.973555, -0.785125, -0.863638, -0.863638],
        ],
    )
    assert shaped.informative.tolist() == [True] * 4


def test_grpo_s_gives_the_worked_example():
    batch = worked_example()
    shaped = grpo_s(*batch, eps=0)
    lengths = [4, 2, 3, 5]
    rewards = [1.128090, 1.071910, -1.114241, -1.085759]
    advantages = [1.050388, 0.948309, -1.025720, -0.973944]
    assert_rows(batch, shaped.rewards, [[r] * n for r, n in zip(rewards, lengths, strict=True)])
    assert_rows(batch, shaped.advantages, [[a] * n for a, n in zip(advantages, lengths, strict=True)])


@pytest.mark.parametrize("anything", [0.0, 0.4, 7.0])
def test_neutral_tokens_have_a_share_of_1_and_the_others_share_as_if_they_were_not_there(anything):
    """At position 0 shares are 1.5, 0.5 and 1 of the correct, 1.6, 0.4 and 1 of the wrong responses; a token that is
    alone beside neutral ones has 1."""
    rows = [[0.9, 0.1], [0.3, anything], [anything, anything], [0.1, 0.2], [0.4, anything], [anything]]
    batch = rollouts(rows, [True, True, True, False, False, False])
    neutral = torch.tensor([[False, False], [False, True], [True, True], [False, False], [False, True], [True, False]])
    shaped = gtpo(*batch, neutral=neutral)
    assert_rows(batch, shaped.rewards, [[1.15, 1.1], [1.05, 1.1], [1.1, 1.1], [-1.16, -1.1], [-1.04, -1.1], [-1.1]])


# What must hold, whatever the rollouts


@BOTH
@moderate
@given(batch=batches(), alpha1=st.floats(0, 2), alpha2=st.floats(0, 2))
def test_whatever_the_entropies_each_position_hands_out_the_same_total_within_bounds(algorithm, batch, alpha1, alpha2):
    shaped = algorithm(*batch, alpha1=alpha1, alpha2=alpha2)
    positions = batch.mask.long().cumsum(1) - 1
    for group in batch.group.unique():
        for wanted, sign in ((True, 1), (False, -1)):
            rows = (batch.group == group) & (batch.correct == wanted)
            for position in positions.unique() if algorithm is gtpo else [0]:  # a response is one unit of GRPO-S
                alive = batch.mask & rows[:, None] & (positions == position)
                rewards, n = sign * shaped.rewards[alive], int(alive.sum())
                if n:
                    assert float(rewards.sum()) == pytest.approx((alpha1 + alpha2) * n, abs=1e-9)
                    assert alpha1 - 1e-12 <= rewards.min() <= rewards.max() <= alpha1 + alpha2 * n + 1e-12
                    assert sign * float(shaped.advantages[alive].mean()) >= -1e-9, "of the class's sign, or 0"


@BOTH
@moderate
@given(
    batch=batches(smallest=10),
    factor=st.floats(0.01, 100),
    left=st.integers(0, 3),
    right=st.integers(0, 3),
    data=st.data(),
)
def test_a_common_factor_padding_and_the_order_of_responses_change_nothing(
    algorithm, batch, factor, left, right, data
):
    # from 1e-4 nats up: below 1e-6 the clamp of the wrong ones would, rightly, change something
    order = torch.tensor(data.draw(st.permutations(range(len(batch.group)))))

    def padded(values, off):
        return torch.nn.functional.pad(values, (left, right), value=off)[order]

    mask = padded(batch.mask, False)
    entropy = padded(batch.entropy, math.nan).mul(factor).where(mask, data.draw(st.sampled_from([math.nan, -5.0])))
    changed, plain = algorithm(entropy, mask, batch.correct[order], batch.group[order]), algorithm(*batch)
    close = {"atol": 1e-9, "rtol": 1e-9}
    torch.testing.assert_close(changed.rewards, padded(plain.rewards, 0.0), **close)
    torch.testing.assert_close(changed.advantages, padded(plain.advantages, 0.0), **close)
    assert torch.equal(changed.informative, plain.informative[order])


@moderate
@given(st.lists(st.booleans(), min_size=2, max_size=10).filter(lambda r: 0 < sum(r) < len(r)), st.integers(0, 2**31))
def test_grpo_s_without_the_entropy_term_is_exactly_grpo(is_correct, seed):
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.rand(1 + k % 4, generator=generator).tolist() for k in range(len(is_correct))]
    batch = rollouts(rows, is_correct)
    outcome = torch.tensor(is_correct, dtype=torch.float64)
    grpo = (outcome - outcome.mean()) / outcome.std(correction=0)
    expected = [[a] * len(row) for a, row in zip(grpo.tolist(), rows, strict=True)]
    assert_rows(batch, grpo_s(*batch, alpha2=0.0, eps=0).advantages, expected, tolerance=1e-9)


@pytest.mark.parametrize(("alpha2", "pivotal"), [(0.1, -0.3628), (1.0, 0.4327), (3.0, 0.6957)])
def test_a_large_dose_gives_pivotal_tokens_of_wrong_responses_a_positive_advantage(alpha2, pivotal):
    # 2 of 8 right; at five positions 1, 1, 2, 3 and 4 of the six wrong tokens are pivotal. Beside certain tokens their
    # share of the punishment is 0, and the k pivotal ones leave 6 / (6 - k) to each of the others, so shares have the
    # variances k / (6 - k), in the mean (0.2 + 0.2 + 0.5 + 1 + 2) / 5 = 0.78. Rewards have the mean -(1 + alpha2) 3/4
    # and the variance (1 + alpha2)^2 3/16 + alpha2^2 * 0.78 * 3/4. At alpha2 = 1: (1.5 - 1) / sqrt(0.75 + 0.585).
    wrong = [[float(row < pivots) for pivots in (1, 1, 2, 3, 4)] for row in range(6)]
    batch = rollouts([[0.5] * 5] * 2 + wrong, [True] * 2 + [False] * 6)
    advantages = gtpo(*batch, alpha2=alpha2).advantages
    assert advantages[2].tolist() == pytest.approx([pivotal] * 5, abs=1e-4)
    assert (advantages[:2] > 0).all()
    assert (advantages[7] < 0).all(), "all of its tokens are certain"


# Where an advantage has another sign than its class


@BOTH
@pytest.mark.parametrize(
    ("dtype", "of_mask", "result", "tolerance"),
    [
        (torch.float64, torch.int64, torch.float64, 0),
        (torch.float32, torch.int32, torch.float32, 2e-6),
        (torch.bfloat16, torch.uint8, torch.float32, 0.02),
        (torch.float16, torch.float32, torch.float32, 0.002),
    ],
)
def test_results_have_the_dtype_of_the_entropies_and_float32_for_half_precision(
    algorithm, dtype, of_mask, result, tolerance
):
    batch = worked_example()
    exact = algorithm(*batch)
    shaped = algorithm(batch.entropy.to(dtype), batch.mask.to(of_mask), batch.correct, batch.group)
    assert shaped.rewards.dtype == shaped.advantages.dtype == result
    torch.testing.assert_close(shaped.advantages.double(), exact.advantages, atol=tolerance, rtol=0)


@BOTH
def test_arguments_are_left_as_they_were_and_no_gradient_flows(algorithm):
    batch = worked_example()
    batch.entropy.requires_grad_()
    before = [tensor.detach().clone() for tensor in batch]
    shaped = algorithm(*batch, entropy_clip=(0.2, 0.5), penalty=torch.tensor([0.0, -0.5, 0.0, 0.0]))
    assert not shaped.rewards.requires_grad
    assert not shaped.advantages.requires_grad
    for tensor, copy in zip(batch, before, strict=True):
        torch.testing.assert_close(tensor.detach(), copy, equal_nan=True, atol=0, rtol=0)


# Hard cases


@BOTH
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_hardly_any_entropy_is_a_share_of_correct_tokens_and_a_millionth_of_a_nat_of_wrong_ones(algorithm, dtype):
    batch = rollouts([[0.0], [1e-12], [0.0], [1e-9], [3e-6]], [True, True, False, False, False])
    batch = batch._replace(entropy=batch.entropy.to(dtype))
    # shares 2 * (0, 1), and 3 * (1, 1, 1/3) / (7/3)
    expected = [[1.0], [1.2], [-1 - 0.9 / 7], [-1 - 0.9 / 7], [-1 - 0.3 / 7]]
    assert_rows(batch, algorithm(*batch).rewards, expected)


@BOTH
@pytest.mark.filterwarnings("ignore:over=")
@pytest.mark.parametrize("eps", [0.0, 1e-8])
def test_rounding_errors_are_not_blown_up_to_advantages(algorithm, eps):
    # every share of a class is equal up to the last float32 digit; normalising that noise would give -1, 0 and 1
    entropy = torch.full((14, 50), 0.7) * (1 + torch.arange(50) / 7)
    mask = torch.ones(14, 50, dtype=torch.bool)
    group = torch.zeros(14, dtype=torch.int64)
    shaped = algorithm(entropy, mask, torch.arange(14) < 7, group, over="class", eps=eps)
    assert (shaped.advantages == 0).all()
    nothing = algorithm(*worked_example(), alpha1=0, alpha2=0, eps=eps)
    assert (nothing.advantages == 0).all(), "where nothing is handed out"


@BOTH
def test_penalties_are_added_to_the_reward_before_it_is_normalised(algorithm):
    # rewards 1.1 - 0.6, 1.1, -1.1 - 0.5; of the correct ones [0.5, 1.1, 0]: mean 1.6 / 3; of the wrong [0, 0, -1.6]
    batch = rollouts([[0.4], [0.4], [0.2]], [True, True, False])
    penalty = torch.tensor([-0.6, 0.0, -0.5], dtype=torch.float64)
    shaped = algorithm(*batch, penalty=penalty, eps=0)
    assert_rows(batch, shaped.rewards, [[0.5], [1.1], [-1.6]])
    mean = 1.6 / 3
    std = math.sqrt((0.25 + 1.21) / 3 - mean**2)
    expected = [[(0.5 - mean) / std], [(1.1 - mean) / std], [-math.sqrt(2)]]
    assert_rows(batch, shaped.advantages, expected)


# The readings


def test_the_batch_scope_takes_mean_and_std_over_all_groups_together():
    batch = rollouts([[0.5]] * 5, [True, True, True, False, False], group=[0, 0, 1, 1, 0])
    shaped = gtpo(*batch, scope="batch", eps=0)
    # 5 units, p = 3/5
    up, down = math.sqrt(2 / 3), -math.sqrt(3 / 2)
    assert_rows(batch, shaped.advantages, [[up], [up], [up], [down], [down]])
    # per group p = 2/3 and 1/2
    own = gtpo(*batch, scope="group", eps=0)
    assert_rows(batch, own.advantages, [[math.sqrt(1 / 2)]] * 2 + [[1.0], [-1.0], [-math.sqrt(2)]])


def test_over_class_normalises_each_class_by_itself_and_warns_its_caller():
    batch = worked_example()
    with pytest.warns(UserWarning, match="comparison") as caught:
        shaped = gtpo(*batch, over="class", eps=0)
    assert [warning.filename for warning in caught] == [__file__]
    rewards = torch.tensor([1.15, 1.1 - 0.2 / 3, 1.1, 1.1, 1.05, 1.1 + 0.2 / 3], dtype=torch.float64)
    expected = (rewards - rewards.mean()) / rewards.std(correction=0)
    torch.testing.assert_close(shaped.advantages[:2][batch.mask[:2]], expected)


@pytest.mark.filterwarnings("ignore:over=")
@pytest.mark.parametrize("scope", ["group", "batch"])
@pytest.mark.parametrize("over", ["group", "class"])
@pytest.mark.parametrize(("algorithm", "reference"), [(gtpo, naive.naive_gtpo), (grpo_s, naive.naive_grpo_s)])
@moderate
@given(data=st.data())
def test_agrees_with_a_naive_reference(algorithm, reference, over, scope, data):
    batch = data.draw(batches())
    n = len(batch.group)
    alpha1, alpha2 = data.draw(st.sampled_from([(1.0, 0.1), (0.9, 0.2), (0.0, 1.0), (1.0, 0.0)]))
    clip = data.draw(st.sampled_from([None, (0.0, 0.5), (0.3, 1.5)]))
    penalties = data.draw(st.none() | st.lists(st.sampled_from([0.0, -0.25, -0.5]), min_size=n, max_size=n))
    shaped = algorithm(
        *batch,
        alpha1=alpha1,
        alpha2=alpha2,
        over=over,
        scope=scope,
        entropy_clip=clip,
        penalty=None if penalties is None else torch.tensor(penalties),
    )
    plain = (tensor.tolist() for tensor in batch)
    rewards, advantages, informative = reference(
        *plain, alpha1, alpha2, over, scope, penalties or [0.0] * n, clip, 1e-8
    )
    close = {"atol": 1e-9, "rtol": 1e-9}
    torch.testing.assert_close(shaped.rewards, torch.tensor(rewards, dtype=torch.float64), **close)
    torch.testing.assert_close(shaped.advantages, torch.tensor(advantages, dtype=torch.float64), **close)
    assert shaped.informative.tolist() == informative


# Refusals

_batch = worked_example()
_flat = torch.ones(4, dtype=torch.float64)


def entropy_with(value: float) -> torch.Tensor:
    entropy = _batch.entropy.clone()
    entropy[1, 1] = value
    return entropy


REFUSED = [
    ({"entropy": _flat}, "shape (N, T)", "(4,)"),
    ({"entropy": torch.ones(4, 5, dtype=torch.int64)}, "float", "int64"),
    ({"entropy": entropy_with(-0.1)}, "-0.1 in response 1, column 1"),
    ({"entropy": entropy_with(math.inf)}, "inf in response 1, column 1"),
    ({"entropy": entropy_with(math.nan)}, "nan in response 1, column 1"),
    ({"mask": _batch.mask[:, :4]}, "shape (4, 6)", "(4, 4)"),
    ({"mask": _batch.mask * 2}, "0 and 1"),
    ({"mask": _batch.mask.to("meta")}, "device", "meta"),
    ({"correct": _batch.correct[:3]}, "bool", "shape (4,)", "(3,)"),
    ({"group": _batch.group[None]}, "integer", "shape (4,)", "(1, 4)"),
    ({"group": _batch.correct}, "integer", "bool"),
    ({"penalty": _flat[:3]}, "float", "shape (4,)", "(3,)"),
    ({"penalty": _flat / 0}, "finite"),
    ({"alpha2": -0.1}, "-0.1"),
    ({"alpha2": math.nan}, "nan"),
    ({"eps": math.inf}, "inf"),
    ({"over": "token"}, "group", "class", "token"),
    ({"scope": "class"}, "group", "batch", "class"),
    ({"entropy_clip": (0.5, 0.2)}, "(0.5, 0.2)"),
    ({"entropy_clip": (-1.0, 0.2)}, "(-1.0, 0.2)"),
    ({"entropy_clip": (math.inf, math.inf)}, "(inf, inf)"),
]


@BOTH
@pytest.mark.parametrize(("wrong", "named"), [(wrong, named) for wrong, *named in REFUSED])
def test_a_bad_argument_is_refused_by_name_in_one_sentence(algorithm, wrong, named):
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))} must ") as refusal:
        algorithm(**{**_batch._asdict(), **wrong})
    said = str(refusal.value)
    assert "\n" not in said
    assert [name for name in named if name not in said] == []
