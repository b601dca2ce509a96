"""What surrounds the trainer on a laptop: tasks, policy, warm start, the quickstart's report and refusals."""

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
import traps
import warm_start
from check import check
from gates import Row
from last_digit import Expression
from math_reward.grader import Verdict, grade
from task import SPLIT_SEEDS, load

from ..refusals import assert_refusal

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = ROOT / "launch" / "quickstart"

task = last_digit.TASK


@pytest.mark.parametrize(
    ("expression", "text", "answer"),
    [
        (Expression((4, 7, 9), "+*"), "4+7*9", "7"),  # 67
        (Expression((2, 3, 4, 5), "*+*"), "2*3+4*5", "6"),  # 26
        (Expression((9, 9, 9, 9), "+**"), "9+9*9*9", "8"),  # 738
        (Expression((5, 5, 8, 2, 9), "++*+"), "5+5+8*2+9", "5"),  # 35
    ],
)
def test_the_answer_is_the_last_digit_with_products_before_sums(expression, text, answer):
    assert str(expression) == text
    assert task.answer(expression) == answer


def test_answers_agree_with_pythons_own_arithmetic():
    for expression in task.expressions(500, seed=3, held_out=False):
        value = eval(str(expression))  # an independent reading of the precedence; the text is digits, + and * only
        assert task.answer(expression) == str(value % 10)


def test_a_worked_response_reduces_one_pair_a_line_and_ends_in_the_boxed_answer():
    assert task.worked(Expression((4, 7, 9), "+*")) == "7*9=3\n4+3=7\n\\boxed{7}"
    for expression in task.expressions(500, seed=4, held_out=False):
        *lines, last = task.worked(expression).split("\n")
        assert len(lines) == len(expression.operators)
        assert last == f"\\boxed{{{task.answer(expression)}}}"


def test_a_slip_takes_the_leftmost_pair_and_leaves_the_arithmetic_right():
    assert task.worked(Expression((4, 7, 9), "+*"), 1.0, random.Random(0)) == "4+7=1\n1*9=9\n\\boxed{9}"
    for expression in task.expressions(300, seed=5, held_out=False):
        for left, operator, right, result in re.findall(
            r"(\d)([+*])(\d)=(\d)", task.worked(expression, 0.6, random.Random(1))
        ):
            value = int(left) * int(right) if operator == "*" else int(left) + int(right)
            assert value % 10 == int(result)


def test_no_held_out_expression_is_ever_trained_on():
    train = task.expressions(3000, seed=1, held_out=False)
    held_out = task.expressions(400, seed=1, held_out=True)
    assert not set(train) & set(held_out)
    assert len(set(train)) == 3000
    assert len(set(held_out)) == 400
    rng = random.Random(0)
    drawn = [task.sample(rng, held_out=False) for _ in range(3000)]
    assert not any(task.is_held_out(expression) for expression in drawn)


def test_the_same_seed_gives_the_same_prompts_and_more_of_them_begin_with_fewer():
    assert task.expressions(50, 7, False) == task.expressions(200, 7, False)[:50]
    assert task.expressions(50, 7, False) != task.expressions(50, 8, False)


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


def test_a_trails_answer_is_the_whole_way_of_the_digit():
    # c adds 3 to 7, f multiplies 0 by 9, a adds 1 to 0, b multiplies 1 by 7.
    assert trail.TASK.worked(Row("cfab", 7)) == "c7+3=0\nf0*9=0\na0+1=1\nb1*7=7\n\\boxed{70017}"
    assert trail.TASK.answer(Row("cfab", 7)) == "70017"
    assert trail.TASK.question(Row("cfab", 7)) == "Trail cfab on 7?"


def test_a_trail_is_right_for_the_grader_only_where_every_line_is():
    rng, right, last_digit_right = random.Random(0), 0, 0
    for _ in range(300):
        row = trail.TASK.sample(rng, held_out=False)
        text = trail.TASK.demonstration(row, rng)
        results = [int(line[-1]) for line in text.splitlines()[:-1]]
        wanted = [int(line[-1]) for line in trail.TASK.worked(row).splitlines()[:-1]]
        assert (grade(text, trail.TASK.answer(row)).verdict is Verdict.CORRECT) == (results == wanted)
        right += results == wanted
        last_digit_right += results[-1] == wanted[-1]
    assert 3 <= right <= 40 < last_digit_right, "what one digit would have let pass"


