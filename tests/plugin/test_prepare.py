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
from ..refusals import assert_refusal

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
    assert "generation     1 engine(s)" in told
    assert not Path("out").exists(), "a dry run makes nothing and locks nothing"


def test_a_plan_says_what_overrides_the_preset_and_with_what_weights_it_trains(
    prepare: Prepare, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare("--dry-run", shaping__alpha2="0.2")
    told = capsys.readouterr().out
    assert re.search(
        r"^preset +gtpo, except --shaping.alpha2, --data.max_len, --rollout.max_new_tokens$", told, re.MULTILINE
    )
    assert "gtpo, alpha1 1.0, alpha2 0.2, " in told
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
    named = [
        ("--vllm.num_engines", "0"),
        ("--actor.model_name_or_path", "./policy"),
        ("--guide.model", "./guide"),
        ("--data.prompt_dataset", "other.jsonl"),
        ("--eval.dataset", "nothing/at/all"),
        ("--reward.remote_url", "rewards.py"),
    ]
    for sentence, (flag, value) in zip(found, named, strict=True):
        assert sentence.startswith(flag)
        assert_refusal(sentence, value)


@pytest.mark.parametrize("how", [["--dry-run"], []])
@pytest.mark.parametrize(
    ("content", "named"),
    [
        ('{"input": "1 + 1 =", "label": ""}\n', "line 1 has an empty 'label'"),
        ('{"input": "1 + 1 =", "label"\n', "line 1 is no JSON"),
        ("", "empty"),
    ],
)
def test_a_dry_run_looks_into_the_data_as_a_real_run_does(
    prepare: Prepare, how: list[str], content: str, named: str
) -> None:
    Path("train.jsonl").write_text(content)
    (sentence,) = refused(prepare, *how)
    assert_refusal(sentence, "train.jsonl", named)


PLAIN = {"preset": None, "algo__kl__init_coef": "0", "rollout__n_samples_per_prompt": "4"}
ESTIMATOR = "algo__advantage__estimator"
REFUSED: list[tuple[dict[str, str | None], tuple[str, ...]]] = [
    ({"actor__model_name_or_path": None}, ("--actor.model_name_or_path",)),
    ({"data__prompt_dataset": None}, ("--data.prompt_dataset",)),
    (PLAIN | {ESTIMATOR: "gae", "critic__model_name_or_path": "./no"}, ("--critic.model_name_or_path: ", "./no")),
    (PLAIN | {ESTIMATOR: "rloo", "reward__model_name_or_path": "./no"}, ("--reward.model_name_or_path: ", "./no")),
    (PLAIN | {ESTIMATOR: "group_norm", "guide__solutions": "./no"}, ("--guide.solutions: ", "./no")),
    (PLAIN | {ESTIMATOR: "group_norm", "train__agent_func_path": "./no.py"}, ("--train.agent_func_path: ", "./no.py")),
    ({"logger__wandb__key": "0123456789"}, ("--logger.wandb.key", "WANDB_API_KEY")),
    (
        {"actor__lr_scheduler": "cosin", "train__max_steps": "3"},
        ("--actor.lr_scheduler is cosin", "did you mean cosine or "),
    ),
]


@pytest.mark.parametrize("how", [["--dry-run"], []])
@pytest.mark.parametrize(("flags", "named"), REFUSED)
def test_what_is_missing_or_wrong_is_refused_and_named(
    prepare: Prepare, how: list[str], flags: dict[str, str | None], named: tuple[str, ...]
) -> None:
    (sentence,) = refused(prepare, *how, **flags)
    assert_refusal(sentence, *named)
    assert "0123456789" not in sentence, "a key is not printed"


def test_what_the_run_would_not_use_need_not_be_there(prepare: Prepare) -> None:
    unused = ["--reward.model_name_or_path", "./no", "--reward.remote_url", str(REWARDS)]
    unused += ["--critic.model_name_or_path", "./no", "--guide.model", "./no", "--guide.samples", "0"]
    unused += ["--actor.lr_scheduler", "constant"]
    assert prepare("--algo.advantage.estimator", "rloo", *unused, **PLAIN) is not None


def test_a_token_file_that_is_not_there_is_refused_before_ray_starts(
    prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MATH_REWARD_TOKEN", raising=False)
    monkeypatch.setenv("MATH_REWARD_TOKEN_FILE", "/no/token")
    (sentence,) = refused(prepare, "--dry-run")
    assert_refusal(sentence, "/no/token", "MATH_REWARD_TOKEN_FILE")


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
    assert_refusal(done.stderr, f"--ckpt.output_dir {tmp_path / 'out'}", f"(process {os.getpid()} on ")


WANDB = """
import types
api = types.SimpleNamespace(api_key={key!r})
asked = []
def __getattr__(name):
    return lambda *args, **kwargs: asked.append((name, args, kwargs))
"""
"""In the place of the package, which this environment has not: what OpenRLHF's logger calls."""


def test_wandb_needs_its_package_and_a_key_in_the_environment(
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
    assert_refusal(sentence, "--less_from_success.weight is 2.0", "0 to 1")
    (sentence,) = refused(prepare, **named, rollout__n_samples_per_prompt="1")
    assert_refusal(sentence, "--rollout.n_samples_per_prompt is 1", "Less from success")
    prepared = prepare(**named)
    assert prepared is not None
    assert prepared.settings.estimator == f"{Path('mine.py').absolute()}:less_from_success"


LINE = "ESTIMATORS['mine'] = Estimator('Mine', 'mine', f'{__name__}:mine')"


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("body", "named"),
    [
        (None, "mine.py does not exist: "),
        ("import nothing_of_that_name", "ModuleNotFoundError in line 1"),
        ("", "no function mine"),
        ("def mine(rollouts):\n    return rollouts.reward\n", "arguments entropy, "),
        ("ESTIMATORS['mine'] = len", "builtin_function_or_method"),
        (LINE, "mine.py:mine failed: AttributeError: "),
        (f"def mine(rollouts):\n    return rollouts.reward\n{LINE}", "mine.py:mine returned <class 'torch.Tensor'>"),
        (f"def mine(rollouts):\n    return Estimate(rollouts.reward, rollouts.reward)\n{LINE}", "shape (32,)"),
    ],
)
def test_an_estimator_of_ones_own_that_is_none_is_refused_in_one_sentence(
    prepare: Prepare, body: str | None, named: str
) -> None:
    first = "from openrlhf_gtpo.algorithms.estimators import Estimate; "
    first += "from openrlhf_gtpo.algorithms.table import ESTIMATORS, Estimator\n"
    if body is not None:
        Path("mine.py").write_text(body if body.startswith("import") else first + body)
    (sentence,) = refused(prepare, preset="grpo", algo__advantage__estimator="mine.py:mine")
    assert_refusal(sentence, "--algo.advantage.estimator: ", "mine.py", named)


SHAPING = Path(__file__).resolve().parents[2] / "docs" / "examples" / "shaping_function.py"


def test_a_shaping_function_is_tried_on_small_groups_before_anything_starts(prepare: Prepare) -> None:
    body = "def gtpo(entropy, logprob, mask, correct, reward, group):\n    return reward\n"
    Path("mine.py").write_text(body)  # not mistaken for the estimator of that name
    for function, named in (
        ("mine.py:gtpo", "torch.float32 of shape (32,)"),
        ("nothing.py:mine", "nothing.py does not exist"),
        ("mine.py", "FILE.py:NAME"),
    ):
        (sentence,) = refused(prepare, preset="grpo", algo__advantage__estimator=function)
        assert_refusal(sentence, "--algo.advantage.estimator: ", named)
    assert prepare("--dry-run", preset="grpo", algo__advantage__estimator=f"{SHAPING}:surprise") is None


@pytest.mark.parametrize("how", [["--dry-run"], []])
def test_more_tokens_than_the_model_has_positions_are_refused_before_an_engine_does(
    prepare: Prepare, how: list[str], tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = json.loads((tiny_model / "config.json").read_text())["max_position_embeddings"]
    (sentence,) = refused(prepare, *how, data__max_len=str(most + 1))
    assert_refusal(sentence, f"--data.max_len is {most + 1:,}", str(tiny_model), f"{most:,} positions")
    assert prepare("--dry-run", data__max_len=str(most)) is None
    monkeypatch.setenv("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "1")
    assert prepare("--dry-run", data__max_len=str(most + 1)) is None


UNBIASED = "--algo.kl.unbiased_gradient"
WITH_KL = ["--algo.kl.use_loss", "--algo.kl.init_coef", "0.001"]
STEP = ["--preset=kl_cov", "--rollout.batch_size=4", "--rollout.n_samples_per_prompt=8"]
DOUBTFUL = [
    (["--algo.kl.use_loss", "--algo.kl.init_coef", "0"], "--algo.kl.use_loss", True),
    (WITH_KL, "--algo.kl.use_loss", False),
    ([UNBIASED, "--algo.kl.init_coef", "0"], UNBIASED, True),
    ([UNBIASED, "--algo.kl.use_loss", "--algo.kl.init_coef", "0"], UNBIASED, True),
    ([UNBIASED, *WITH_KL], UNBIASED, False),
    ([*STEP, "--train.batch_size=32"], "--train.batch_size is 32", True),
    ([*STEP, "--train.batch_size=16"], "--train.batch_size", False),
    ([*STEP, "--train.batch_size=32", "--train.max_epochs=2"], "--train.batch_size", False),
]


@pytest.mark.parametrize(("flags", "named", "doubtful"), DOUBTFUL)
def test_what_does_nothing_is_a_warning(
    prepare: Prepare, capsys: pytest.CaptureFixture[str], flags: list[str], named: str, doubtful: bool
) -> None:
    prepare("--dry-run", *flags, preset=None if "--preset=kl_cov" in flags else "gtpo")
    assert (f"warning: {named}" in capsys.readouterr().err) == doubtful


@pytest.mark.parametrize(
    ("estimator", "size", "alpha1", "alpha2", "where"),
    [
        # Wrong tokens without a share turn at more than alpha1 / (alpha1 + alpha2) of the group: a half, 8 of 16.
        ("gtpo", "16", "1", "1", "a group of 16 with 9 "),
        # A quarter; 2 of 8.
        ("gtpo", "8", "1", "3", "a group of 8 with 3 "),
        # 5 / 8 of 16 is 10 exactly, which is not more than it.
        ("gtpo", "16", "1", "0.6", "a group of 16 with 11 "),
        # The paper's dose takes 15 of 16; a third takes 13; with 4 responses, 0.5 takes 3, which is three quarters.
        ("gtpo", "16", "1", "0.1", None),
        ("gtpo", "16", "1", "0.333", None),
        ("gtpo", "4", "1", "0.5", "a group of 4 with 3 "),
        # In a group of two each class has one response, which is not more than a half.
        ("gtpo", "2", "1", "1", None),
        # Responses with half of the mean turn at more than (1 + 0.5) / 2 = 3/4, or with 3 at (1 + 1.5) / 4 = 5/8.
        ("grpo_s", "16", "1", "1", None),
        ("grpo_s", "16", "1", "3", "a group of 16 with 11 "),
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
        unit = "a token" if estimator == "gtpo" else "a response"
        assert_refusal(said, f"--shaping.alpha2 is {alpha2} ", f"--shaping.alpha1 {alpha1}", where, f", {unit} that ")


def test_the_warning_about_signs_is_silent_where_no_share_is_small(
    prepare: Prepare, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare("--dry-run", "--shaping.weights", "uniform", shaping__alpha2="3")
    assert "sign" not in capsys.readouterr().err
    prepare("--dry-run", "--shaping.scope", "batch", shaping__alpha2="3")
    said = capsys.readouterr().err
    assert "more than 25% of " in said
    assert "alpha2 up to 0.333 " in said
    prepare("--dry-run", "--shaping.scope", "batch", shaping__alpha2="0.3")
    assert "sign" not in capsys.readouterr().err


def test_a_dry_run_asks_no_service(prepare: Prepare) -> None:
    assert prepare("--dry-run", reward__remote_url="http://127.0.0.1:9") is None


def test_a_dry_run_of_a_model_that_is_not_here_says_how_to_plan_for_gpus(
    prepare: Prepare, capsys: pytest.CaptureFixture[str]
) -> None:
    (found,) = refused(prepare, "--dry-run", actor__model_name_or_path="Qwen/Qwen2.5-7B")
    assert_refusal(found, "`HF_HUB_OFFLINE=0 hf download Qwen/Qwen2.5-7B`; --device gpu ")
    (found,) = refused(prepare, actor__model_name_or_path="Qwen/Qwen2.5-7B")
    assert_refusal(found, "`HF_HUB_OFFLINE=0 hf download Qwen/Qwen2.5-7B`.")
