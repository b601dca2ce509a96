"""The entropy study on GPUs: its arithmetic by hand, its commands by dry runs, its records by pretended runs."""

import dataclasses
import json
import os
import re
import sys
from pathlib import Path
from typing import ClassVar

import pytest

import entropy_study
import gpu_hours
import gpu_study
import record
from designs import Job
from openrlhf_gtpo.driver import hours
from openrlhf_gtpo.driver.hours import Input, Inputs, Shape

ROOT = Path(__file__).resolve().parents[2]


# --- the arithmetic


def fixed_input(value: float) -> Input:
    return Input(value, value, value, "", "assumed", "")


BY_HAND = Inputs(
    speed=fixed_input(1_000),
    alone=fixed_input(0.01),
    utilization=fixed_input(0.5),
    length=fixed_input(90),
    prompt=fixed_input(10),
    fixed=fixed_input(3),
    start=fixed_input(60),
    filtering=fixed_input(2),
)
SHAPE = Shape(parameters=10**9, gpus=2, steps=10, responses=100, longest=200, evaluations=4, evaluated=40)


def test_a_run_s_wall_time_by_hand() -> None:
    # A step writes 100 * 90 tokens at 2 * 1,000 a second, 4.5 s, and waits 200 * 0.01 = 2 s for the longest: 65 s.
    # It trains on 100 * 100 tokens: 8 * 1e9 * 1e4 = 8e13 operations at 2 * 989e12 / 2 a second, 0.0809 s: 0.809 s.
    # An evaluation writes 40 * 90 tokens in 1.8 s and waits 2 s: 15.2 s for four.
    found = hours.seconds(SHAPE, BY_HAND, "likely")
    assert found.generation == pytest.approx(65)
    assert found.training == pytest.approx(0.8089, abs=1e-4)
    assert (found.fixed, found.start) == (30, 60)
    assert found.evaluation == pytest.approx(15.2)
    assert found.total == pytest.approx(171.0089, abs=1e-4)


def test_an_arm_that_filters_writes_more_and_trains_on_as_much() -> None:
    # 18,000 tokens a step take 9 s instead of 4.5.
    plain, filtered = (hours.seconds(SHAPE, BY_HAND, "likely", filters) for filters in (False, True))
    assert filtered == dataclasses.replace(plain, generation=pytest.approx(110))


def test_gpu_hours_are_the_runs_wall_time_times_their_gpus() -> None:
    # 3 runs of 171.0089 s and 1 that filters, 216.0089 s, on 2 GPUs each.
    assert gpu_hours.gpu_hours(SHAPE, BY_HAND, "high", runs=4, filtering_runs=1) == pytest.approx(
        2 * (3 * 171.0089 + 216.0089) / 3600, abs=1e-6
    )


def test_one_input_at_a_time_leaves_the_others_likely() -> None:
    # A run takes 171.0089 s with a start of 60 s, on 2 GPUs; 3,600 runs, so that hours are seconds:
    # 2 * (171.0089 - 60 + 24) = 270.02 and 2 * (171.0089 - 60 + 60060) = 120342.02.
    inputs = dataclasses.replace(BY_HAND, start=Input(24, 60, 60_060, "", "assumed", ""))
    told = gpu_hours.one_at_a_time([("by hand", SHAPE, inputs, 3600, 0)])
    assert "| start | 270 to 120,342 |" in told
    assert "| fixed | 342 to 342 |" in told


@pytest.mark.parametrize("inputs", hours.INPUTS.values(), ids=map(" ".join, hours.INPUTS))
def test_every_input_goes_from_cheap_to_expensive_and_names_a_source(inputs: Inputs) -> None:
    for part in dataclasses.fields(inputs):
        one: Input = getattr(inputs, part.name)
        cost = [1 / one.at(case) if part.name in ("speed", "utilization") else one.at(case) for case in hours.CASES]
        assert cost == sorted(cost)
        assert one.kind in ("ours", "others", "computed", "assumed")
        assert one.source
        assert one.kind != "others" or "https://" in one.source


