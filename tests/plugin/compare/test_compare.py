"""`openrlhf-gtpo compare`: what it refuses, what it says of given groups, and whole runs with vLLM."""

import contextlib
import json
import random
import subprocess
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from matplotlib import pyplot

from openrlhf_gtpo import sampling
from openrlhf_gtpo.batch import Group
from openrlhf_gtpo.cli import main
from openrlhf_gtpo.compare import command, rollouts
from openrlhf_gtpo.compare.command import sentences
from openrlhf_gtpo.compare.gradients import Policy
from openrlhf_gtpo.compare.picture import picture
from openrlhf_gtpo.compare.rises import Figure, rises
from openrlhf_gtpo.cpu import platform
from openrlhf_gtpo.data.table import Row
from openrlhf_gtpo.errors import UserError

from ... import preloaded
from ...refusals import assert_refusal
from .conftest import group

PARITY = """def reward_func(queries, prompts, labels):
    return {"rewards": [float((len(queries[0]) - len(prompts[0])) % 2 == int(labels[0]) % 2)]}
"""
"""A response is right where its length has its label's parity."""
IDEA = """def idea(entropy, logprob, mask, correct, reward, group):
    reward = reward.view(-1, 5)
    return entropy * (reward - reward.mean(1, keepdim=True)).view(-1, 1)
"""
Start = Callable[..., tuple[int, str, str]]


