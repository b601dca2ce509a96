"""What surrounds the trainer on a laptop: policy, warm start, the quickstart's report and refusals."""

import builtins
import itertools
import json
import os
import random
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

import gates
import last_digit
import policy
import trail
import warm_start
from last_digit import Expression

from ..refusals import assert_refusal

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = ROOT / "launch" / "quickstart"

task = last_digit.TASK


def test_the_tokenizer_comes_back_from_disk_with_the_same_ids(tmp_path):
    tokenizer = policy.build_tokenizer(task)
    tokenizer.save_pretrained(tmp_path)
    policy.build_config(task, tokenizer).save_pretrained(tmp_path)
    for expression in task.expressions(20, 0, True):
        policy.check_reloaded(task, tokenizer, tmp_path, expression)

    from transformers import AutoTokenizer

    reloaded = AutoTokenizer.from_pretrained(tmp_path)
    for text in ("7*9=3\n\\boxed{3}", "naïve 数学 \t{}", "user's assistants"):
        ids = tokenizer(text).input_ids
        assert reloaded(text).input_ids == ids
        assert reloaded.decode(ids) == text


def test_prompts_go_through_the_chat_template_and_every_digit_is_a_token():
    tokenizer = policy.build_tokenizer(task)
    prompt = policy.chat(task, tokenizer, Expression((4, 7, 9), "+*"))
    assert prompt == "<|im_start|>user\nLast digit of 4+7*9?<|im_end|>\n<|im_start|>assistant\n"
    tokens = [tokenizer.decode([token]) for token in tokenizer(prompt).input_ids]
    question = ["<|im_start|>", "user", "\n", "Last digit of ", *"4+7*9?", "<|im_end|>", "\n"]
    assert tokens == [*question, "<|im_start|>", "assistant", "\n"]


def demonstrations(batch):
    """Each one's (ids, labels), out of the rows that they are packed into; what pads a row is left out."""
    found = []
    for ids, labels, positions in zip(batch["input_ids"], batch["labels"], batch["position_ids"], strict=True):
        starts = [*(positions == 0).nonzero().flatten().tolist(), len(ids)]
        spans = [slice(begin, end) for begin, end in itertools.pairwise(starts)]
        found += [(ids[s], labels[s]) for s in spans if (labels[s] != warm_start.IGNORED).any()]
    return found


def test_only_the_response_is_learned_in_a_batch():
    tokenizer = policy.build_tokenizer(task)
    found = demonstrations(warm_start.batch(task, tokenizer, random.Random(0)))
    assert len(found) == task.warm_start_batch
    for ids, labels in found:
        learned = labels != warm_start.IGNORED
        assert torch.equal(labels[learned], ids[learned])
        prompt, response = tokenizer.decode(ids[~learned]), tokenizer.decode(ids[learned])
        assert re.fullmatch(r"<\|im_start\|>user\nLast digit of \S+<\|im_end\|>\n<\|im_start\|>assistant\n", prompt)
        assert re.search(r"\\boxed\{\d\}<\|im_end\|>$", response)


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


def test_a_task_or_a_skill_that_cannot_be_is_refused_before_anything_is_written(monkeypatch, tmp_path):
    own = tmp_path / "own.py"
    counting = (ROOT / "docs" / "examples" / "counting.py").read_text()
    own.write_text(counting.replace("max_length = 96", "max_length = 24"))
    for flags, named in (
        (["--task", "gates", "--skill", "strong"], ["gates: ", "strong"]),
        (["--task", str(own)], ["own.py: ", "max_length is 24"]),
    ):
        with pytest.raises(SystemExit) as refusal:
            run_warm_start(monkeypatch, tmp_path / "out", *flags)
        assert_refusal(str(refusal.value), *named)
        assert not (tmp_path / "out").exists()


def run_warm_start(monkeypatch, out, *flags):
    monkeypatch.setattr(last_digit.TASK, "warm_start_steps", 2)
    monkeypatch.setattr(gates.TASK, "warm_start_steps", 2)
    for one in (last_digit.TASK, gates.TASK, trail.TASK, trail.STRONG):
        monkeypatch.setattr(one, "warm_start_batch", 4)
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


def test_a_folder_that_has_the_policy_is_left_as_it_is_and_a_half_copy_is_made_whole(monkeypatch, tmp_path, trainings):
    run_warm_start(monkeypatch, tmp_path / "a")
    whole, file = weights_of(tmp_path / "a"), tmp_path / "a" / "model" / "model.safetensors"
    made = file.stat().st_mtime_ns, file.stat().st_ino
    run_warm_start(monkeypatch, tmp_path / "a")
    assert (file.stat().st_mtime_ns, file.stat().st_ino) == made
    (tmp_path / "a" / "model.source").unlink()  # it is written last: without it the copy was broken off
    file.write_bytes(b"half a file")
    run_warm_start(monkeypatch, tmp_path / "a")
    assert weights_of(tmp_path / "a") == whole
    assert trainings == [0]