def test_the_arithmetic_meets_a_whole_loop_that_others_measured() -> None:
    """NeMo RL 0.4: GRPO of Llama 3.1 8B on 16 H100s, 2,048 responses a step, 1,060 tokens with the prompt, 97.7 s."""
    inputs = dataclasses.replace(hours.LARGE, length=fixed_input(910), prompt=fixed_input(150), start=fixed_input(0))
    shape = Shape(parameters=8_030_261_248, gpus=16, steps=1, responses=2048, longest=4096, evaluations=0, evaluated=0)
    low, likely, high = (hours.seconds(shape, inputs, case).total for case in hours.CASES)
    assert low < 97.7 < high
    assert 97.7 / 1.25 < likely < 97.7 * 1.25


# --- the settings


def prepared(folder: Path) -> dict[str, str]:
    for name, count in (("train", 1), ("heldout", 300)):
        rows = [json.dumps({"input": f"{name} {number}", "label": "2"}) for number in range(count)]
        (folder / f"{name}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return {
        **{
            name: value
            for name, value in os.environ.items()
            if name not in ("MODEL", "GPUS", "STEPS", "ARMS", "SEEDS", "TASK", "SIZE")
        },
        "DATA": str(folder / "train.jsonl"),
        "EVAL": str(folder / "heldout.jsonl"),
        "OUT": str(folder / "out"),
        "GPU_GB": "80",
        "HF_HUB_OFFLINE": "0",
    }


def flags_of(command: list[str]) -> dict[str, object]:
    from openrlhf_gtpo.driver import command_line, presets

    return command_line.parse(presets.expand(command[3:]).arguments).flags


@pytest.mark.parametrize(("size", "task"), hours.INPUTS)
def test_the_flags_of_every_arm_are_accepted_and_differ_in_the_arm_s_own_alone(
    size: str, task: str, tmp_path: Path
) -> None:
    environment = prepared(tmp_path) | {"SIZE": size, "TASK": task}
    study = gpu_study.study_of(environment)
    laptop = {arm.key: arm for arm in entropy_study.DESIGN.arms}
    assert set(study.arms) == set(laptop)
    shared = None
    for arm in study.design.arms:
        assert (arm.title, arm.seeds, arm.rank) == (laptop[arm.key].title, laptop[arm.key].seeds, laptop[arm.key].rank)
        flags = flags_of(gpu_study.training(study, Job(arm, 3), environment))
        # What a response may take is the script's, and the overlong punishment of the arms follows it.
        assert flags["rollout.max_new_tokens"] == study.design.max_new_tokens
        if arm.key.startswith("dapo"):
            assert flags["reward.overlong_buffer_len"] == study.design.max_new_tokens // 4
        assert flags["train.seed"] == 3
        assert flags["train.max_steps"] == study.steps
        assert flags["eval.steps"] * 4 == study.steps
        # Four updates a step, groups of 16.
        assert flags["rollout.n_samples_per_prompt"] == 16
        assert flags["rollout.batch_size"] * 16 == 4 * flags["train.batch_size"]
        assert flags["actor.num_gpus_per_node"] == flags["vllm.num_engines"] == study.gpus
        own = ("algo.", "shaping.", "reward.", "actor.eps_clip", "actor.loss", "actor.entropy", "ckpt.", "logger.")
        rest = {name: value for name, value in flags.items() if not name.startswith(own)}
        shared = shared or rest
        assert {name: value for name, value in rest.items() if value != shared[name]} == {}, arm.key


@pytest.mark.parametrize("dose", ["1", "3"])
def test_real_and_shuffled_differ_in_the_weights_alone(dose: str, tmp_path: Path) -> None:
    environment = prepared(tmp_path)
    study = gpu_study.study_of(environment)
    real, shuffled = (
        flags_of(gpu_study.training(study, Job(study.design.arm(f"{name}_{dose}"), 0), environment))
        for name in ("gtpo", "gtpo_shuffled")
    )
    differing = {name for name in real if real[name] != shuffled[name]}
    assert differing == {"shaping.weights", "ckpt.output_dir", "ckpt.path", "logger.metrics_path"}


