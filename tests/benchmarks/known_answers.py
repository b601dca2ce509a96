r"""Looks for false accepts among all answers that are known: mutants of references, and answers to other references.

    python tests/benchmarks/known_answers.py mutants [--pairs 100000] [--seed 1] [--show 40]
    python tests/benchmarks/known_answers.py crossed [--pairs 500000] [--seed 1] [--show 40]

A mutant is a reference in which one thing is changed (``generated/known.py``); the cross product has the known answers
with the references of others, all of them or ``--pairs`` that are drawn. Each answer stands in a box. What is paid has
to be shown to be equal: by labelled rows that connect the two, by a calculation of its own
(``generated/independent.py``) or by a person (``generated/judged.jsonl``). The rest is printed with the rule that
decided; the last line says how many they are. Exit code 0 where there is none, else 1.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from generated.independent import shown_equal
from generated.known import SHARED, Known, known, mutants

from math_reward.grader import Grade, grade

JUDGED = Path(__file__).parent / "generated" / "judged.jsonl"


def crossed(material: Known, pairs: int, seed: int) -> Iterator[tuple[str, str, str]]:
    source = random.Random(seed)
    if pairs >= len(material.references) * len(material.answers):
        yield from (("crossed", one, other) for other in material.answers for one in material.references)
    # One answer meets many references in turn, so that it is read once.
    each = max(1, min(len(material.references), pairs // len(material.answers)))
    for answer in source.sample(material.answers, min(len(material.answers), pairs // each)):
        for reference in source.sample(material.references, each):
            yield "crossed", reference, answer


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["mutants", "crossed"])
    parser.add_argument("--pairs", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=40)
    parser.add_argument("--shared", type=Path, default=SHARED, help="a directory with labelled rows")
    arguments = parser.parse_args()

    material = known(arguments.shared)
    judged = {(row["reference"], row["answer"]) for row in map(json.loads, JUDGED.read_text("utf-8").splitlines())}
    drawn = mutants(material.references, arguments.seed) if arguments.what == "mutants" else None
    tried: Counter[str] = Counter()
    shown: Counter[str] = Counter()
    unshown: list[tuple[str, str, str, Grade]] = []
    for name, reference, answer in drawn or crossed(material, arguments.pairs, arguments.seed):
        if tried.total() == arguments.pairs:
            break
        if reference == answer:
            continue
        tried[name] += 1
        graded = grade(rf"\boxed{{{answer}}}", reference)
        if not graded.correct:
            continue
        mine, theirs = material.classes.get(reference), material.classes.get(graded.answer or "")
        if mine is not None and mine == theirs:
            shown["label"] += 1
        elif (reference, answer) in judged:
            shown["judged"] += 1
        elif how := shown_equal(reference, graded.answer or ""):
            shown[how] += 1
        else:
            unshown.append((name, reference, answer, graded))
    print("| kind | pairs | false accepts |\n|---|---|---|")
    wrong = Counter(name for name, *_ in unshown)
    for name, count in tried.items():
        print(f"| {name} | {count:,} | {wrong[name]:,} |")
    print(f"\npaid and shown to be equal: {dict(shown)}")
    for name, reference, answer, graded in unshown[: arguments.show]:
        print(f"FALSE ACCEPT? {name} | {reference} | {answer} | {graded.stage} | {graded.rule or ''}")
    print(f"false accepts: {len(unshown)}")
    return 1 if unshown else 0


if __name__ == "__main__":
    sys.exit(main())
