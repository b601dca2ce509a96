"""What is refused before Ray starts, with a dry run and without, by the driver itself."""

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from openrlhf_gtpo import train
from openrlhf_gtpo.driver import command_line
from openrlhf_gtpo.driver.run_lock import FILE, held
from openrlhf_gtpo.errors import SettingsError

from .. import estimator_table

REWARDS = Path(__file__).resolve().parents[2] / "docs" / "examples" / "reward_function.py"
"""A file with rewards, of which no service is asked."""

Prepare = Callable[..., train.Prepared | None]


@pytest.fixture
def prepare(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prepare:
    """The driver's own function, for a command line such as the README's with what a test changes."""
    monkeypatch.chdir(tmp_path)
    Path("train.jsonl").write_text('{"input": "1 + 1 =", "label": "2"}\n')
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

    def prepared(*more: str, **changed: str | None) -> train.Prepared | None:
        kept = flags | {f"--{name.replace('__', '.')}": value for name, value in changed.items()}
        return train.prepare(
            [word for flag, value in kept.items() if value is not None for word in (flag, value)] + [*more]
        )

    return prepared


def refused(prepare: Prepare, *more: str, **changed: str | None) -> list[str]:
    with pytest.raises(SettingsError) as error:
        prepare(*more, **changed)
    assert not Path("out").exists()
    return str(error.value).splitlines()


def test_a_command_line_without_sizes_is_one_trainer_and_one_engine_on_a_cpu(
    prepare: Prepare, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prepare("--dry-run") is None
    told = capsys.readouterr().out
    assert "training       1 process(s), " in told
    assert "generation     1 engine(s) of 1 process(s)" in told
    assert not Path("out").exists(), "a dry run makes nothing and locks nothing"


def test_a_plan_says_what_overrides_the_preset_and_with_what_weights_it_trains(
    prepare: Prepare, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare("--dry-run", shaping__alpha2="0.2")
    told = capsys.readouterr().out
    assert re.search(
        r"^preset +gtpo, except --shaping.alpha2, --data.max_len, --rollout.max_new_tokens$", told, re.MULTILINE
    )
    assert "gtpo, alpha1 1.0, alpha2 0.2, over group, scope group, weights entropy" in told
    assert re.search(r"^rewards +the built-in reward service$", told, re.MULTILINE)


@pytest.mark.parametrize("how", [["--dry-run"], []])
def test_a_dry_run_and_a_real_one_refuse_the_same_and_all_of_it_at_once(prepare: Prepare, how: list[str]) -> None:
    Path("rewards.py").mkdir()
    found = refused(
        prepare,
        *how,
        *("--vllm.num_engines", "0", "--eval.dataset", "nothing/at/all", "--guide.model", "./guide"),
        *("--reward.remote_url", "rewards.py"),
        actor__model_name_or_path="./policy",
        data__prompt_dataset="train.jsonl,other.jsonl",
    )
    beginnings = [
        "--vllm.num_engines is 0, ",
        "--actor.model_name_or_path: There is no folder ./policy ",
        "--guide.model: There is no folder ./guide ",
        "--data.prompt_dataset: There is no file other.jsonl ",
        "--eval.dataset: There is no file or folder nothing/at/all ",
        "--reward.remote_url: There is no file rewards.py ",
    ]
    assert len(found) == len(beginnings)
    for sentence, beginning in zip(found, beginnings, strict=True):
        assert sentence.startswith(beginning)


@pytest.mark.parametrize("how", [["--dry-run"], []])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"input": "1 + 1 =", "label": ""}\n', "line 1 has an empty 'label'"),
        ('{"input": "1 + 1 =", "label"\n', "line 1 is no JSON object"),
        ("", "train.jsonl is empty"),
    ],
)
def test_a_dry_run_looks_into_the_data_as_a_real_run_does(
    prepare: Prepare, how: list[str], content: str, said: str
) -> None:
    Path("train.jsonl").write_text(content)
    (sentence,) = refused(prepare, *how)
    assert said in sentence


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("actor__model_name_or_path", "No --actor.model_name_or_path: name the policy"),
        ("data__prompt_dataset", "No --data.prompt_dataset: name the prompts"),
    ],
)
def test_a_policy_and_prompts_have_to_be_named(prepare: Prepare, flag: str, said: str) -> None:
    (sentence,) = refused(prepare, **{flag: None})
    assert sentence.startswith(said)