@pytest.mark.parametrize(("size", "memory"), [("1.5b", "53.8"), ("7b", "73.0")])
def test_a_dry_run_prints_each_arm_s_command_and_memory_and_writes_nothing(
    size: str, memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (prepared(tmp_path) | {"SIZE": size, "ARMS": "dapo,edge", "SEEDS": "2"}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["gpu_study.py", "--dry-run"])
    assert gpu_study.main() == 0
    said = capsys.readouterr().out
    told = [line for line in said.splitlines() if line.startswith("== ")]
    assert told == [f"== {arm}: seeds 0 to 1, which differ in --train.seed alone" for arm in ("DAPO", "EDGE-GRPO")]
    assert said.count(" -m openrlhf_gtpo.train --preset ") == 2
    assert said.count(f"at most {memory} GiB of a GPU's 80.0 for training") == 2
    assert "warning" not in said
    assert not (tmp_path / "out").exists()


def test_a_refused_command_is_told_and_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environment = prepared(tmp_path) | {"MODEL": "/no/such/model", "ARMS": "grpo"}
    assert not gpu_study.check(gpu_study.study_of(environment), environment)
    assert "REFUSED: --actor.model_name_or_path: There is no folder /no/such/model" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"SIZE": "3b"}, "SIZE is 3b, but needs to be 1.5b or 7b."),
        ({"TASK": "chess"}, "TASK is chess, but with SIZE=1.5b it needs to be math or gsm8k."),
        ({"SIZE": "7b", "TASK": "math"}, "TASK is math, but with SIZE=7b it needs to be dapo17k."),
        ({"STEPS": "10"}, "STEPS is 10, but needs to be a multiple of 4"),
        ({"STEPS": "many"}, "STEPS is many, but needs to be a whole number from 1 to 100000."),
        ({"SEEDS": "0"}, "SEEDS is 0, but needs to be a whole number from 1 to 64."),
        ({"GPUS": "2"}, "GPUS is 2, but a run of the 1.5b policy takes one GPU"),
        ({"ARMS": "grpo,ppo"}, "ARMS has 'ppo': choose from gtpo_0, "),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(variables: dict[str, str], sentence: str) -> None:
    with pytest.raises(gpu_study.Refused, match=re.escape(sentence)):
        gpu_study.study_of(variables)


def test_what_a_script_refuses_is_its_own_sentence(tmp_path: Path) -> None:
    environment = prepared(tmp_path) | {"GPU_GB": "16"}
    study = gpu_study.study_of(environment)
    with pytest.raises(gpu_study.Refused, match=r"^GPU_GB is 16, but the smallest supported GPU has 24 GiB\.$"):
        gpu_study.training(study, Job(study.design.arms[0], 0), environment)


def test_held_out_prompts_that_are_trained_on_are_refused(tmp_path: Path) -> None:
    environment = prepared(tmp_path)
    study = gpu_study.study_of(environment)
    assert [json.loads(line)["input"] for line in gpu_study.held_out_rows(study)] == [
        f"heldout {number}" for number in range(256)
    ]
    with pytest.raises(gpu_study.Refused, match="EVAL: 1 of its prompts are in DATA too"):
        gpu_study.held_out_rows(gpu_study.study_of(environment | {"EVAL": environment["DATA"]}))
    with pytest.raises(gpu_study.Refused, match="DATA: there is no file"):
        gpu_study.held_out_rows(gpu_study.study_of(environment | {"DATA": str(tmp_path / "nothing.jsonl")}))
    (tmp_path / "other.jsonl").write_text('{"question": "1 + 1"}\n')
    with pytest.raises(gpu_study.Refused, match="has a line without an `input`"):
        gpu_study.held_out_rows(gpu_study.study_of(environment | {"DATA": str(tmp_path / "other.jsonl")}))


