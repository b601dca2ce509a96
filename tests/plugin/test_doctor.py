"""The doctor: the checks of training as a list, for a command line or for the machine alone, and a run here."""

import json
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


@pytest.mark.engine
def test_a_run_here_on_two_proves_entropies_training_a_resumed_run_and_the_refusal_of_one_on_fewer(said: Said) -> None:
    status, states = said("--run", "--gpus=2")
    assert status == 0, states
    done = {name for name, state in states.items() if state == "ok"}
    assert {"entropies", "training", "resume", "resume on fewer"} <= done