@pytest.mark.parametrize(
    ("flags", "flag"),
    [
        (["--algo.advantage.estimator", "gae", "--critic.model_name_or_path", "./no"], "--critic.model_name_or_path"),
        (["--algo.advantage.estimator", "rloo", "--reward.model_name_or_path", "./no"], "--reward.model_name_or_path"),
        (["--guide.solutions", "./no"], "--guide.solutions"),
        (["--train.agent_func_path", "./no.py"], "--train.agent_func_path"),
    ],
)
def test_every_other_file_that_the_run_would_use_is_looked_for(prepare: Prepare, flags: list[str], flag: str) -> None:
    if "--algo.advantage.estimator" not in flags:
        flags = [*flags, "--algo.advantage.estimator", "group_norm"]
    (sentence,) = refused(prepare, *flags, preset=None, algo__kl__init_coef="0", rollout__n_samples_per_prompt="4")
    assert sentence.startswith(f"{flag}: ")
    assert "./no" in sentence


def test_what_the_run_would_not_use_need_not_be_there(prepare: Prepare) -> None:
    unused = ["--reward.model_name_or_path", "./no", "--reward.remote_url", str(REWARDS)]
    unused += ["--critic.model_name_or_path", "./no", "--guide.model", "./no", "--guide.samples", "0"]
    plain = {"preset": None, "algo__kl__init_coef": "0", "rollout__n_samples_per_prompt": "4"}
    assert prepare("--algo.advantage.estimator", "rloo", *unused, **plain) is not None