# --- runs


class Pretended:
    """In the place of `runner.Runner`: leaves the files that a run and an evaluation leave, in the same places."""

    started: ClassVar[list[str]] = []

    def __init__(self, python: str) -> None:
        pass

    def stop(self) -> None:
        pass

    def call(self, command: list[str], log: Path) -> None:
        if "eval" in command[:4]:
            self.started.append("start")
            out = Path(gpu_study.value_of(command, "--out"))
            out.mkdir()
            figures = {"pass@1": 0.2, "pass@16": 0.6, "entropy_token_mean": 0.5}
            named = {"heldout": {name: {"mean": value} for name, value in figures.items()}}
            (out / "eval.json").write_text(json.dumps({"benchmarks": named}))
            return
        flags = flags_of(command)
        metrics, model = Path(str(flags["logger.metrics_path"])), Path(str(flags["ckpt.output_dir"]))
        self.started.append(metrics.parent.name)
        if metrics.parent.name in STOPPED:
            STOPPED.remove(metrics.parent.name)
            raise SystemExit("interrupted")
        model.mkdir()
        (model / "model.safetensors").write_text("weights")
        (model / "config.json").write_text("{}")
        steps = range(1, int(str(flags["train.max_steps"])) + 1)
        keys = ("entropy/token_mean", "rollout/response_length_mean", "rollout/pass_rate", "reward/items_total")
        metrics.write_text("".join(json.dumps({"step": step, **dict.fromkeys(keys, 0.5)}) + "\n" for step in steps))
        each = int(str(flags["eval.steps"]))
        names = ("pass1", "pass16", "entropy_token_mean")
        rows = [{"step": step, **{f"eval_heldout_{name}": 0.4 for name in names}} for step in steps[each - 1 :: each]]
        (metrics.parent / "evaluations.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


STOPPED: set[str] = set()


def test_an_interrupted_study_goes_on_after_its_finished_runs_and_is_analysed_from_its_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_study, "Runner", Pretended)
    monkeypatch.setattr(gpu_study, "exit_on_signals", lambda: None)
    monkeypatch.setattr(Pretended, "started", [])
    environment = prepared(tmp_path) | {"ARMS": "gtpo_1,gtpo_shuffled_1,grpo", "SEEDS": "2", "STEPS": "8"}
    study = gpu_study.study_of(environment)
    STOPPED.add("gtpo_1-seed-1")
    with pytest.raises(SystemExit, match="interrupted"):
        gpu_study.run(study, environment)
    assert Pretended.started == ["start", "gtpo_1-seed-0", "gtpo_shuffled_1-seed-0", "gtpo_1-seed-1"]

    Pretended.started.clear()
    gpu_study.run(study, environment)
    assert Pretended.started == ["gtpo_1-seed-1", "gtpo_shuffled_1-seed-1", "grpo-seed-0", "grpo-seed-1"]
    made = record.load(study.records)
    assert len(made) == 6
    assert [row["step"] for row in made[0].evaluations] == [0, 2, 4, 6, 8]
    assert made[0].last == {"step": 8, "pass@1": 0.4, "pass@16": 0.4, "entropy": 0.4}
    assert made[0].flags == entropy_study.DESIGN.arm("grpo" if made[0].arm == "grpo" else "gtpo_1").flags
    # The policies' weights are gone, their settings are not.
    assert not list(study.out.rglob("*.safetensors"))
    assert (study.out / "grpo-seed-0" / "model" / "config.json").is_file()
    assert "Real against shuffled entropies" in capsys.readouterr().out
    assert len((study.out / "heldout.jsonl").read_text().splitlines()) == 256

    with pytest.raises(SystemExit, match="holds runs of other settings"):
        gpu_study.run(gpu_study.study_of(environment | {"STEPS": "4"}), environment)
