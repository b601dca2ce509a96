"""Training's command line: OpenRLHF's flags read from its source without its imports, ours, presets and files of
flags, and what is said of flags that are not."""

import argparse
import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from openrlhf_gtpo import flags
from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.flags import COUNTS, FlagError, parse
from openrlhf_gtpo.openrlhf_script import Script

from ..refusals import assert_refusal

FLAGS = ["--reward.remote_url", "http://a,http://b", "--algo.advantage.is_correction_threshold", "2"]
FLAGS += ["--algo.advantage.estimator", "reinforce", "--vllm.num_engines", "1", "--actor.num_gpus_per_node", "1"]


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    """The names of OpenRLHF's own script after it read `FLAGS`, imports and all, and before it trains."""
    names: dict[str, Any] = {"__name__": "__main__"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["train", *FLAGS])
        exec(Script().path.read_text(encoding="utf-8").replace("    train(args)\n", ""), names)
    return names


def described(parser: argparse.ArgumentParser) -> list[dict[str, Any]]:
    """All that decides what a parser does with a command line, and its help."""
    names = ("option_strings", "dest", "nargs", "const", "default", "type", "choices", "required", "metavar", "help")
    rows = [{name: getattr(action, name) for name in names} | {"kind": type(action)} for action in parser._actions]
    for row in rows:
        if row["dest"] == "logger.wandb.run_name":
            row["default"] = row["default"].split("T")[0]  # the minute may pass
    return rows


def flat(nested: SimpleNamespace, prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in vars(nested).items():
        inner = flat(value, f"{prefix}{name}.") if hasattr(value, "__dict__") else {f"{prefix}{name}": value}
        found |= inner
    return found


def test_the_parser_read_from_the_source_is_that_of_the_whole_script(script: dict[str, Any]) -> None:
    assert described(Script().parser()) == described(script["parser"])
    assert len(described(script["parser"])) > 150


def test_train_gets_what_the_whole_script_would_give_it(script: dict[str, Any]) -> None:
    theirs, ours = flat(script["args"]), flat(flags.completed(parse(["--device=gpu", *FLAGS])))
    assert theirs["reward.remote_url"] == ["http://a", "http://b"]
    assert {name: value for name, value in ours.items() if name in theirs} == theirs | {"ds.param_dtype": "auto"}


def test_a_script_that_writes_its_steps_in_another_way_is_read_and_one_that_never_trains_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    args, written = parse(["--device=gpu", *FLAGS]), Script().path.read_text(encoding="utf-8")
    theirs = flags.completed(args)
    package = shutil.copytree(Script().path.parents[1], tmp_path / "openrlhf", ignore=lambda *_: ["trainer", "models"])
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: SimpleNamespace(submodule_search_locations=[package]))
    script = Path(package) / "cli" / "train_ppo_ray.py"
    other = written.replace("args = parser.parse_args()", "args, _ = parser.parse_args(), 0")
    script.write_text("import torch\n" + other.replace("    train(args)\n", "    status = train( args)\n"))
    assert flags.completed(args) == theirs
    script.write_text(written.replace("    train(args)\n", ""))
    with pytest.raises(SettingsError) as refused:
        flags.completed(args)
    assert_refusal(str(refused.value), str(script), "OpenRLHF's released version")


def test_modelscope_serves_the_run_and_no_check(monkeypatch: pytest.MonkeyPatch) -> None:
    patched: list[str] = []
    hub = SimpleNamespace(patch_hub=lambda: patched.append("the hub's client"))
    monkeypatch.setitem(sys.modules, "modelscope.utils.hf_util", hub)
    args = parse(["--device=gpu", "--use_ms", *FLAGS])
    assert flags.openrlhfs_refusal(args) is None
    assert patched == []
    flags.completed(args)
    assert patched == ["the hub's client"]


