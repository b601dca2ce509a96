r"""Rows of kinds that users bring, labelled before the grader was run on them, and answers that must not be paid.

``own_rows.jsonl``: kind, reference, an answer (in a box) or a whole completion, the label; ``prompt`` and ``options``
where they are given; ``verdict``, ``found`` (the answer as the completion has it), ``stage``, ``span`` and ``detail``
where the label is not all that has to be so; ``missed`` says why the grader does not know a row, so that the list of
what it does not know stays true.

``cheats.jsonl``: per kind, answers of which none is right for any of the references, but for the pairs under
``right``; or ``pairs`` of a reference and an answer (something infinite, dropped, permuted, or only a part), or
``completions``, pairs of a reference and a whole completion.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from math_reward.grader import Grade, Options, Verdict, grade

from ...refusals import assert_refusal


def _lines(name: str) -> list[dict[str, Any]]:
    text = (Path(__file__).parent / name).read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


ROWS = _lines("own_rows.jsonl")
ATTACKS = _lines("cheats.jsonl")
WITHOUT_ANSWER = (Verdict.NO_ANSWER, Verdict.BAD_REFERENCE, Verdict.PROMPT_NOT_FOUND)
WITH_REASON = (*WITHOUT_ANSWER[1:], Verdict.AMBIGUOUS, Verdict.RESTATED, Verdict.UNEVALUATED, Verdict.TOO_COMPLEX)


def _graded(row: dict[str, Any]) -> Grade:
    prompt, options = row.get("prompt"), msgspec.convert(row.get("options", {}), Options)
    completion = row.get("completion")
    if completion is None:
        completion = (f"{prompt} " if prompt else "") + rf"\boxed{{{row['answer']}}}"
    return grade(completion, row["reference"], prompt, options)


def _as_labelled(row: dict[str, Any]) -> bool:
    found = _graded(row)
    said = {"verdict": found.verdict.value, "found": found.answer, "stage": found.stage and found.stage.value}
    said |= {"span": found.span and list(found.span), "detail": found.detail}
    return found.correct is row["label"] and {**said, **row}.items() >= said.items()


@pytest.mark.parametrize("kind", sorted({row["kind"] for row in ROWS}))
def test_every_row_of_a_kind_is_graded_as_its_label_says(kind: str):
    rows = [row for row in ROWS if row["kind"] == kind and "missed" not in row]

    assert [row for row in rows if not _as_labelled(row)] == []


def test_a_grade_has_the_reward_the_answer_the_reference_and_the_reason_that_belong_to_its_verdict():
    for row in ROWS:
        found = _graded(row)
        assert found.reward == float(found.correct) == float(found.verdict is Verdict.CORRECT)
        assert (found.answer is None) is (found.verdict in WITHOUT_ANSWER), found
        assert found.answer != ""
        if isinstance(row["reference"], str):
            assert found.reference == row["reference"]
        if found.detail is not None or found.verdict in WITH_REASON:
            assert_refusal(str(found.detail))


def test_what_is_listed_as_unknown_is_unknown_and_never_paid_wrongly():
    missed = [row for row in ROWS if "missed" in row]

    assert [row for row in missed if _graded(row).correct] == []
    assert all(row["label"] for row in missed)
    assert len(missed) <= 0.03 * len(ROWS)


@pytest.mark.parametrize("attack", [attack for attack in ATTACKS if "answers" in attack], ids=lambda a: a["kind"])
def test_no_cheating_answer_of_a_kind_is_paid(attack: dict[str, Any]):
    right = {tuple(pair) for pair in attack["right"]}
    graded = [
        (reference, answer, grade(rf"\boxed{{{answer}}}", reference).verdict)
        for reference in attack["references"]
        for answer in attack["answers"]
    ]

    assert [pair for *pair, verdict in graded if verdict is Verdict.CORRECT and tuple(pair) not in right] == []
    assert [pair for *pair, verdict in graded if verdict in (Verdict.ERROR, Verdict.BAD_REFERENCE)] == []


PAIRS = [pair for attack in ATTACKS for pair in attack.get("pairs", ())]


@pytest.mark.parametrize(("reference", "answer"), PAIRS)
def test_no_cheating_answer_to_a_reference_is_paid(reference: str, answer: str):
    assert grade(rf"\boxed{{{answer}}}", reference).verdict not in (Verdict.CORRECT, Verdict.ERROR)


@pytest.mark.parametrize("reference", ["y=2x+1", "PV=nRT", "x>2", "(1,2)", r"\{1,2,9\}", "1:7", "dog", "7 million"])
def test_no_answer_that_cheats_one_reference_is_paid_for_another(reference: str):
    answers = sorted({answer for _, answer in PAIRS})

    assert [answer for answer in answers if grade(rf"\boxed{{{answer}}}", reference).correct] == []


COMPLETIONS = [pair for attack in ATTACKS for pair in attack.get("completions", ())]


@pytest.mark.parametrize(("reference", "completion"), COMPLETIONS)
def test_no_cheating_completion_is_paid(reference: str, completion: str):
    assert grade(completion, reference).verdict not in (Verdict.CORRECT, Verdict.ERROR)