@pytest.fixture
def start(smallest: Path, written: Any, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Runs the command on groups that are sampled already; gives its status and what it said."""
    monkeypatch.setattr(sampling, "engine", lambda *_, **__: contextlib.nullcontext())
    monkeypatch.setattr(rollouts, "Sampler", lambda *_: None)
    (tmp_path / "parity.py").write_text(PARITY)
    given = f"--model {smallest} --data {written({'input': '?', 'label': 1})} --out {tmp_path}/out --device cpu --n 4 "
    given += f"--k 2 --reward.remote_url {tmp_path}/parity.py"

    def start(groups: list[Group], *flags: str) -> tuple[int, str, str]:
        monkeypatch.setattr(rollouts, "sampled", lambda *_: iter(groups))
        return main(["compare", *given.split(), *flags]), *capsys.readouterr()

    return start


def groups(mixed: int, others: int) -> list[Group]:
    """Of four responses, of which so many have two right ones and the others none, in any order."""
    draw = random.Random(0)
    kinds = draw.sample([(True, True, False, False)] * mixed + [(False,) * 4] * others, mixed + others)
    return [
        group(*((right, [draw.uniform(0.1, 3) for _ in range(draw.randint(2, 6))]) for right in kind), prompt=i + 2)
        for i, kind in enumerate(kinds)
    ]


def test_a_table_a_file_a_picture_and_a_page_say_what_each_method_does(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, given = tmp_path / "page.html", mock.Mock(wraps=rises)
    monkeypatch.setattr(command, "rises", given)
    monkeypatch.setattr(pyplot, "close", lambda _: None)
    status, said, _ = start(groups(24, 6), "--batch", "8", "--html", str(page), "--plain")
    assert status == 0
    (_, _, prompts, batch, share), options = given.call_args
    assert (prompts, batch, options, share.sum()) == (30, 8, {"adam": False}, len(share))
    record, html = json.loads((tmp_path / "out" / "compare.json").read_text()), page.read_text()
    about = {"prompts": 30, "prompts with a gradient": 24, "responses to each": 4, "pass rate": 24 * 2 / 120, "k": 2}
    assert record.items() >= (about | {"prompts of an update": 8, "steps": "plain"}).items()
    methods = record["methods"]
    assert set(map(str, methods["GRPO"].values())) == {str({"mean": 1.0, "low": 1.0, "high": 1.0})}
    assert len({row["signal"]["mean"] for row in methods.values()}) == len(methods) == 7
    for name, row in methods.items():
        shown = ["1"] * 4 if name == "GRPO" else [str(Figure(**figure)) for figure in row.values()]
        assert " ".join([name, *shown]) in [" ".join(line.split()) for line in said.splitlines()]
        assert f"<th>{name}</th>{''.join(f'<td>{one}</td>' for one in shown)}" in html
        assert (f"{name} raises the reward by {shown[0]} of" in said) == (name != "GRPO")
    assert all(part in said for part in ("pass@2", "plain steps of 8 prompts", "24 of 30 prompts"))
    assert "GTPO, shuffled raises the reward" in html
    assert "data:image/png;base64,iVBOR" in html
    assert (tmp_path / "out" / "compare.png").read_bytes().startswith(b"\x89PNG")
    first, *others = pyplot.gcf().axes
    assert [tick.get_text() for tick in first.get_yticklabels()] == list(methods)[1:]
    assert [axis.get_title(loc="left") for axis in (first, *others)] == ["reward", "pass@2", "entropy lost"]


def test_a_sentence_says_what_is_sure_and_which_way_entropy_goes() -> None:
    lost, gained = Figure(2, 1, 3), Figure(-0.5, -1, 0)
    cases = {Figure(1.2, 1.1, 1.3): gained, Figure(0.8, 0.7, 0.9): lost, Figure(0.9, 0.8, 1.1): lost}
    more, less, maybe = sentences({str(reward): {"reward": reward, "entropy": one} for reward, one in cases.items()})
    assert "by 1.200 (1.100 to 1.300) of GRPO's, and gains entropy 0.50 times as fast" in more
    assert "by 0.800 (0.700 to 0.900) of GRPO's, and loses entropy 2.00 times as fast" in less
    assert "by 0.900 (0.800 to 1.100) of GRPO's, which may be no difference, and loses" in maybe


def test_an_interrupt_compares_the_groups_that_are_done(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine of the twelve with a gradient, which stand for fifteen of twenty."""
    whole, calls = Policy.gradients, []

    def gradients(*given: Any) -> Any:
        calls.append(1)
        if len(calls) == 10:
            raise KeyboardInterrupt
        return whole(*given)

    monkeypatch.setattr(Policy, "gradients", gradients)
    status, said, shown = start(groups(12, 8))
    assert status == 0
    assert "interrupted: 9 of 12 groups" in shown
    assert "9 of 15 prompts have a gradient" in said


TOO_FEW = {
    (0, 5): ["None of 5 prompts", "pass rate 0.00", "easier", "--n"],
    (7, 3): ["Only 7 groups", "10 prompts", "0.35", "need 8", "--prompts"],
    (0, 0): ["Interrupted"],
}


@pytest.mark.parametrize(("mixed", "others"), TOO_FEW)
def test_too_few_groups_with_right_and_wrong_responses_are_refused(mixed: int, others: int, start: Start) -> None:
    status, _, said = start(groups(mixed, others))
    assert status == 1
    assert_refusal(said.splitlines()[-1], "openrlhf-gtpo compare: error: ", *TOO_FEW[mixed, others])


REFUSED = {
    "--model=": ["No --model"],
    "--data=": ["No --data"],
    "--data={here}/none.jsonl": ["none.jsonl"],
    "--k=4": ["--k is 4", "--n, which is 4"],
    "--run={here}/nowhere": ["--run {here}/nowhere", "run.json"],
    "--estimators=gppo": ["--estimators", "gppo"],
    "--reward.remote_url={here}/none.py": ["none.py", "cannot be run"],
    "--reward.remote_url={here}/empty.py": ["empty.py", "reward_func"],
    "--run={here} --model=Qwen/Qwen2.5-0.5B": ["0.5 billion", "need 7 GiB", "CPU has 2"],
}


@pytest.mark.parametrize("flags", REFUSED)
def test_what_has_no_meaning_is_refused_before_anything_starts(
    flags: str, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The policy's half a billion parameters in float32: three times 1.84 GiB, and 1 for logits."""
    monkeypatch.setattr(platform, "has_native_bf16", lambda: False)
    monkeypatch.setattr("os.sysconf", {"SC_PHYS_PAGES": 2**19, "SC_PAGE_SIZE": 2**12}.get)
    (tmp_path / "empty.py").touch()
    (tmp_path / "run.json").write_text('{"settings": {}}')
    status, _, said = start([], *flags.format(here=tmp_path).split())
    assert status == 2
    assert_refusal(said, "openrlhf-gtpo compare: error: ", *(name.format(here=tmp_path) for name in REFUSED[flags]))


def test_a_reward_function_that_fails_is_named(tmp_path: Path) -> None:
    (path := tmp_path / "own.py").write_text("def reward_func(queries, prompts, labels):\n    return {}\n")
    row = Row(None, "2+2?", "4", {})  # type: ignore[arg-type]
    with (
        rollouts.grader(Namespace(**{"reward.remote_url": str(path)})) as grade,
        pytest.raises(UserError) as failed,
    ):
        grade(["4"], [row])
    assert_refusal(str(failed.value), "--reward.remote_url", "own.py", "KeyError", "rewards")


def test_a_prompt_has_the_tokens_that_training_gives_it(tokenizer: Any) -> None:
    engine = SimpleNamespace(model_config=SimpleNamespace(max_model_len=24))
    llm = SimpleNamespace(get_tokenizer=lambda: tokenizer, llm_engine=engine)
    row = Row("line 3", "2+2?", "4", {})  # type: ignore[arg-type]
    found = {"<user>2+2?<end><assistant>": (True, None), "2+2?": (False, None), "Q: 2+2?\nA:": (False, "Q: {}\nA:")}
    for text, (chat, template) in found.items():
        sampler = rollouts.Sampler(llm, mock.Mock(), Namespace(chat=chat, template=template))
        assert tokenizer.decode(sampler.prompt(row)) == text
    sampler.args.template = "Question: {}, and then the answer"
    with pytest.raises(UserError) as failed:
        sampler.prompt(row)
    assert_refusal(str(failed.value), "line 3", "35 tokens", "at most 24")


@pytest.mark.engine
def test_any_model_and_a_runs_policy_are_compared_on_what_vllm_samples(
    policy: Path, written: Callable[..., Path], tmp_path: Path
) -> None:
    """First with the reward service, on a question that this policy answers now and then; then by a run's settings,
    with functions of one's own for the reward and the weights, where it was moved to."""
    data, run = written(*[{"question": "30*32?", "label": 5}] * 48), tmp_path / "run"
    run.mkdir()
    (run / "own.py").write_text(PARITY + IDEA)
    settings = {"ckpt.output_dir": "elsewhere", "data.prompt_dataset": str(data), "data.input_key": "question"}
    settings |= {"reward.remote_url": str(run / "own.py"), "data.apply_chat_template": False}
    settings |= {"rollout.n_samples_per_prompt": 5, "rollout.max_new_tokens": 4, "rollout.batch_size": 8}
    (run / "run.json").write_text(json.dumps({"settings": settings}))
    policy.rename(run / "model")
    first = f"--model {run}/model --data {data} --out {tmp_path}/out --input_key question --n 16 --max_new_tokens 2"
    program = "import sys; from openrlhf_gtpo.cli import main; sys.exit(any(main(a.split()) for a in sys.argv[1:]))"
    first += " --estimators gtpo --shaping.alpha2 0"
    words = [
        f"compare --device cpu {one}" for one in (first, f"--run {run} --prompts 20 --estimators {run}/own.py:idea")
    ]
    done = subprocess.run([preloaded.python(), "-c", program, *words], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    found = [json.loads((folder / "compare.json").read_text()) for folder in (tmp_path / "out", run / "compare")]
    of = [(one["prompts"], one["responses to each"], one["prompts of an update"], one["model"]) for one in found]
    assert of == [(48, 16, 16, f"{run}/model"), (20, 5, 8, f"{run}/model")]
    assert 0 < found[0]["pass rate"] < 0.2 < found[1]["pass rate"] < 0.8
    assert [list(one["methods"]) for one in found] == [["GRPO", "GTPO"], ["GRPO", "own.py:idea"]]
    assert found[1]["methods"]["own.py:idea"]["signal"]["mean"] != pytest.approx(1, abs=1e-6), "it got entropies"
    assert "nanobind" not in done.stderr, "the engine outlived the command"


def test_grpo_alone_has_a_picture_too(tmp_path: Path) -> None:
    one = Figure(1.0, 1.0, 1.0)
    picture({"GRPO": dict.fromkeys(("reward", "pass", "entropy", "signal"), one)}, "pass@4", tmp_path / "one.png")
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