def test_a_token_file_that_is_not_there_is_refused_before_ray_starts(
    prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MATH_REWARD_TOKEN", raising=False)
    monkeypatch.setenv("MATH_REWARD_TOKEN_FILE", "/no/token")
    (sentence,) = refused(prepare, "--dry-run")
    assert sentence.startswith("/no/token, the file of MATH_REWARD_TOKEN_FILE, cannot be read")


def test_what_is_prepared_has_absolute_folders_and_the_presets_name(prepare: Prepare, tmp_path: Path) -> None:
    prepared = prepare()
    assert prepared is not None
    flags = prepared.settings.flags
    assert (prepared.settings.device, flags["preset"]) == ("cpu", "gtpo")
    assert flags["ckpt.output_dir"] == str(tmp_path / "out")
    assert flags["algo.advantage.estimator"] == "gtpo"


@pytest.mark.parametrize(
    ("flags", "locked"),
    [
        ([], ["out"]),
        (["--ckpt.save_steps", "5"], ["out", "state"]),
        (["--ckpt.load_enable"], ["out", "state"]),
        (["--eval.dataset", "train.jsonl"], ["out", "state"]),  # whose best evaluation has a checkpoint
        (["--eval.dataset", "train.jsonl", "--ckpt.best_metric_key", "none"], ["out"]),
        (["--ckpt.save_steps", "5", "--ckpt.path", "out"], ["out"]),
    ],
)
def test_a_run_takes_the_folders_that_it_writes_to(prepare: Prepare, flags: list[str], locked: list[str]) -> None:
    prepared = prepare("--ckpt.path", "state", *flags)
    assert prepared is not None
    with contextlib.ExitStack() as locks:
        train._lock_folders(prepared.settings.flags, locks)
        assert sorted(str(path.parent) for path in Path().glob(f"*/{FILE}")) == locked
    assert list(Path().glob(f"*/{FILE}")) == []


def test_a_second_run_in_a_folder_ends_with_one_sentence_and_starts_nothing(prepare: Prepare, tmp_path: Path) -> None:
    prepared = prepare()
    assert prepared is not None
    flags = [
        f"--{name}={prepared.settings.flags[name]}"
        for name in ("actor.model_name_or_path", "data.max_len", "rollout.max_new_tokens", "ckpt.output_dir")
    ]
    flags += ["--device=cpu", "--preset=gtpo", "--data.prompt_dataset=train.jsonl", "--data.label_key=label"]
    with held(tmp_path / "out", "--ckpt.output_dir", print):
        done = subprocess.run(
            [sys.executable, "-m", "openrlhf_gtpo.train", *flags], capture_output=True, text=True, timeout=300
        )
    assert done.returncode == 2
    assert done.stdout == ""
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith(f"openrlhf-gtpo train: error: --ckpt.output_dir {tmp_path / 'out'}: another run writes")
    assert f"(process {os.getpid()} on " in sentence


@pytest.mark.parametrize("how", [["--dry-run"], []])
def test_a_schedule_that_there_is_none_of_is_refused_with_the_nearest(prepare: Prepare, how: list[str]) -> None:
    (sentence,) = refused(prepare, *how, actor__lr_scheduler="cosin", train__max_steps="3")
    assert sentence.startswith("--actor.lr_scheduler is cosin, ")
    assert "did you mean cosine or " in sentence
    assert prepare("--actor.lr_scheduler", "constant") is not None


WANDB = """
import types
api = types.SimpleNamespace(api_key={key!r})
asked = []
def __getattr__(name):
    return lambda *args, **kwargs: asked.append((name, args, kwargs))
"""
"""In the place of the package, which this environment has not: what OpenRLHF's logger calls."""


def test_wandb_takes_its_key_from_the_environment_and_never_from_a_flag(
    prepare: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sentence,) = refused(prepare, logger__wandb__key="0123456789")
    assert sentence.startswith("--logger.wandb.key would be printed, ")
    assert "0123456789" not in sentence
    assert "WANDB_API_KEY" in sentence
    monkeypatch.setitem(sys.modules, "wandb", None)
    (sentence,) = refused(prepare, "--logger.wandb.enable")
    assert sentence.startswith("--logger.wandb.enable needs wandb, ")
    monkeypatch.delitem(sys.modules, "wandb")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    Path("wandb.py").write_text(WANDB.format(key=None))
    (sentence,) = refused(prepare, "--logger.wandb.enable")
    assert sentence.startswith("--logger.wandb.enable finds no key: set WANDB_API_KEY, ")
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert prepare("--logger.wandb.enable") is not None


def test_openrlhfs_own_logger_then_neither_logs_in_nor_sends_a_key(
    prepare: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from openrlhf.utils.logging_utils import WandbLogger

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    Path("wandb.py").write_text(WANDB.format(key="0123456789"))
    prepared = prepare("--logger.wandb.enable", logger__wandb__project="gtpo")
    assert prepared is not None
    args = command_line.settled(prepared.settings)
    assert args.logger.wandb.key, "OpenRLHF makes its logger where there is one"
    WandbLogger(args)
    asked = {name: kwargs for name, _, kwargs in sys.modules["wandb"].asked}
    assert "login" not in asked
    assert asked["init"]["project"] == "gtpo"
    assert "0123456789" not in repr(asked)
    without = prepare("--logger.wandb.project", "gtpo")
    assert without is not None
    assert not command_line.settled(without.settings).logger.wandb.key, "it is not on by itself"


EXAMPLE = REWARDS.with_name("less_from_success.py")


@pytest.fixture
def table() -> Iterator[None]:
    with estimator_table.as_it_was():
        yield


@pytest.mark.usefixtures("table")
def test_an_estimator_of_ones_own_has_its_flags_its_plan_and_its_absolute_path(
    prepare: Prepare, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("mine.py").write_text(EXAMPLE.read_text())
    named = {"preset": "grpo", "algo__advantage__estimator": "mine.py:less_from_success"}
    assert prepare("--dry-run", **named, less_from_success__weight="0.2") is None
    assert re.search(r"^estimator +mine\.py:less_from_success, weight 0\.2$", capsys.readouterr().out, re.MULTILINE)
    (sentence,) = refused(prepare, **named, less_from_success__weight="2")
    assert sentence == "--less_from_success.weight is 2.0, but needs to be from 0 to 1."
    (sentence,) = refused(prepare, **named, rollout__n_samples_per_prompt="1")
    assert sentence.startswith("--rollout.n_samples_per_prompt is 1, but Less from success compares ")
    prepared = prepare(**named)
    assert prepared is not None
    assert prepared.settings.estimator == f"{Path('mine.py').absolute()}:less_from_success"


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("body", "words"),
    [
        (None, "mine.py does not exist: "),
        ("import nothing_of_that_name", "mine.py cannot be imported: ModuleNotFoundError in line 1: "),
        ("", "mine.py has no function mine and adds no estimator of this name: define one, or write ESTIMATORS["),
        ("def mine(rollouts):\n    return rollouts.reward\n", "mine.py:mine does not take the arguments entropy, "),
        (
            "ESTIMATORS['mine'] = len",
            "mine.py is <class 'builtin_function_or_method'>, but a line is an Estimator of ",
        ),
        (
            "ESTIMATORS['mine'] = Estimator('Mine', 'mine', f'{__name__}:nothing')",
            "mine.py:mine failed: AttributeError: ",
        ),
        (
            "def mine(rollouts):\n    return rollouts.reward\n"
            "ESTIMATORS['mine'] = Estimator('Mine', 'mine', f'{__name__}:mine')",
            "mine.py:mine returned <class 'torch.Tensor'>, but an estimator returns an Estimate",
        ),
        (
            "def mine(rollouts):\n    return Estimate(rollouts.reward, rollouts.reward)\n"
            "ESTIMATORS['mine'] = Estimator('Mine', 'mine', f'{__name__}:mine')",
            "mine.py:mine returned torch.float32 of shape (32,), but advantages are a float tensor of shape ",
        ),
    ],
)
def test_an_estimator_of_ones_own_that_is_none_is_refused_in_one_sentence(
    prepare: Prepare, body: str | None, words: str
) -> None:
    first = "from openrlhf_gtpo.algorithms.estimators import Estimate; "
    first += "from openrlhf_gtpo.algorithms.table import ESTIMATORS, Estimator\n"
    if body is not None:
        Path("mine.py").write_text(body if body.startswith("import") else first + body)
    (sentence,) = refused(prepare, preset="grpo", algo__advantage__estimator="mine.py:mine")
    assert sentence.startswith("--algo.advantage.estimator: ")
    assert words in sentence


SHAPING = Path(__file__).resolve().parents[2] / "docs" / "examples" / "shaping_function.py"


def test_a_shaping_function_is_tried_on_small_groups_before_anything_starts(prepare: Prepare) -> None:
    body = "def gtpo(entropy, logprob, mask, correct, reward, group):\n    return reward\n"
    Path("mine.py").write_text(body)  # not mistaken for the estimator of that name
    for function, words in (
        ("mine.py:gtpo", "mine.py:gtpo returned torch.float32 of shape (32,), "),
        ("nothing.py:mine", "nothing.py does not exist: "),
        ("mine.py", "write FILE.py:NAME"),
    ):
        (sentence,) = refused(prepare, preset="grpo", algo__advantage__estimator=function)
        assert sentence.startswith("--algo.advantage.estimator: ")
        assert words in sentence
    assert prepare("--dry-run", preset="grpo", algo__advantage__estimator=f"{SHAPING}:surprise") is None


@pytest.mark.parametrize("how", [["--dry-run"], []])
def test_more_tokens_than_the_model_has_positions_are_refused_before_an_engine_does(
    prepare: Prepare, how: list[str], tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = json.loads((tiny_model / "config.json").read_text())["max_position_embeddings"]
    (sentence,) = refused(prepare, *how, data__max_len=str(most + 1))
    assert sentence.startswith(f"--data.max_len is {most + 1:,}, but the model {tiny_model} has {most:,} positions")
    assert f"give at most {most}, or a model with more." in sentence
    assert prepare("--dry-run", data__max_len=str(most)) is None
    monkeypatch.setenv("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "1")
    assert prepare("--dry-run", data__max_len=str(most + 1)) is None


def test_a_flag_of_kl_that_does_nothing_is_a_warning(prepare: Prepare, capsys: pytest.CaptureFixture[str]) -> None:
    said = "warning: --algo.kl.use_loss does nothing while --algo.kl.init_coef is 0: "
    prepare("--dry-run", "--algo.kl.use_loss", algo__kl__init_coef="0")
    assert said in capsys.readouterr().err
    prepare("--dry-run", "--algo.kl.use_loss", algo__kl__init_coef="0.001")
    assert said not in capsys.readouterr().err


def test_an_unbiased_gradient_of_no_kl_loss_is_a_warning(prepare: Prepare, capsys: pytest.CaptureFixture[str]) -> None:
    said = "warning: --algo.kl.unbiased_gradient is the gradient of a KL loss, which this run has not: leave it out"
    for flags, weight in (([], "0"), (["--algo.kl.use_loss"], "0")):
        prepare("--dry-run", "--algo.kl.unbiased_gradient", *flags, algo__kl__init_coef=weight)
        assert said in capsys.readouterr().err
    prepare("--dry-run", "--algo.kl.unbiased_gradient", "--algo.kl.use_loss", algo__kl__init_coef="0.001")
    assert said not in capsys.readouterr().err


def test_kl_cov_with_one_update_a_step_is_told_to_be_grpo(
    prepare: Prepare, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "KL-Cov's penalty is always 0, and this run is GRPO's. Lower --train.batch_size"
    sizes = {"rollout__batch_size": "4", "rollout__n_samples_per_prompt": "8"}
    prepare("--dry-run", preset="kl_cov", train__batch_size="32", **sizes)
    assert said in capsys.readouterr().err
    prepare("--dry-run", preset="kl_cov", train__batch_size="16", **sizes)
    assert said not in capsys.readouterr().err
    prepare("--dry-run", preset="kl_cov", train__batch_size="32", train__max_epochs="2", **sizes)
    assert said not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("estimator", "size", "alpha1", "alpha2", "where"),
    [
        # Wrong tokens without a share turn at more than alpha1 / (alpha1 + alpha2) of the group: a half, 8 of 16.
        ("gtpo", "16", "1", "1", "a group of 16 with 9 or more responses of one class, a token that gets little"),
        # A quarter; 2 of 8.
        ("gtpo", "8", "1", "3", "a group of 8 with 3 or more responses of one class, a token that gets little"),
        # 5 / 8 of 16 is 10 exactly, which is not more than it.
        ("gtpo", "16", "1", "0.6", "a group of 16 with 11 or more responses of one class"),
        # The paper's dose takes 15 of 16; a third takes 13; with 4 responses, 0.5 takes 3, which is three quarters.
        ("gtpo", "16", "1", "0.1", None),
        ("gtpo", "16", "1", "0.333", None),
        ("gtpo", "4", "1", "0.5", "a group of 4 with 3 or more"),
        # In a group of two each class has one response, which is not more than a half.
        ("gtpo", "2", "1", "1", None),
        # Responses with half of the mean turn at more than (1 + 0.5) / 2 = 3/4, or with 3 at (1 + 1.5) / 4 = 5/8.
        ("grpo_s", "16", "1", "1", None),
        (
            "grpo_s",
            "16",
            "1",
            "3",
            "a group of 16 with 11 or more responses of one class, a response that gets half of",
        ),
    ],
)
def test_a_dose_that_turns_signs_in_usual_groups_is_a_warning(
    prepare: Prepare,
    capsys: pytest.CaptureFixture[str],
    estimator: str,
    size: str,
    alpha1: str,
    alpha2: str,
    where: str | None,
) -> None:
    doses = {"shaping__alpha1": alpha1, "shaping__alpha2": alpha2}
    prepare("--dry-run", preset=estimator, **doses, rollout__n_samples_per_prompt=size)
    (*_, said) = [line for line in capsys.readouterr().err.splitlines() if "sign" in line] or [""]
    if where is None:
        assert said == ""
    else:
        assert f"warning: --shaping.alpha2 is {alpha2} beside --shaping.alpha1 {alpha1}: in {where}" in said


def test_the_warning_about_signs_is_silent_where_no_share_is_small(
    prepare: Prepare, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare("--dry-run", "--shaping.weights", "uniform", shaping__alpha2="3")
    assert "sign" not in capsys.readouterr().err
    prepare("--dry-run", "--shaping.scope", "batch", shaping__alpha2="3")
    said = capsys.readouterr().err
    assert "in a batch with more than 25% of its tokens in one class, a token" in said
    assert "with an alpha2 up to 0.333 that takes more than three quarters in one class.\n" in said
    prepare("--dry-run", "--shaping.scope", "batch", shaping__alpha2="0.3")
    assert "sign" not in capsys.readouterr().err


def test_a_plan_for_a_cpu_says_how_to_plan_for_gpus_and_what_a_dry_run_does_not_ask(
    prepare: Prepare, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare("--dry-run", reward__remote_url="http://127.0.0.1:9")
    told = capsys.readouterr().out
    assert "memory         not estimated for a CPU: --device gpu plans the run on GPUs" in told
    assert "a dry run does not ask it: openrlhf-gtpo doctor does" in told
    prepare("--dry-run", reward__remote_url=str(REWARDS))
    assert "a dry run does not call it; its scores have to be 0 or 1" in capsys.readouterr().out


def test_a_dry_run_of_a_model_that_is_not_here_says_how_to_plan_for_gpus(
    prepare: Prepare, capsys: pytest.CaptureFixture[str]
) -> None:
    (found,) = refused(prepare, "--dry-run", actor__model_name_or_path="Qwen/Qwen2.5-7B")
    assert found.endswith(
        "`HF_HUB_OFFLINE=0 hf download Qwen/Qwen2.5-7B`; --device gpu plans a run on GPUs without it."
    )
    (found,) = refused(prepare, actor__model_name_or_path="Qwen/Qwen2.5-7B")
    assert found.endswith("`HF_HUB_OFFLINE=0 hf download Qwen/Qwen2.5-7B`.")
