"""Curves: what is smoothed, how far it reaches, and what is averaged over seeds."""

import random
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openrlhf_gtpo.report.curves import curves_of, draw, png, smoothed, svg, width
from openrlhf_gtpo.report.run import Run, Series, read

from .files import lines, run

ENTROPY = ("entropy/token_mean", "entropy", "nats")


def entropies(name: str, values: list[float], first: int = 1) -> Run:
    return Run(name, [{"step": s, "entropy/token_mean": value} for s, value in enumerate(values, first)])


@pytest.fixture
def axes() -> Iterator[Any]:
    figure, axes = plt.subplots()
    yield axes
    plt.close(figure)


def drawn(line: Any) -> list[tuple[float, float]]:
    return list(zip(line.get_xdata(), line.get_ydata(), strict=True))


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=300), st.data())
def test_every_smoothed_value_is_the_mean_of_a_whole_window(values: list[float], data: st.DataObject) -> None:
    half = data.draw(st.integers(0, len(values) // 2))
    points = list(enumerate(values, 1))
    found = smoothed(points, 2 * half + 1)
    assert [step for step, _ in found] == list(range(1 + half, len(values) - half + 1))
    for step, value in found:
        window = values[step - 1 - half : step + half]
        assert len(window) == 2 * half + 1
        assert value == pytest.approx(statistics.fmean(window), abs=1e-8)


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=5))
def test_a_window_is_odd_a_tenth_of_the_longest_and_half_of_the_shortest_at_most(lengths: list[int]) -> None:
    found = width(lengths)
    assert found % 2 == 1
    assert found == 1 or (found <= max(lengths) / 10 + 1 and found <= min(lengths) / 2)
    assert found == 1 or max(lengths) >= 40


def test_a_curve_does_not_end_in_single_batches(axes: Any) -> None:
    """The reward of a batch is noise around 0.8, and 1.0 in the last one; the line does not jump to it."""
    draws = random.Random(0)
    values = [0.8 + draws.uniform(-0.15, 0.15) for _ in range(99)] + [1.0]
    draw(axes, [Series("a", [entropies("a", values)])], ENTROPY, "black")
    line, raw = axes.lines
    assert [step for step, _ in drawn(line)] == list(range(6, 96)), "windows of 11 steps"
    assert all(abs(value - 0.8) < 0.1 for _, value in drawn(line))
    assert drawn(raw)[-1] == (100, 1.0), "the batches themselves are there, thin"
    assert raw.get_linewidth() < line.get_linewidth()
    assert "11 steps" in axes.get_xlabel()


def test_a_short_curve_is_left_as_it_is(axes: Any) -> None:
    draw(axes, [Series("a", [entropies("a", [1.0, 3.0, 2.0])])], ENTROPY, "black")
    (line,) = axes.lines
    assert drawn(line) == [(1, 1.0), (2, 3.0), (3, 2.0)]
    assert axes.get_xlabel() == "step"


def test_the_band_of_a_series_reaches_from_its_lowest_to_its_highest_run(axes: Any) -> None:
    runs = [entropies(f"a-{i}", [1.0 + i, 2.0 + i, 3.0 + i]) for i in (0, 1, 5)]
    draw(axes, [Series("a", runs)], ENTROPY, "black")
    assert axes.lines[0].get_ydata() == pytest.approx([3, 4, 5]), "the means of 1, 2, 6 and so on"
    corners = axes.collections[0].get_paths()[0].vertices
    assert {(x, y) for x, y in corners.tolist()} >= {(1, 1), (1, 6), (3, 3), (3, 8)}


def test_a_mean_over_seeds_ends_where_the_first_of_them_does(axes: Any) -> None:
    """Else the line jumps to the seeds that went on."""
    draw(axes, [Series("a", [entropies("a-1", [1.0, 1.0]), entropies("a-2", [3.0, 3.0, 3.0, 5.0])])], ENTROPY, "black")
    mean, *rest = axes.lines
    assert drawn(mean) == [(1, 2.0), (2, 2.0)]
    assert [drawn(line) for line in rest] == [[(2, 1.0)], [(2, 3.0), (3, 3.0), (4, 5.0)]], "and what went on is thin"


def test_runs_of_different_lengths_are_smoothed_alike(axes: Any) -> None:
    all_series = [Series(name, [entropies(name, [1.0] * n)]) for name, n in (("long", 200), ("short", 30))]
    draw(axes, all_series, ENTROPY, "black")
    assert "15 steps" in axes.get_xlabel()
    assert [drawn(axes.lines[i])[-1][0] for i in (0, 2)] == [193, 23]


def test_what_is_always_zero_is_not_drawn_on_an_axis_of_thousandths(axes: Any) -> None:
    draw(axes, [Series("a", [entropies("a", [0.0] * 50)])], ENTROPY, "black")
    assert axes.get_ylim()[1] == 1


def test_a_picture_takes_the_colour_of_the_text_around_it() -> None:
    picture = svg([Series("a", [entropies("a", [1.0, 2.0])])], ENTROPY)
    assert picture is not None
    assert "currentColor" in picture
    assert "#808080" not in picture
    assert svg([Series("a", [entropies("a", [1.0])])], ("nothing/such", "x", "")) is None


def test_a_document_gets_a_picture_even_where_a_curve_has_no_values() -> None:
    picture = png([Series("a", [entropies("a", [1.0, 2.0])])], [ENTROPY, ("nothing/such", "x", "")], "Title")
    assert picture.startswith(b"\x89PNG")


def test_evaluations_during_training_have_curves_of_their_own(tmp_path: Path) -> None:
    folder = run(tmp_path / "a")
    evaluations = [
        {"step": s, "eval_aime_pass1": 0.1 * s, "eval_aime_pass16": 0.9, "eval_aime_pass4": 0.5} for s in (2, 4)
    ]
    lines(folder / "evaluations.jsonl", evaluations)
    titles = [title for _, title, _ in curves_of([read(folder)])]
    assert titles == ["reward", "entropy", "Pass@1 on aime", "Pass@4 on aime", "Pass@16 on aime"]


def test_how_far_advantages_are_spread_has_a_curve_for_each_class(tmp_path: Path) -> None:
    folder = run(tmp_path / "a")
    lines(folder / "metrics.jsonl", [{"step": 1, "advantage/correct_std": 0.5, "advantage/wrong_std": None}])
    assert [key for key, _, _ in curves_of([read(folder)])] == ["advantage/correct_std"]
    lines(folder / "metrics.jsonl", [{"step": 1, "advantage/correct_std": 0.5, "advantage/wrong_std": 0.7}])
    assert [key for key, _, _ in curves_of([read(folder)])] == ["advantage/correct_std", "advantage/wrong_std"]
