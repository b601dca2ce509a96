"""``math-reward rules``: what the grader knows, with examples, for whoever asks why an answer counts."""

import subprocess
import sys
from typing import Any

from ...refusals import assert_refusal


def test_every_table_is_listed_with_its_examples(in_process: Any):
    code, printed, _ = in_process("rules")
    lines = printed.splitlines()

    assert code == 0
    tables = {line.split()[0] for line in lines}
    found = {"thought", "place", "behind", "ending", "value", "phrase", "doubt", "form", "rule", "second", "chance"}
    assert tables == found
    assert all(line.partition("  |  ")[2] for line in lines)
    assert len(lines) == len({*lines}) > 100


def test_the_rule_that_decided_is_found_by_its_words(in_process: Any):
    _, graded, _ = in_process("grade", r"\boxed{(2,1)}", "(1,2)")
    said = next(line for line in graded.splitlines() if line.startswith("rule"))

    code, printed, _ = in_process("rules", said.removeprefix("rule").strip())

    assert code == 0
    assert printed.count("\n") == 1


def test_a_word_that_no_rule_has_is_refused(in_process: Any):
    code, printed, said = in_process("rules", "xylophone")

    assert (code, printed) == (2, "")
    assert_refusal(said, "xylophone")


def test_a_reader_who_has_gone_ends_it_quietly():
    command = f"set -o pipefail; {sys.executable} -m math_reward rules | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True)

    assert (done.returncode, done.stderr) == (0, b"")
