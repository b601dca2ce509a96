"""The doctor: the checks of training as a list, for a command line or for the machine alone, and a run here."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from openrlhf_gtpo import doctor
from openrlhf_gtpo.errors import SettingsError

from ..refusals import assert_refusal

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
Said = Callable[..., tuple[int, dict[str, str]]]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Said:
    """The exit status, and the state of each check, of the doctor with these words on a CPU."""
    monkeypatch.chdir(tmp_path)

    def ask(*words: str) -> tuple[int, dict[str, str]]:
        status = doctor.main(["--device=cpu", *words])
        lines = capsys.readouterr().out.splitlines()
        return status, {line[9:].split(":")[0]: line.split()[0] for line in lines if line[:1].strip() and ":" in line}

    return ask


def test_without_a_command_line_the_machine_alone_is_checked(said: Said) -> None:
    status, states = said()
    assert status == 0, states
    assert {"OpenRLHF", "vllm", "torch", "ray", "deepspeed", "transformers", "disk"} == set(states)


def test_of_a_command_line_it_says_all_that_training_would_refuse(said: Said, tmp_path: Path, policy: Path) -> None:
    data = tmp_path / "train.jsonl"
    data.write_text(json.dumps({"input": r"1 + 1? \\boxed{}", "label": "2"}) + "\n")
    words = ["--algo.advantage.estimator=gtpo", "--algo.kl.init_coef=0", "--rollout.n_samples_per_prompt=4"]
    words += [f"--actor.model_name_or_path={policy}", f"--data.prompt_dataset={data}", "--data.label_key=label"]
    words += ["--rollout.batch_size=1", "--train.batch_size=4", "--train.micro_batch_size=4"]
    status, states = said(*words, "--data.max_len=64", f"--reward.remote_url={EXAMPLES / 'reward_function.py'}")
    assert (status, states["flags"], states["data"]) == (0, "ok", "ok")
    status, states = said(
        *words, "--data.max_len=64", "--shaping.entropy_clip", "2", "1", "--reward.remote_url=http://127.0.0.1:9"
    )
    assert status == 1
    assert {name for name, state in states.items() if state == "fault"} == {"flags", "reward http"}


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--gpus=2"], ["--gpus", "--run"]),
        (["--model=m"], ["--model", "--run"]),
        (["--run", "--gpus=0"], ["--gpus is 0", "at least 1"]),
        (["--run", "--gpu=2"], ["--gpu", "--gpus"]),
    ],
)
def test_what_a_run_here_is_told_is_checked_first(said: Said, words: list[str], named: list[str]) -> None:
    with pytest.raises(SettingsError) as refused:
        said(*words)
    assert_refusal(str(refused.value), *named)


def test_the_findings_are_counted_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    doctor.main(["--device=cpu"])
    told = capsys.readouterr().out.splitlines()
    states = [line.split()[0] for line in told if line.startswith(("ok ", "warning ", "fault "))]
    counts = [states.count(state) for state in ("fault", "warning", "ok")]
    assert told[-1] == "{} to fix, {} to look at, {} as they should be.".format(*counts)


STEP = {"mismatch/logprob_gap": 0.001, "entropy/token_mean": 1.0, "actor_grad_norm": 0.1}
Run = Callable[..., list[str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Training ends in this way, with these changes to its three steps; the words of its command come back."""

    def ends(status: int, said: str = "", **changed: dict[int, float]) -> list[str]:
        words: list[str] = []
        steps = [
            {
                "step": n,
                "timing/step_total": float(n),
                **STEP,
                **{name.replace("__", "/"): at[n] for name, at in changed.items() if n in at},
            }
            for n in (1, 2, 3)
        ]
        (tmp_path / "trained").mkdir(exist_ok=True)
        (tmp_path / "trained" / "metrics.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))

        def trained(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
            words[:] = command
            return subprocess.CompletedProcess(command, status, "", said)

        monkeypatch.setattr(subprocess, "run", trained)
        return words

    return ends


@pytest.mark.parametrize(
    ("status", "said", "changed", "why"),
    [
        (0, "", {}, None),
        (1, "a\nerror: it broke", {}, "exit status 1: error: it broke"),
        (0, "", {"actor_grad_norm": {2: 0.0}}, r"only steps \[1, 3\]"),
        (0, "", {"entropy__token_mean": {3: 0.0}}, r"only steps \[1, 2\]"),
        (0, "", {"mismatch__logprob_gap": {1: 0.01, 3: 0.02}}, None),  # a rounding, and not three times it
        (0, "", {"mismatch__logprob_gap": {3: 0.5}}, "0.500 in step 3 and was 0.001"),
    ],
)
def test_a_training_here_has_entropies_gradients_and_the_policys_weights(
    run: Run, tmp_path: Path, status: int, said: str, changed: dict[str, dict[int, float]], why: str | None
) -> None:
    words = run(status, said, **changed)
    if why is None:
        gap = max(changed.get("mismatch__logprob_gap", {}).values(), default=0.001)
        assert doctor.train(tmp_path, "m", "cpu", 2, 3).startswith(
            f"3 steps of 3.0 s, rollout and policy at most {gap:.1e}"
        )
    else:
        with pytest.raises(RuntimeError, match=why):
            doctor.train(tmp_path, "m", "cpu", 2, 3)
    sizes = {"actor.num_gpus_per_node": "2", "vllm.num_engines": "2", "ds.zero_stage": "3", "train.max_steps": "3"}
    sizes |= {"rollout.batch_size": "16", "train.batch_size": "64", "ckpt.path": str(tmp_path / "state")}
    assert {f"--{name}={value}" for name, value in sizes.items()} <= set(words)


def test_a_resume_on_fewer_has_to_be_refused_before_it_starts(run: Run, tmp_path: Path) -> None:
    words = run(2, "error: the checkpoint is of 2 training process(es)")
    assert doctor.refused(tmp_path, "m", "cpu", 1) == "refused on 1"
    assert {"--actor.num_gpus_per_node=1", "--ds.zero_stage=2", "--ckpt.load_enable"} <= set(words)
    for status, said in ((0, "training process"), (1, "training process"), (2, "another fault")):
        run(status, said)
        with pytest.raises(RuntimeError, match=f"on 1 was to be refused, and ended with exit status {status}"):
            doctor.refused(tmp_path, "m", "cpu", 1)


def test_a_task_of_its_own_has_as_many_prompts_as_its_gpus_need(tmp_path: Path) -> None:
    doctor.make_task(tmp_path, "cpu", 2)
    rows = [json.loads(line) for line in (tmp_path / "prompts.jsonl").read_text().splitlines()]
    assert len(rows) == 128
    assert rows[3] == {"input": "What is 3 + 3?", "label": "6"}
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert (config["tie_word_embeddings"], config["num_hidden_layers"]) == (False, 2)


@pytest.mark.engine
def test_a_run_here_on_two_proves_entropies_training_a_resumed_run_and_the_refusal_of_one_on_fewer(said: Said) -> None:
    status, states = said("--run", "--gpus=2")
    assert status == 0, states
    done = {name for name, state in states.items() if state == "ok"}
    assert {"entropies", "training", "resume", "resume on fewer"} <= done
