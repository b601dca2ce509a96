"""What is loaded when: the library loads what an answer needs, and the commands run where only the library is.

Each test has a Python of its own, since this one has loaded everything.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from math_reward.grader import Stage

HEAVY = ("fastapi", "starlette", "pydantic", "pydantic_settings", "uvicorn", "httpx", "tqdm", "sympy", "mpmath")
OF_THE_SERVER = (*HEAVY[:6], "anyio", "httptools", "prometheus_client")

PROGRAM = """
import json, sys
from math_reward.grader import grade
for completion, reference in json.load(sys.stdin):
    found = grade(completion, reference)
    assert found.correct, found
    print(found.stage.value, *(name for name in sys.argv[1:] if name in sys.modules))
print("end", *(name for name in sys.argv[1:] if name in sys.modules))
"""


def loaded(*answers: tuple[str, str]) -> list[list[str]]:
    """For each correct answer the stage that decided and the packages of HEAVY that are loaded then; at last these."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *HEAVY], input=json.dumps(answers), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines()]


def test_importing_the_library_loads_nothing_heavy():
    assert loaded() == [["end"]]


def test_an_ordinary_answer_loads_nothing_heavy():
    answers = {
        (r"\boxed{42}", "42"): Stage.STRING,
        (r"\boxed{\frac{1}{2}}", "0.5"): Stage.EXACT,
        (r"\boxed{\{3, -1\}}", "-1, 3"): Stage.STRUCTURE,
        (r"\boxed{\sqrt{2}}", "1.41"): Stage.NUMERIC,
        ("The answer is 3/4.", "0.75"): Stage.EXACT,
    }
    assert loaded(*answers) == [*([stage.value] for stage in answers.values()), ["end"]]


def test_an_answer_that_needs_many_digits_loads_mpmath_and_one_that_needs_sympy_both():
    many_digits = (r"\boxed{(x+1)^2}", "x^2+2x+1")
    symbols = (r"\boxed{n-10}", r"\frac{(n-10)!}{(n-11)!}")
    assert loaded(many_digits, symbols) == [
        ["numeric", "mpmath"],
        ["sympy", "sympy", "mpmath"],
        ["end", "sympy", "mpmath"],
    ]


@pytest.fixture
def bare(tmp_path: Path) -> list[str]:
    """A Python in which none of the service's packages can be imported, as with the library alone."""
    raising = "raise ModuleNotFoundError(f\"No module named '{__name__}'\", name=__name__)"
    for name in OF_THE_SERVER:
        (tmp_path / f"{name}.py").write_text(raising, encoding="utf-8")
    start = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from math_reward.cli import main; main()"
    return [sys.executable, "-c", start]


def test_grade_needs_no_package_of_the_service(bare: list[str], tmp_path: Path):
    one = subprocess.run([*bare, "grade", r"\boxed{42}", "42"], capture_output=True, text=True, timeout=120)
    assert (one.returncode, one.stdout.split()[:2]) == (0, ["verdict", "correct"]), one.stderr
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"completion": "so \\\\boxed{42}", "reference": [42, "43"]}\n', encoding="utf-8")
    file = [*bare, "grade", "--workers", "1", "--json", "--file", str(rows)]
    many = subprocess.run(file, capture_output=True, text=True, timeout=120)
    assert many.returncode == 0, many.stderr
    assert json.loads(many.stdout)["verdicts"] == {"correct": 1}


def test_serve_without_its_packages_says_in_one_sentence_what_to_install(bare: list[str]):
    done = subprocess.run([*bare, "serve"], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "math-reward: No module named 'uvicorn', which the service needs: pip install 'math-reward[server]'.\n"
    )
