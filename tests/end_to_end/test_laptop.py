"""What surrounds the trainer on a laptop: policy, warm start, the quickstart's refusals."""

import itertools
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import last_digit
import policy
import warm_start

from ..refusals import assert_refusal

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "counting.py"

task = last_digit.TASK


def demonstrations(batch):
    """Each one's (ids, labels), out of the rows that they are packed into; what pads a row is left out."""
    found = []
    for ids, labels, positions in zip(batch["input_ids"], batch["labels"], batch["position_ids"], strict=True):
        starts = [*(positions == 0).nonzero().flatten().tolist(), len(ids)]
        spans = [slice(begin, end) for begin, end in itertools.pairwise(starts)]
        found += [(ids[s], labels[s]) for s in spans if (labels[s] != warm_start.IGNORED).any()]
    return found


def test_demonstrations_in_one_row_do_not_see_each_other():
    """The loss of a packed batch is that of its demonstrations one by one."""
    from transformers import Qwen2ForCausalLM

    tokenizer = policy.build_tokenizer(task)
    config = policy.build_config(task, tokenizer)
    config._attn_implementation = "eager"
    config.initializer_range = 0.3  # so that attention to a stranger would tell
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(config).eval()
    packed = warm_start.batch(task, tokenizer, random.Random(1))
    found = demonstrations(packed)
    assert len(packed["input_ids"]) < len(found) / 2, "several to a row"
    with torch.no_grad():
        together = model(**packed, use_cache=False).loss.item()
        total = learned = 0.0
        for ids, labels in found:
            count = int((labels != warm_start.IGNORED).sum())
            total += model(ids[None], labels=labels[None]).loss.item() * count
            learned += count
    assert together == pytest.approx(total / learned, rel=1e-5)


def test_a_warm_start_gives_the_same_policy_to_the_last_bit_on_any_number_of_cores():
    tokenizer, before = policy.build_tokenizer(task), torch.get_num_threads()
    trained = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)  # as torch finds cores, or OMP_NUM_THREADS
            trained.append(warm_start.train(task, tokenizer, 4, 0))
    finally:
        torch.set_num_threads(before)
    one, other = (list(model.parameters()) for model in trained)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(one, other, strict=True))


def test_a_task_that_cannot_be_is_refused_before_anything_is_written(monkeypatch, tmp_path):
    own = tmp_path / "own.py"
    own.write_text(EXAMPLE.read_text().replace("max_length = 96", "max_length = 24"))
    for name, named in (("sums", ["sums: ", "last_digit"]), (str(own), ["own.py: ", "max_length is 24"])):
        with pytest.raises(SystemExit) as refusal:
            run_warm_start(monkeypatch, tmp_path / "out", "--task", name)
        assert_refusal(str(refusal.value), *named)
        assert not (tmp_path / "out").exists()


def run_warm_start(monkeypatch, out, *flags):
    monkeypatch.setattr(task, "warm_start_steps", 2)
    monkeypatch.setattr(task, "warm_start_batch", 4)
    flags = ("--cache", str(out.parent / "cache"), *flags)
    monkeypatch.setattr(sys, "argv", ["warm_start.py", "--out", str(out), "--prompts", "32", *flags])
    warm_start.main()


@pytest.fixture
def trainings(monkeypatch):
    """The seeds with which a policy was trained, in order."""
    seeds, train = [], warm_start.train

    def counted(task, tokenizer, steps, seed):
        seeds.append(seed)
        return train(task, tokenizer, steps, seed)

    monkeypatch.setattr(warm_start, "train", counted)
    return seeds


def weights_of(folder):
    return (folder / "model" / "model.safetensors").read_bytes()


def test_a_second_run_takes_the_policy_from_the_cache_and_says_so(monkeypatch, tmp_path, trainings, capsys):
    """As the quickstart with another ALGO, which has a folder of its own or the same one."""
    run_warm_start(monkeypatch, tmp_path / "gtpo")
    (kept,) = (path for path in (tmp_path / "cache" / "warm_start").iterdir() if path.is_dir())
    assert f"kept in {kept}" in capsys.readouterr().out
    run_warm_start(monkeypatch, tmp_path / "grpo_s")
    assert f"rm -r {kept}" in capsys.readouterr().out
    run_warm_start(monkeypatch, tmp_path / "gtpo")
    assert trainings == [0]
    assert weights_of(tmp_path / "gtpo") == weights_of(tmp_path / "grpo_s")


def test_another_setting_trains_another_policy(monkeypatch, tmp_path, trainings):
    run_warm_start(monkeypatch, tmp_path / "a")
    run_warm_start(monkeypatch, tmp_path / "a", "--seed", "1")
    own = tmp_path / "own.py"
    own.write_text(EXAMPLE.read_text().replace("warm_start_steps = 400", "warm_start_steps = 2"))
    run_warm_start(monkeypatch, tmp_path / "b", "--task", str(own))
    assert trainings == [0, 1, 0]
    before = warm_start.fingerprint(task, 0)
    monkeypatch.setattr(task, "warm_start_steps", 3)
    assert warm_start.fingerprint(task, 0) != before


def test_a_training_that_is_broken_off_leaves_nothing_that_is_taken_for_a_policy(monkeypatch, tmp_path, trainings):
    check = policy.check_reloaded

    def broken_off(*_):
        raise KeyboardInterrupt  # when the weights are written already

    monkeypatch.setattr(policy, "check_reloaded", broken_off)
    with pytest.raises(KeyboardInterrupt):
        run_warm_start(monkeypatch, tmp_path / "a")
    assert not (tmp_path / "a" / "model").exists()
    monkeypatch.setattr(policy, "check_reloaded", check)
    run_warm_start(monkeypatch, tmp_path / "a")
    assert trainings == [0, 0]
    assert not list((tmp_path / "cache" / "warm_start").glob("*.part"))


def test_the_prompt_files_are_what_openrlhf_reads(monkeypatch, tmp_path):
    run_warm_start(monkeypatch, tmp_path)
    train, held_out = (
        [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        for name in ("train.jsonl", "heldout.jsonl")
    )
    assert len(train) == 32
    assert len(held_out) == warm_start.HELD_OUT_PROMPTS
    assert not {row["input"] for row in train} & {row["input"] for row in held_out}
    for row in train + held_out:
        assert set(row) == {"input", "label", "datasource"}
        expression = re.fullmatch(r"Last digit of ([2-9+*]+)\?", row["input"])[1]
        assert row["label"] == str(eval(expression) % 10)


def run_script(script, **environment):
    return subprocess.run(
        ["bash", ROOT / "launch" / script], env={**os.environ, **environment}, capture_output=True, text=True
    )


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        ("ALGO", "ppo", "ALGO is 'ppo', but has to be gtpo, grpo_s, group_norm or FILE.py:NAME: docs/extending.md."),
        ("ALGO", "none.py:mine", "ALGO is none.py:mine"),
        ("STEPS", "0", "STEPS is '0'"),
        ("STEPS", "ten", "STEPS is 'ten'"),
        ("TASK", "none.py", "TASK is none.py"),
        ("TASK", "sums", "TASK is sums"),
        ("SEED", "-1", "SEED is '-1'"),
    ],
)
def test_the_quickstart_refuses_a_setting_and_names_it(tmp_path, name, value, named):
    done = run_script("quickstart.sh", **{"RUN": str(tmp_path / "run"), name: value})
    assert done.returncode == 1
    assert_refusal(done.stderr, f"launch/quickstart.sh: {named}")
    assert not (tmp_path / "run").exists()
