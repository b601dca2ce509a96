"""The glossary: no name is logged without an entry, no entry is about a name that nothing logs, and the page is up to
date."""

import ast
import dataclasses
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from math_reward.client import Stats
from openrlhf_gtpo.algorithms.mixed_policy import guide_statistics
from openrlhf_gtpo.controller.during_training import with_every_k
from openrlhf_gtpo.controller.generator import RewardTally
from openrlhf_gtpo.controller.metrics import rollout_metrics
from openrlhf_gtpo.glossary.__main__ import main, markdown
from openrlhf_gtpo.glossary.entries import GLOSSARY, Entry, describe
from openrlhf_gtpo.guide.groups import MARKS, GuideTally
from openrlhf_gtpo.report.curves import CURVES

ROOT = Path(__file__).resolve().parents[3]
PLUGIN = ROOT / "plugin" / "openrlhf_gtpo"
OF_A_RUN = ROOT / "tests" / "plugin" / "glossary" / "logged_by_a_run.txt"
"""Every name in the metrics.jsonl of a quickstart run (60 steps of GTPO, OpenRLHF 0.11.2)."""


def test_every_name_of_a_real_run_has_an_entry() -> None:
    names = OF_A_RUN.read_text().split()
    assert len(names) > 80
    assert [name for name in names if describe(name) is None] == []


def test_every_entry_without_a_condition_is_logged_by_a_real_run() -> None:
    names = set(OF_A_RUN.read_text().split())
    assert [entry.name for entry in GLOSSARY if not entry.when and entry.name not in names] == []


def test_what_the_plugins_own_functions_log_has_an_entry_of_that_name_in_that_file() -> None:
    n, t = 4, 3
    ones, group = torch.ones(n, t), torch.tensor([0, 0, 1, 1])
    of_batch = rollout_metrics(
        entropy=ones,
        mask=ones,
        correct=torch.tensor([True, False, True, False]),
        group=group,
        advantages=ones,
        shaped_rewards=ones,
        rollout_logprob=ones,
        actor_logprob=ones,
    )
    of_guide = guide_statistics(-ones, -ones, ones, ones, clip_low=0.2, clip_high=0.2)
    made = {
        "controller/metrics.py": of_batch,
        "algorithms/mixed_policy.py": of_guide,
        "controller/generator.py": RewardTally().metrics(),
        "guide/groups.py": {**GuideTally().metrics(), **dict.fromkeys(MARKS)},
        "controller/trainers.py": [f"reward/{field.name}_total" for field in dataclasses.fields(Stats)],
    }
    for file, names in made.items():
        for name in names:
            entry = describe(name)
            assert entry is not None, f"{name} is logged and has no entry in the glossary"
            assert (entry.name, entry.file) == (name, f"plugin/openrlhf_gtpo/{file}")
    of_batch_files = [entry.name for entry in GLOSSARY if entry.file == "plugin/openrlhf_gtpo/controller/metrics.py"]
    assert set(of_batch_files) == set(of_batch), "and it logs all that the glossary says of it"


