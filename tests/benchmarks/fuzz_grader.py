r"""Looks for an input on which the grader raises, fails or is slow, guided by which branches an input reaches.

    python tests/benchmarks/fuzz_grader.py --minutes 10 [--corpus labelled.jsonl ...] [--findings DIRECTORY]

Atheris (libFuzzer for Python; ``pip install atheris``, which is no dependency of this project) counts the branches of
``math_reward.grader`` that an input takes and keeps what reaches new ones. An input is a reference, a completion and
options; inputs are joined from pieces of LaTeX and mutated bytes. The corpus is the tests' golden verdicts, shapes
that are made to hurt, and any JSON lines with "gold" and "completion" that are named.

A finding is an exception, the verdict ``error``, or a grade that takes more than 100 ms of CPU time twice in a row. It
is printed and, with ``--findings``, written down; the search goes on. Exit code 0 where there is none, else 1.

SymPy, the last stage, may take long by design, and the deadline of the service's workers is what stops it. Here it is
asked nothing: how often it would have been is printed.
"""

import argparse
import gzip
import json
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

try:
    import atheris
except ImportError:
    sys.exit("This needs Atheris: pip install atheris.")

with atheris.instrument_imports(include=["math_reward.grader"]):
    from math_reward.grader import Mode, Options, Verdict, grade, grading
    from math_reward.grader.mathematics import symbolic

MAX_CPU_SECONDS = 0.1
MAX_BYTES = 4096
SEPARATOR = "\x1f"
"""Stands between the reference and the completion of an input."""
GOLDEN = Path(__file__).resolve().parents[1] / "reward_server" / "grader" / "golden_verdicts.jsonl"
OPTIONS = [
    Options(),
    Options(mode=Mode.STRICT),
    Options(rel_tol=1e-3),
    Options(allow_rounded=True),
]
PIECES = [
    r"\frac{", r"\dfrac12", r"\sqrt{", r"\sqrt[3]{", "}", "{", "(", ")", "[", "]", r"\{", r"\}", "|", r"\left(",
    r"\right)", "^", "^{", "_", "_{", "!", "!!", "%", r"\%", "$", r"\$", "°", "'", ",", ";", ":", ".", "=", "<",
    r"\le ", r"\ne ", "~", "+", "-", r"\pm ", r"\mp ", "*", r"\cdot ", "/", r"\div ", r"\cup ", r"\cap ",
    r"\setminus ", r"\in ", r"\approx ", "0", "1", "2", "10", "99", "0.5", "1.732", "1,000", "1e9", "9" * 40, "1/2",
    "1 1/2", "0.\\overline{3}", "10_2", "3:20", "x", "y", "n", "e", "i", "f(x)=", "x=", "x_1", r"\pi", r"\theta",
    r"\infty", r"\emptyset", r"\mathbb{R}", r"\alpha_{2}", r"\sin ", r"\cos^{2}", r"\log_2 ", r"\ln ", r"\arctan ",
    r"\exp", r"\binom{", r"\gcd(", r"\max(", r"\lfloor ", r"\rfloor ", r"\sum_{n=1}^{9}", r"\int_0^1 ", r"\lim ",
    r"\begin{pmatrix}", r"\end{pmatrix}", "&", r"\\", r"\text{ cm}", r"\text{ or }", " and ", " or ", r"\mid ",
    r"\circ", r"\boxed{", r"\fbox{", "#### ", "The final answer is ", "</think>", "Answer: ", " ", "\n", "４", "²",
    "½", "−", "√", "∞", "∪", "\u200b", r"\text{", r"\mathrm{th}", "million", "percent", "degrees", "for all ",
]  # fmt: skip
SHAPES = [
    ("42", "9^{9^{9^{9}}}"), ("42", "99999999!"), ("42", "(" * 300 + "1" + ")" * 300), ("42", "9" * 2000),
    ("42", "x" + " " * 1990 + "y"), ("42", ", " * 900 + "x"), ("42", r"\frac" * 300 + "12"), ("42", "|" * 200),
    ("42", r"\binom{99999}{5000}"), (r"\{1,2\}", ",".join(map(str, range(190)))),
    ("42", r"\sqrt[64]{" * 30 + "2" + "}" * 30), ("42", "(" + r"\pm 1," * 60 + "2)"), ("x", r"\log " * 90 + "x"),
    ("x", "x^" * 90 + "x"), ("x!", "(x!)!"), ("42", "^ " * 900 + "b"), ("x", "(x+1)^{9999}"),
    ("e^{99999}", "e^{99998}"), (r"\tan(10^{300})", "1"), ("1e400", "1e-400"), ("0", r"\sin(10^{99})"),
]  # fmt: skip


def encode(option: int, reference: str, completion: str) -> bytes:
    return bytes([option]) + (reference + SEPARATOR + completion).encode("utf-8", "surrogatepass")


def decode(data: bytes) -> tuple[Options, str, str]:
    option, text = data[:1], data[1:].decode("utf-8", "replace")
    reference, _, completion = text.partition(SEPARATOR)
    return OPTIONS[(option[0] if option else 0) % len(OPTIONS)], reference, completion


def mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """Puts a piece of mathematics in, takes some out or repeats some; else does what libFuzzer does to bytes."""
    source = random.Random(seed)
    if len(data) < 2 or source.random() < 0.3:
        return bytes(atheris.Mutate(data, max_size))
    text = data[1:].decode("utf-8", "replace")
    begin = source.randrange(len(text) + 1)
    end = min(len(text), begin + source.choice([0, 0, 1, 2, 5, 20]))
    match source.randrange(4):
        case 0:
            middle = ""
        case 1:
            middle = text[begin:end] * source.choice([2, 3, 8, 60])
        case _:
            middle = "".join(source.choices(PIECES, k=source.randint(1, 3)))
    changed = bytes([source.randrange(len(OPTIONS))]) if source.random() < 0.1 else data[:1]
    return (changed + (text[:begin] + middle + text[end:]).encode("utf-8", "replace"))[:max_size]


def corpus(files: list[Path]) -> list[bytes]:
    golden = [json.loads(line) for line in GOLDEN.read_text("utf-8").splitlines()]
    inputs = [encode(0, row["reference"], rf"\boxed{{{row['answer']}}}") for row in golden]
    inputs += [encode(0, answer, rf"\boxed{{{reference}}}") for reference, answer in SHAPES]
    inputs += [encode(0, reference, rf"\boxed{{{answer}}}") for reference, answer in SHAPES]
    for file in files:
        opened = gzip.open if file.suffix == ".gz" else open
        with opened(file, "rt", encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        inputs += [encode(0, str(row["gold"]), str(row["completion"])[-2000:]) for row in rows]
    return inputs


class Fuzzer:
    """Grades one input after another and keeps account of the findings."""

    def __init__(self, findings: Path | None) -> None:
        self.executions = 0
        self.found: dict[str, str] = {}
        self.slowest = 0.0
        self.undecided = 0
        self._directory = findings
        symbolic.equal = self._not_asked

    def __call__(self, data: bytes) -> None:
        options, reference, completion = decode(data)
        self.executions += 1
        try:
            seconds, verdict, detail = self._graded(options, reference, completion)
            if seconds > MAX_CPU_SECONDS:  # Garbage may have been collected: once more.
                seconds, verdict, detail = self._graded(options, reference, completion)
        except Exception:
            where = traceback.format_exc().strip().splitlines()
            self._report(" | ".join(where[-4:]), data)
            return
        self.slowest = max(self.slowest, seconds)
        if seconds > MAX_CPU_SECONDS:
            self._report(f"slow, verdict {verdict.value}", data, f"{seconds:.3f} s")
        if verdict is Verdict.ERROR:
            self._report(f"error: {detail}", data)

    def account(self, minutes: float) -> str:
        return (
            f"{self.executions:,} executions in {minutes:.1f} minutes; the slowest grade took"
            f" {1000 * self.slowest:.0f} ms of CPU time; SymPy would have been asked {self.undecided:,} times;"
            f" {len(self.found)} findings."
        )

    def _not_asked(self, left: object, right: object) -> bool:
        self.undecided += 1
        return False

    def _graded(self, options: Options, reference: str, completion: str) -> tuple[float, Verdict, str | None]:
        grading.forget()
        start = time.process_time()
        result = grade(completion, reference, options=options)
        return time.process_time() - start, result.verdict, result.detail

    def _report(self, kind: str, data: bytes, remark: str = "") -> None:
        if kind in self.found:
            return
        _, reference, completion = decode(data)
        self.found[kind] = f"{kind} {remark}\n  reference  {reference!r}\n  completion {completion!r}"
        print(f"FOUND {self.found[kind]}", flush=True)
        if self._directory is not None:
            self._directory.mkdir(parents=True, exist_ok=True)
            (self._directory / f"{len(self.found):03d}").write_bytes(data)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--corpus", type=Path, nargs="*", default=[], help="JSON lines with gold and completion")
    parser.add_argument("--findings", type=Path, help="a directory to write the inputs to")
    arguments = parser.parse_args()
    fuzzer = Fuzzer(arguments.findings)
    start = time.monotonic()

    seeds = Path(tempfile.mkdtemp(prefix="fuzz-grader-"))

    # libFuzzer never returns: the account is given when the time is up, by the input of that moment.
    def one_input(data: bytes) -> None:
        fuzzer(data)
        minutes = (time.monotonic() - start) / 60
        if minutes > arguments.minutes:
            print(fuzzer.account(minutes), flush=True)
            shutil.rmtree(seeds)
            os._exit(1 if fuzzer.found else 0)

    for index, data in enumerate(corpus(arguments.corpus)):
        (seeds / f"{index:05d}").write_bytes(data[:MAX_BYTES])
    flags = [f"-max_len={MAX_BYTES}", "-timeout=60", "-rss_limit_mb=4096", "-verbosity=0", "-reload=0"]
    atheris.Setup([sys.argv[0], *flags, str(seeds)], one_input, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
