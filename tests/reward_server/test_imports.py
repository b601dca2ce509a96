"""What is loaded when: the library loads what an answer needs, and the commands run where only the library is.

Each test has a Python of its own, since this one has loaded everything.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from math_reward.grader import Stage

from ..refusals import assert_refusal

HEAVY = ("fastapi", "starlette", "pydantic", "pydantic_settings", "uvicorn", "httpx", "tqdm", "sympy", "mpmath")
OF_THE_SERVER = (*HEAVY[:6], "anyio", "h11", "prometheus_client")

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
        (r"\boxed{x=\frac{4}{8}}", "1/2"): Stage.EXACT,
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


@pytest.mark.parametrize(
    ("modules", "unwanted"),
    [("math_reward.pool.worker_pool", "torch fastapi uvicorn"), ("math_reward.app, math_reward.cli", "torch")],
)
def test_neither_the_service_nor_its_grading_processes_import_torch_nor_these_a_web_framework(
    modules: str, unwanted: str
):
    program = f"import sys, {modules}; print({{*{unwanted.split()}}} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.returncode) == ("set()\n", 0)


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """``python -m`` with what is given, where no package of the service can be imported, as with the library alone."""
    folder = tmp_path / "missing"
    folder.mkdir()
    for name in OF_THE_SERVER:
        raising = f"raise ModuleNotFoundError(\"No module named '{name}'\")"
        (folder / f"{name}.py").write_text(raising, encoding="utf-8")
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])

    def module(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", *arguments]
        environment = {**os.environ, "PYTHONPATH": path}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)

    return module


def test_grade_needs_no_package_of_the_service(run: Any, tmp_path: Path):
    one = run("math_reward", "grade", r"\boxed{42}", "42")
    assert (one.returncode, one.stdout.split()[:2]) == (0, ["verdict", "correct"]), one.stderr
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"completion": "so \\\\boxed{42}", "reference": [42, "43"]}\n', encoding="utf-8")
    many = run("math_reward", "grade", "--workers", "1", "--json", "--file", str(rows))
    assert many.returncode == 0, many.stderr
    assert json.loads(many.stdout)["verdicts"] == {"correct": 1}


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("math_reward serve", ["'uvicorn', which the service needs: pip install 'math-reward[server]'."]),
        ("math_reward.commands.ray_serve", ["'fastapi'", "pip install 'math-reward[server,ray-serve]'"]),
    ],
)
def test_the_service_without_its_packages_says_what_to_install(run: Any, command: str, named: list[str]):
    done = run(*command.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert_refusal(done.stderr, *named)


def test_the_adapters_grade_here_without_httpx_and_a_client_says_what_it_needs(run: Any, tmp_path: Path):
    (tmp_path / "missing" / "here.py").write_text(
        "from math_reward.adapters.trl import MathReward\n"
        "from math_reward.client import Client\n"
        "if __name__ == '__main__':\n"
        "    print(MathReward(workers=1)(['2*3?'], [r'\\boxed{6}'], answer=['6']))\n"
        "    Client('http://127.0.0.1:1')\n"
    )
    done = run("here")
    assert done.stdout == "[1.0]\n", done.stderr
    assert_refusal(done.stderr.splitlines()[-1], "ImportError", "pip install httpx")