class _Names(ast.NodeVisitor):
    """Strings such as "subject/what" in a source, f-strings with ``*`` where a value stands."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        self._add("".join(part.value if isinstance(part, ast.Constant) else "*" for part in node.values))  # type: ignore[misc]

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self._add(node.value)

    def _add(self, text: str) -> None:
        if re.fullmatch(r"[a-z_]+/[a-z_*]+|eval_\*_[a-z_*]+", text):
            self.found.add(text)


def names_in_the_sources() -> Iterator[tuple[Path, str]]:
    for path in sorted(PLUGIN.rglob("*.py")):
        if path.parent.name in ("glossary", "report", "doctor", "checks", "data", "stubs"):
            continue  # they read metrics or log none
        visitor = _Names()
        visitor.visit(ast.parse(path.read_text()))
        yield from ((path, name) for name in visitor.found)


NO_METRICS = {"application/json", "utf-8/", "s/token", "tokens/s", "snapshots/*"}
NO_METRICS |= {"actor/pg_clipfrac"}  # verl's


def test_a_name_in_the_plugins_sources_has_an_entry() -> None:
    found = [(path, name) for path, name in names_in_the_sources() if name not in NO_METRICS]
    assert len(found) > 40
    known = [entry.name for entry in GLOSSARY]
    for path, name in found:
        # An f-string may be the beginning of a name: spread() adds the rest.
        pattern = re.escape(name).replace(r"\*", ".*") + (".*" if name.endswith("_") else "")
        assert any(re.fullmatch(pattern, one) for one in known), f"{name} of {path.name} has no entry in the glossary"


def test_an_evaluations_names_have_entries() -> None:
    class Sample:
        def __init__(self, score: float) -> None:
            self.prompts, self.rewards, self.scores = ["1+1"], torch.tensor([score]), torch.tensor([score])
            self.info = {"entropy": torch.tensor([[0.5, 0.25]])}
            self.action_mask = torch.ones(1, 2)

    logs = with_every_k(lambda *_: {"eval_num_samples": 2.0})(
        [(["aime/2024"], ["1+1"], None, None)], [Sample(1), Sample(0)], 2
    )
    assert len(logs) == 9
    assert [name for name in logs if (entry := describe(name)) is None or entry.name != name] == []


@pytest.mark.parametrize("entry", GLOSSARY, ids=lambda entry: entry.name)
def test_an_entry_names_the_file_that_its_metric_is_computed_in(entry: Entry) -> None:
    package = importlib.util.find_spec("openrlhf").submodule_search_locations[0]  # type: ignore[union-attr, index]
    path = Path(package).parent / entry.file if entry.file.startswith("openrlhf/") else ROOT / entry.file
    assert path.is_file()
    literal = entry.name.partition("/")[0] + "/" if "/" in entry.name else entry.name.partition("{")[0]
    assert literal in path.read_text()


def test_no_name_has_two_entries_and_every_entry_says_what_it_is() -> None:
    assert len({entry.name for entry in GLOSSARY}) == len(GLOSSARY)
    for entry in GLOSSARY:
        assert entry.text.endswith(".")
        assert entry.over
        assert "{" not in re.sub(r"\{(k|source|verdict)\}", "", entry.sentence), "no placeholder is left"


def test_a_name_is_described_by_its_own_words() -> None:
    entry = describe("entropy/wrong_token_q90")
    assert entry is not None
    assert (entry.unit, entry.over) == ("nats", "the tokens of wrong responses of a step")
    assert "nine tenths" in entry.text
    lower = describe("eval_open/aime_pass_1_pass16_low")
    assert lower is not None
    assert lower.name == "eval_open/aime_pass_1_pass16_low"
    assert lower.text.startswith("The lower end")
    assert describe("my_own_log") is None


def test_a_family_has_a_name_for_each_of_its_words() -> None:
    classes, parts = ("", "correct_", "wrong_"), ("mean", "q10", "q50", "q90")
    names = [f"entropy/{of}token_{part}" for of in classes for part in parts]
    assert [entry.name for entry in GLOSSARY if re.match(r"entropy/.*token_", entry.name)] == names
    assert describe("entropy/right_token_mean") is None


def test_times_and_counts_of_requests_are_marked_and_nothing_else_is() -> None:
    counters = {f"reward/{field.name}_total" for field in dataclasses.fields(Stats)}
    times = {entry.name for entry in GLOSSARY if entry.unit == "seconds"}
    assert {entry.name for entry in GLOSSARY if not entry.repeats} == counters | times
    for name in ("timing/step_total", "reward/wait_seconds_max", "guide/wait_seconds", "shaping/seconds"):
        assert name in times
    assert "Time that advantages take. *Varies.* |" in markdown()
    assert "marked *Varies.*" in markdown()


def test_what_the_report_draws_is_in_the_glossary() -> None:
    assert [key for key, _, _ in CURVES if describe(key) is None] == []


def test_the_page_is_what_the_command_writes(tmp_path: Path) -> None:
    main([str(tmp_path / "metrics.md")])
    assert (tmp_path / "metrics.md").read_text() == markdown()
    assert (ROOT / "docs" / "metrics.md").read_text() == markdown(), (
        "write it again: python -m openrlhf_gtpo.glossary docs/metrics.md"
    )
    rows = re.findall(r"^\| `(.+?)` \|", markdown(), re.MULTILINE)
    assert sorted(rows) == sorted(entry.name for entry in GLOSSARY)