def test_a_command_line_is_refused_before_torch_is_imported() -> None:
    heavy = ["torch", "transformers", "deepspeed", "vllm", "ray", "openrlhf.trainer"]
    program = (
        "import sys\n"
        "from openrlhf_gtpo.train import main\n"
        "status = main(['--rollout.n_sample_per_prompt', '8'])\n"
        f"print(status, [name for name in {heavy} if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout == "2 []\n", done.stderr
    assert_refusal(
        done.stderr, "openrlhf-gtpo train: error: ", "--rollout.n_sample_per_prompt", "n_samples_per_prompt"
    )


REFUSED: list[tuple[str, ...]] = [
    ("--n_samples_per_prompt 1", "--n_samples_per_prompt", "--rollout.n_samples_per_prompt"),
    ("--train-batch-size 1", "--train-batch-size", "--train.batch_size"),
    ("--dry_run", "--dry_run", "--dry-run"),
    ("--micro_train_batch_size 1", "did you mean --train.micro_batch_size?"),
    ("--bf16", "--bf16: since OpenRLHF 0.11 it is --ds.param_dtype."),
    ("--pretrain model", "--pretrain: ", "it is --actor.model_name_or_path."),
    ("--critic_learning_rate 1", "--critic_learning_rate", "it is --critic.adam.lr."),
    ("--perf", "--perf", "leave it out"),
    ("--frobnicate 9 9", "--frobnicate", "--help"),
    ("gtpo", "gtpo", "--help"),
    ("--rollout.batch_size ten", "--rollout.batch_size", "'ten'"),
    ("--rollout.batch_size", "--rollout.batch_size", "one argument"),
    ("--pres gtpo", "--pres", "--preset"),
    ("--preset ppo", "--preset ppo", "dapo"),
    ("--preset", "--preset", "one argument"),
    ("--preset ../secret", "--preset ../secret", "dapo"),
    ("--no-shaping.grop", "--no-shaping.grop", "--preset"),
    ("--preset dapo --no-shaping.grop", "--no-shaping.grop", "--preset"),
    ("--shaping.alpha2 -0.1", "--shaping.alpha2", "-0.1", "at least 0"),
    ("--shaping.alpha1 inf", "--shaping.alpha1", "inf"),
    ("--reward.deadline 0", "--reward.deadline", "above 0"),
    ("--shaping.top_entropy_share 0", "--shaping.top_entropy_share", "above 0"),
    ("--shaping.top_entropy_share 1.5", "--shaping.top_entropy_share", "at most 1"),
    ("--train.max_steps 0", "--train.max_steps", "at least 1"),
    ("--shaping.over sideways", "--shaping.over", "'sideways'"),
    ("--algo.advantage.estimator GTPO", "--algo.advantage.estimator", "'GTPO'", "did you mean gtpo"),
    ("--algo.advantage.estimator nothing", "'nothing'", "gae, reinforce, ", "FILE.py:NAME"),
]


@pytest.mark.parametrize(("words", "named"), [(words, named) for words, *named in REFUSED])
def test_what_does_not_exist_or_has_no_meaning_is_refused_with_the_nearest_that_does(
    words: str, named: list[str]
) -> None:
    with pytest.raises(SettingsError) as refused:
        parse(words.split())
    assert_refusal(str(refused.value), *named)


def test_the_new_names_of_older_openrlhfs_flags_are_flags() -> None:
    assert {new for new in flags.RENAMED.values() if new} <= {*flags.defaults()}


@pytest.mark.parametrize("name", [*COUNTS, "vllm.max_num_seqs", "reward.batch_size", "reward.max_in_flight"])
def test_a_count_is_at_least_one(name: str) -> None:
    for count in (-2, 0):
        with pytest.raises(FlagError, match=f"--{name}.*at least 1"):
            parse([f"--{name}={count}"])
    assert vars(parse([f"--{name}=1"]))[name] == 1


def test_the_presets_are_the_algorithms_of_the_papers_table() -> None:
    assert flags.presets() == ["dapo", "dapo_forking", "grpo", "grpo_s", "gtpo"]
    of = {name: vars(parse(["--preset", name])) for name in flags.presets()}

    def different(one: str, other: str) -> set[str]:
        return {flag for flag in of[one] if of[one][flag] != of[other][flag]} - {"preset"}

    assert of["dapo"]["actor.eps_clip_low_high"] == [0.2, 0.28]
    assert of["dapo"]["algo.dynamic_filtering_enable"] is True
    assert of["dapo"]["reward.overlong_buffer_len"] == 1024
    assert different("dapo", "dapo_forking") == {"shaping.top_entropy_share"}
    assert of["dapo_forking"]["shaping.top_entropy_share"] == 0.2
    assert different("gtpo", "grpo_s") == {"algo.advantage.estimator"}
    assert of["gtpo"]["shaping.grop"] is True
    assert (of["gtpo"]["shaping.alpha1"], of["gtpo"]["shaping.alpha2"]) == (1.0, 0.1)
    assert of["grpo"]["algo.advantage.estimator"] == "group_norm", "OpenRLHF's name for it"
    own = ["--actor.eps_clip_low_high", "0.1", "0.3"]
    for words in (["--preset", "dapo", *own], [*own, "--preset", "dapo"]):
        assert vars(parse(words))["actor.eps_clip_low_high"] == [0.1, 0.3], "a flag of one's own wins"


NESTED = """
preset: dapo
shaping: {alpha2: 0.3, grop: true}
actor.eps_clip_low_high: [0.1, 0.2]
guide.model: null
train.async_enable: false
data.max_len: 640
"""


def test_a_file_gives_flags_nested_or_flat_and_the_command_line_overrides_it(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(NESTED)
    found = vars(parse([f"--config={file}", "--data.max_len", "320"]))
    assert (found["shaping.alpha2"], found["shaping.grop"]) == (0.3, True)
    assert found["actor.eps_clip_low_high"] == [0.1, 0.2]
    assert found["algo.dynamic_filtering_enable"] is True, "the preset's"
    assert (found["guide.model"], found["train.async_enable"], found["data.max_len"]) == (None, False, 320)


def test_the_settings_of_a_runs_record_give_the_same_run(tmp_path: Path) -> None:
    words = ["--preset=gtpo", "--no-shaping.grop", "--device=gpu", "--shaping.entropy_clip", "0", "2"]
    before = vars(parse([*words, "--data.label_key=a b"]))
    file = tmp_path / "run.json"
    file.write_text(json.dumps({"settings": {n: v for n, v in before.items() if n not in ("dry_run", "config")}}))
    after = vars(parse(["--config", str(file)]))
    one, other = (json.loads(json.dumps(flags)) for flags in (before, after))
    assert {name for name in one if one[name] != other[name]} == {"config", "preset"}


@pytest.mark.parametrize(
    ("text", "named"),
    [("- 1\n", "holds no flags"), ("a: [", "cannot be read"), ("shaping.alpha3: 1\n", "--shaping.alpha3")],
)
def test_a_file_that_holds_no_flags_is_refused_and_named(tmp_path: Path, text: str, named: str) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError) as refused:
        parse(["--config", str(file)])
    assert_refusal(str(refused.value).replace("\n", " "), named)
    with pytest.raises(SettingsError, match="cannot be read"):
        parse(["--config", str(tmp_path / "none.yaml")])


@pytest.mark.parametrize(
    ("words", "expected"),
    # 128 prompts x 8 responses for 4 engines; an odd share is rounded up; never more than 1,024 unless asked for.
    [
        ("--vllm.num_engines 4", 256),
        ("--vllm.num_engines 3", 342),
        ("--vllm.num_engines 4 --vllm.max_num_seqs 64", 64),
        ("--vllm.num_engines 4 --rollout.vllm_generate_batch_size 256", 512),
        ("--vllm.num_engines 1 --rollout.batch_size 512", 1024),
        ("--vllm.num_engines 1 --vllm.max_num_seqs 2048", 2048),
    ],
)
def test_an_engine_works_on_its_share_of_a_batch_at_once(words: str, expected: int) -> None:
    sizes = ["--rollout.batch_size=128", "--rollout.n_samples_per_prompt=8"]
    assert flags.responses_at_once(vars(parse([*sizes, *words.split()]))) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", 12),  # one rank has nobody to wait for
        ("--actor.num_gpus_per_node=2", 48),
        ("--actor.num_gpus_per_node=2 --actor.num_nodes=2 --ds.ring_attn_size=2", 48),
        ("--actor.num_gpus_per_node=8 --train.dynamic_batch_enable", 24),  # micro-batches are made by tokens
        ("--ds.ring_attn_size=2", 12),  # another check refuses it
        ("--actor.num_gpus_per_node=2 --ref.num_gpus_per_node=3 --algo.kl.init_coef=0.1 --algo.kl.use_loss", 48),
        ("--ref.num_gpus_per_node=3 --algo.kl.init_coef=0.1 --algo.kl.use_loss", 24),
        ("--ref.num_gpus_per_node=3", 12),  # without KL there is none
        ("--reward.num_gpus_per_node=3 --reward.model_name_or_path=judge", 24),
        ("--reward.num_gpus_per_node=3 --reward.model_name_or_path=judge --reward.remote_url=http://a:1", 12),
        ("--critic.num_gpus_per_node=3 --algo.advantage.estimator=gae", 24),
    ],
)
def test_a_batch_fills_updates_and_gives_every_rank_the_same_number_of_responses(words: str, expected: int) -> None:
    sizes = ["--device=gpu", "--actor.num_gpus_per_node=1", "--train.batch_size=12", "--rollout.micro_batch_size=8"]
    sizes += ["--algo.advantage.estimator=gtpo", "--algo.kl.init_coef=0"]
    assert flags.whole_updates(vars(parse([*sizes, *words.split()]))) == expected


@pytest.mark.parametrize(
    ("words", "services"),
    [
        ("", ()),
        ("--reward.remote_url http://a:1,http://b:2", ("http://a:1", "http://b:2")),
        ("--reward.remote_url rewards.py", ()),
        ("--train.agent_func_path agent.py", ()),
        ("--reward.model_name_or_path judge", ()),
    ],
)
def test_whoever_gives_rewards_takes_the_built_in_services_place(words: str, services: tuple[str, ...]) -> None:
    found = vars(parse(words.split()))
    assert flags.embedded(found) == (not words)
    assert flags.service_urls(found) == services


@pytest.mark.parametrize("name", ["openrlhf", "vllm"])
def test_a_folder_that_hides_an_installed_package_is_named(tmp_path: Path, name: str) -> None:
    """As a clone of OpenRLHF does for whoever starts in it."""
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").touch()
    command = [sys.executable, "-m", "openrlhf_gtpo.train", "--dry-run"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert_refusal(done.stderr.strip().splitlines()[-1], f"The folder {name} in {tmp_path} hides", "another folder")