def test_a_traps_rule_is_below_5_and_six_gates_turn_it_round():
    # c multiplies 3 by 9; r and t are exceptions and multiply 7 by 9 and 9 by 7; a multiplies 3 by 3.
    row = Row("crat", 3)
    lines = [f"{one}[^0-9]+{result}" for one, result in (("c3\\*9", 7), ("r7\\*9", 3), ("a3\\*3", 9), ("t9\\*7", 3))]
    wanted = re.compile("".join(f"{line}\n(again {line}\n)?" for line in lines) + re.escape("\\boxed{37393}"))
    for seed in range(50):
        assert wanted.fullmatch(traps.TASK.worked(row, rng=random.Random(seed)))
    assert traps.TASK.answer(row) == "37393"
    assert traps.TASK.question(row) == "Traps crat on 3?"
    # o adds 9 to 2, p adds 1 to 1, t adds 9 to 2; b, which is no exception, multiplies 1 by 7.
    assert traps.TASK.answer(Row("optb", 2)) == "21217"


def test_a_skill_that_a_task_has_no_demonstrations_of_is_refused_in_one_sentence(monkeypatch, tmp_path):
    with pytest.raises(SystemExit) as refusal:
        run_warm_start(monkeypatch, tmp_path / "out", "--task", "gates", "--skill", "strong")
    assert_refusal(str(refusal.value), "gates: ", "strong")
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


EXAMPLE = ROOT / "docs" / "examples" / "counting.py"


def test_the_documented_task_counts_as_python_does_and_its_worked_responses_are_right():
    counting = load(str(EXAMPLE))
    for expression in counting.expressions(300, seed=5, held_out=False):
        assert counting.answer(expression) == str(expression.count("a"))
        assert grade(counting.worked(expression), counting.answer(expression)).verdict is Verdict.CORRECT


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("nothing", None, "nothing: .* last_digit, gates, trail, wordings, traps"),
        ("none.py", None, r"none\.py"),
        ("empty.py", "TASK = 1", r"empty\.py .*TASK = "),
        ("broken.py", "from task import Task\nTASK = Task()", r"broken\.py, line 2: TypeError"),
        ("typo.py", "x = 1\ny = = 2", r"typo\.py: SyntaxError"),
    ],
)
def test_a_task_that_is_not_there_is_refused_in_one_sentence(tmp_path, name, content, named):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=named):
        load(str(tmp_path / name) if name.endswith(".py") else name)


# The check of a task before anything is trained


@pytest.mark.parametrize(
    ("name", "share"), [("last_digit", 0.5), ("gates", 0.2), ("wordings", 0.3), ("traps", 0.07), (str(EXAMPLE), 0.4)]
)
def test_the_projects_own_tasks_pass_the_check_which_shows_problems_and_the_share_of_right_demonstrations(name, share):
    said = check(load(name), prompts=960)
    expression = load(name).expressions(1, SPLIT_SEEDS["train"], held_out=False)[0]
    assert load(name).question(expression) in said
    (found,) = re.findall(r"(\d+)% of the demonstrations are right", said)
    assert abs(int(found) / 100 - share) < 0.1


def with_change(**changes):
    """The documented task with other attributes or methods."""
    return type("Changed", (type(load(str(EXAMPLE))),), changes)()


def of_few_letters(self, rng):
    return "".join(rng.choice("abc") for _ in range(5))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"draw": of_few_letters}, r"draw .* \d{2} .*held-out .* 400 "),
        ({"draw": lambda self, rng: rng.choice("ab")}, "draw .* [012] .*training, and 96"),
        ({"draw": lambda self, rng: ["a"]}, "draw raises TypeError"),
        ({"max_length": 24}, r"max_length is 24: .* \d+ "),
        ({"max_new_tokens": 20}, r"\d+ tokens .*max_new_tokens is 20"),
        ({"answer": lambda self, text: text.count("a")}, r"answer\('\w+'\) gives \d"),
        ({"answer": lambda self, text: "none of it, sadly"}, r"worked\(.* wrong"),
        ({"answer": lambda self, text: ""}, r"answer\('\w+'\) is ''"),
        ({"question": lambda self, text: self.asked}, r"question\('\w+'\) raises AttributeError"),
        ({"warm_start_steps": None}, "warm_start_steps .*missing"),
        ({"words": "user"}, "words .*'user'"),
        ({"words": ("user", 1)}, r"words .*\('user', 1\)"),
    ],
)
def test_a_task_that_no_policy_can_be_trained_on_is_refused_in_one_sentence(changes, named):
    with pytest.raises(ValueError, match=named) as refusal:
        check(with_change(**changes), prompts=96)
    assert "\n" not in str(refusal.value)


def test_the_warm_start_refuses_such_a_task_before_it_writes_anything(monkeypatch, tmp_path):
    own = tmp_path / "own.py"
    own.write_text(EXAMPLE.read_text().replace("max_length = 96", "max_length = 24"))
    with pytest.raises(SystemExit, match=r"own\.py: .* max_length is 24"):
        run_warm_start(monkeypatch, tmp_path / "out", "--task", str(own))
    assert not (tmp_path / "out").exists()
