"""What the driver refuses before Ray starts, with a dry run and without, and what it has prepared when it does not."""

import contextlib
import re
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest

from openrlhf_gtpo import flags as command_line
from openrlhf_gtpo import train
from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.terminal import Terminal

from ..refusals import assert_refusal

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
REWARDS = EXAMPLES / "reward_function.py"
"""A file with rewards, of which no service is asked."""

Prepare = Callable[..., Namespace | None]


@pytest.fixture
def prepare(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prepare:
    """The driver's own function, for a command line such as the README's with what a test changes."""
    monkeypatch.chdir(tmp_path)
    Path("train.jsonl").write_text('{"input": "1 + 1 =", "label": "2"}\n' * 32)
    flags = {
        "--device": "cpu",
        "--preset": "gtpo",
        "--actor.model_name_or_path": str(tiny_model),
        "--data.prompt_dataset": "train.jsonl",
        "--data.label_key": "label",
        "--data.max_len": "128",
        "--rollout.max_new_tokens": "40",
        "--ckpt.output_dir": "out",
    }

    def prepared(*more: str, **changed: str | None) -> Namespace | None:
        kept = flags | {f"--{name.replace('__', '.')}": value for name, value in changed.items()}
        words = [word for flag, value in kept.items() if value is not None for word in (flag, value)]
        return train.prepare(command_line.parse([*words, *more]), Terminal())

    return prepared


def refused(prepare: Prepare, *more: str, **changed: str | None) -> list[str]:
    with pytest.raises(SettingsError) as error:
        prepare(*more, **changed)
    assert not Path("out").exists()
    return str(error.value).splitlines()


def test_a_plan_says_what_would_run_and_starts_nothing(prepare: Prepare, capsys: pytest.CaptureFixture[str]) -> None:
    assert prepare("--dry-run", shaping__alpha2="0.2") is None
    told = capsys.readouterr().out
    for line in (
        "estimator +gtpo",
        r"training +1 process\(s\), ",
        r"generation +1 engine\(s\)",
        "rewards +the built-in",
    ):
        assert re.search(f"^{line}", told, re.MULTILINE), line
    changed = told.partition("not at their defaults:")[2]
    assert "--shaping.alpha2 0.2\n" in changed
    assert "--preset gtpo\n" in changed
    assert "--shaping.alpha1" not in changed
    assert not Path("out").exists(), "a dry run makes nothing and locks nothing"


@pytest.mark.parametrize("how", [["--dry-run"], []])
def test_a_dry_run_and_a_real_one_refuse_the_same_and_all_of_it_at_once(prepare: Prepare, how: list[str]) -> None:
    Path("rewards.py").mkdir()
    flags = {"actor__model_name_or_path": "./policy", "data__prompt_dataset": "train.jsonl,other.jsonl"}
    found = refused(
        prepare,
        *how,
        *("--eval.dataset", "nothing/at/all", "--guide.model", "./guide", "--reward.remote_url", "rewards.py"),
        **flags,
    )
    named = [
        ("--actor.model_name_or_path", "./policy"),
        ("--guide.model", "./guide"),
        ("--data.prompt_dataset", "other.jsonl"),
        ("--eval.dataset", "nothing/at/all"),
        ("--reward.remote_url", "rewards.py"),
    ]
    for sentence, (flag, value) in zip(found, named, strict=True):
        assert sentence.startswith(flag)
        assert_refusal(sentence, value)


PLAIN = {"preset": None, "algo__kl__init_coef": "0", "rollout__n_samples_per_prompt": "4"}
ESTIMATOR = "algo__advantage__estimator"
REFUSED: list[tuple[dict[str, str | None], tuple[str, ...]]] = [
    ({"actor__model_name_or_path": None}, ("--actor.model_name_or_path",)),
    ({"data__prompt_dataset": None}, ("--data.prompt_dataset",)),
    (
        PLAIN | {"device": "gpu", "vllm__num_engines": "1", ESTIMATOR: "rloo", "reward__model_name_or_path": "./no"},
        ("--reward.model_name_or_path: ", "./no"),
    ),
    (PLAIN | {ESTIMATOR: "group_norm", "train__agent_func_path": "./no.py"}, ("--train.agent_func_path: ", "./no.py")),
    ({"logger__wandb__key": "0123456789"}, ("--logger.wandb.key", "WANDB_API_KEY")),
    ({"reward__remote_url": "http://127.0.0.1:9"}, ("http://127.0.0.1:9",)),
]


@pytest.mark.parametrize(("flags", "named"), REFUSED)
def test_what_is_missing_or_wrong_is_refused_and_named(
    prepare: Prepare, flags: dict[str, str | None], named: tuple[str, ...]
) -> None:
    (sentence,) = refused(prepare, **flags)
    assert_refusal(sentence, *named)
    assert "0123456789" not in sentence, "a key is not printed"


def test_a_dry_run_plans_for_a_machine_that_is_not_this_one(
    prepare: Prepare, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Faults of the machine are warnings then."""
    monkeypatch.setenv("GPU_GB", "40")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    words = ["--dry-run", "--reward.remote_url", "http://127.0.0.1:9", "--vllm.num_engines", "8"]
    assert prepare(*words, device="gpu", actor__model_name_or_path="Qwen/Qwen2.5-7B", data__max_len="4096") is None
    told = capsys.readouterr()
    assert "warning: on this machine: The reward service http://127.0.0.1:9" in told.err
    assert re.search(r"^memory +[\d.]+ GiB of a GPU's 40.0 for training", told.out, re.MULTILINE)


def test_a_dry_run_of_a_model_that_is_not_here_says_how_to_plan_for_gpus(prepare: Prepare) -> None:
    (found,) = refused(prepare, "--dry-run", actor__model_name_or_path="Qwen/Qwen2.5-7B")
    assert_refusal(found, "`HF_HUB_OFFLINE=0 hf download Qwen/Qwen2.5-7B`; --device gpu ")
    (found,) = refused(prepare, actor__model_name_or_path="Qwen/Qwen2.5-7B")
    assert_refusal(found, "`HF_HUB_OFFLINE=0 hf download Qwen/Qwen2.5-7B`.")


def test_what_is_prepared_has_absolute_paths_and_the_flags_as_they_were_given(
    prepare: Prepare, tmp_path: Path
) -> None:
    Path("mine.py").write_text((EXAMPLES / "shaping_function.py").read_text())
    args = prepare(preset="grpo", algo__advantage__estimator="mine.py:surprise")
    assert args is not None
    given = vars(args)
    assert given["ckpt.output_dir"] == str(tmp_path / "out")
    assert given["logger.metrics_path"] == str(tmp_path / "out" / "metrics.jsonl")
    assert given["algo.advantage.estimator"] == f"{tmp_path / 'mine.py'}:surprise"
    assert given["settings"]["preset"] == "grpo"
    assert "dry_run" not in given["settings"]


@pytest.mark.parametrize(
    ("flags", "locked"),
    [
        ([], ["out"]),
        (["--ckpt.save_steps", "1"], ["out", "state"]),
        (["--ckpt.load_enable"], ["out", "state"]),
        (["--eval.dataset", "train.jsonl"], ["out", "state"]),  # whose best evaluation has a checkpoint
        (["--eval.dataset", "train.jsonl", "--ckpt.best_metric_key", "none"], ["out"]),
        (["--ckpt.save_steps", "5", "--ckpt.path", "out"], ["out"]),
    ],
)
def test_a_run_takes_the_folders_that_it_writes_to(prepare: Prepare, flags: list[str], locked: list[str]) -> None:
    args = prepare("--ckpt.path", "state", *flags)
    assert args is not None
    with contextlib.ExitStack() as locks:
        train._lock(vars(args), locks)
        assert sorted(str(path.parent) for path in Path().glob("*/run.lock")) == locked
        with pytest.raises(SettingsError, match="another run writes there"), contextlib.ExitStack() as others:
            train._lock(vars(args), others)
    with contextlib.ExitStack() as again:
        train._lock(vars(args), again)


WANDB = """
import types
api = types.SimpleNamespace(api_key={key!r})
asked = []
def __getattr__(name):
    return lambda *args, **kwargs: asked.append((name, args, kwargs))
"""
"""In the place of the package, which this environment has not: what OpenRLHF's logger calls."""


def test_wandb_needs_its_package_and_a_key_in_the_environment_which_openrlhfs_logger_does_not_send(
    prepare: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    (sentence,) = refused(prepare, "--logger.wandb.enable")
    assert_refusal(sentence, "--logger.wandb.enable", "install")
    monkeypatch.delitem(sys.modules, "wandb")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    Path("wandb.py").write_text(WANDB.format(key=None))
    (sentence,) = refused(prepare, "--logger.wandb.enable")
    assert_refusal(sentence, "--logger.wandb.enable", "WANDB_API_KEY", "WANDB_MODE=offline")
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert prepare("--logger.wandb.enable") is not None
    from openrlhf.utils.logging_utils import WandbLogger

    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    Path("wandb.py").write_text(WANDB.format(key="0123456789"))
    prepared = prepare("--logger.wandb.enable", logger__wandb__project="gtpo")
    assert prepared is not None
    args = command_line.completed(prepared)
    assert args.logger.wandb.key, "OpenRLHF makes its logger where there is one"
    WandbLogger(args)
    asked = sys.modules["wandb"].asked
    assert "login" not in {name for name, *_ in asked}
    assert "0123456789" not in repr(asked)


def test_an_estimator_of_ones_own_is_tried_before_anything_starts(prepare: Prepare) -> None:
    Path("mine.py").write_text("def mine(entropy, logprob, mask, correct, reward, group):\n    return reward\n")
    (sentence,) = refused(prepare, preset="grpo", algo__advantage__estimator="mine.py:mine")
    assert_refusal(sentence, "--algo.advantage.estimator: ", "mine.py", "torch.float32 of shape (32,)")
