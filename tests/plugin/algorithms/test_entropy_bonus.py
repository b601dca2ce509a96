"""The controller of the entropy bonus (huggingface/trl#6140), by hand and as properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openrlhf_gtpo.algorithms.entropy_bonus import EntropyController

entropies = st.lists(st.floats(0, 2), max_size=60)


def test_the_coefficient_rises_below_the_target_and_falls_and_pauses_above_it_by_hand() -> None:
    controller = EntropyController(target=0.2, coefficient=0.01, delta=0.005)
    seen = [controller.applied]
    for entropy in (0.1, 0.2, 0.3, 0.25, 0.1):
        controller.update(entropy)
        seen.append(controller.applied)
    # Coefficients 0.01, 0.015, 0.02, 0.015, 0.01, 0.015; above the target nothing is applied.
    assert seen == pytest.approx([0.01, 0.015, 0.02, 0.0, 0.0, 0.015])


@given(entropies)
def test_the_coefficient_agrees_with_a_loop_and_stays_within_its_bounds(values: list[float]) -> None:
    controller = EntropyController(target=0.7, coefficient=0.02, delta=0.01, least=0.01, most=0.05)
    coefficient = 0.02
    for value in values:
        controller.update(value)
        coefficient += 0.01 if value <= 0.7 else -0.01
        coefficient = min(0.05, max(0.01, coefficient))
        assert controller.coefficient == pytest.approx(coefficient)
        assert controller.applied == pytest.approx(coefficient if value <= 0.7 else 0.0)


@given(entropies, entropies)
def test_a_restored_controller_goes_on_as_if_nothing_had_happened(before: list[float], after: list[float]) -> None:
    through, first, second = (EntropyController(target=0.5) for _ in range(3))
    for value in before:
        through.update(value)
        first.update(value)
    second.restore(first.state())
    for value in after:
        through.update(value)
        second.update(value)
    assert second == through