def test_another_setting_trains_another_policy(monkeypatch, tmp_path, trainings):
    run_warm_start(monkeypatch, tmp_path / "a")
    run_warm_start(monkeypatch, tmp_path / "a", "--seed", "1")
    run_warm_start(monkeypatch, tmp_path / "b", "--task", "gates")
    assert trainings == [0, 1, 0]
    before = warm_start.fingerprint(task, "weak", 0)
    monkeypatch.setattr(task, "warm_start_steps", 3)
    assert warm_start.fingerprint(task, "weak", 0) != before
    assert warm_start.fingerprint(task, "weak", 0) != warm_start.fingerprint(task, "strong", 0)


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


def test_of_two_runs_at_once_one_trains_and_the_other_waits_for_it(monkeypatch, tmp_path, trainings, capsys):
    entered, may_end = threading.Event(), threading.Event()
    train = warm_start.train

    def slow(*arguments):
        entered.set()
        assert may_end.wait(120)
        return train(*arguments)

    monkeypatch.setattr(warm_start, "train", slow)
    monkeypatch.setattr(task, "warm_start_steps", 2)
    monkeypatch.setattr(task, "warm_start_batch", 4)
    found = []
    runs = [
        threading.Thread(target=lambda: found.append(warm_start.kept(tmp_path, task, "weak", 0))) for _ in range(2)
    ]
    runs[0].start()
    assert entered.wait(120)
    waits = threading.Event()
    monkeypatch.setattr(builtins, "print", lambda *said, **_: waits.set() if "waiting for it" in said[0] else None)
    runs[1].start()
    assert waits.wait(120)
    may_end.set()
    for run in runs:
        run.join(120)
    assert trainings == [0]
    assert found[0] == found[1]


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


def response(step, group, correct, tokens):
    numbers = [0.25 * (i + 1) for i in range(len(tokens))]
    return {
        "step": step,
        "group": group,
        "prompt": "<|im_start|>user\nLast digit of 4+7*9?<|im_end|>\n<|im_start|>assistant\n",
        "label": "7",
        "correct": correct,
        "tokens": tokens,
        "entropy": numbers,
        "shaped_reward": numbers,
        "advantage": [-number for number in numbers],
    }


def write_run(folder, metrics, rollouts):
    result = {"pass@1": 0.34, "pass@8": 0.7, "entropy_token_mean": 0.2, "response_length": 19.5}
    for name, figures in (("before", result), ("after", {**result, "pass@1": 0.76})):
        (folder / name).mkdir()
        means = {key: {"mean": value, "low": 0.0, "high": 1.0} for key, value in figures.items()}
        (folder / name / "eval.json").write_text(json.dumps({"benchmarks": {"heldout": {**means, "prompts": 200}}}))
    (folder / "phases.json").write_text('{"setup": 1, "training": 90}')
    (folder / "warm_start").mkdir()
    (folder / "warm_start" / "task.json").write_text('{"task": "last_digit", "max_length": 96, "max_new_tokens": 40}')
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in metrics))
    (folder / "rollouts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rollouts))


def run_report(folder):
    command = [sys.executable, QUICKSTART / "report.py", "--run", folder, "--algorithm", "gtpo"]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_report_shows_a_mixed_group_and_names_a_curve_that_is_missing(tmp_path):
    metrics = [{"step": s, "rollout/pass_rate": 0.1 * s, "entropy/token_mean": 0.2} for s in (1, 2, 3)]
    rollouts = [response(2, 0, True, ["7", "*", "9"]), response(2, 0, False, ["4", "+", "\n"])]
    rollouts += [response(3, 0, True, ["8"]), response(3, 0, True, ["8"])]
    write_run(tmp_path, metrics, rollouts)
    done = run_report(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "no rollout/response_length_mean" in done.stderr
    assert "entropy/token_mean" not in done.stderr
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "summary.json").read_text()) == {
        "algorithm": "gtpo",
        "before": {"pass@1": 0.34, "pass@8": 0.7, "entropy_token_mean": 0.2, "response_length": 19.5},
        "after": {"pass@1": 0.76, "pass@8": 0.7, "entropy_token_mean": 0.2, "response_length": 19.5},
        "seconds": {"setup": 1, "training": 90},
    }
    assert re.search(r"pass@1 +0\.340 +0\.760", done.stdout)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert "4+7*9? (answer: 7)" in done.stdout
    wrong = lines.index(["wrong"])
    assert lines[wrong + 1 : wrong + 4] == [
        ["4", "+", "\\n"],
        ["H", "0.25", "0.50", "0.75"],
        ["A", "-0.25", "-0.50", "-0.75"],
    ]


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


def test_the_quickstart_does_not_write_into_a_folder_of_other_files(tmp_path):
    (tmp_path / "model").write_text("somebody's")
    done = run_script("quickstart.sh", RUN=str(tmp_path))
    assert done.returncode == 1
    assert_refusal(done.stderr, str(tmp_path))
    assert (tmp_path / "model").read_text() == "somebody's"
