"""Training's command line: read from OpenRLHF's source without its imports, and what it says of flags that are not."""

import argparse
import copy
import subprocess
import sys
from typing import Any

import pytest

from openrlhf_gtpo.controller.run_record import flat
from openrlhf_gtpo.driver import command_line
from openrlhf_gtpo.driver.command_line import FlagError, openrlhfs_refusal, parse
from openrlhf_gtpo.openrlhf_internals import CLI, source_of
from openrlhf_gtpo.settings import Settings

from ...refusals import assert_refusal

FLAGS = ["--reward.remote_url", "http://a,http://b", "--algo.advantage.is_correction_threshold", "2"]
FLAGS += ["--algo.advantage.estimator", "reinforce", "--vllm.num_engines", "1", "--actor.num_gpus_per_node", "1"]


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    """The names of OpenRLHF's own script after it read `FLAGS`, imports and all, and before it trains."""
    names: dict[str, Any] = {"__name__": "__main__"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["train", *FLAGS])
        exec(source_of(CLI).read_text(encoding="utf-8").replace("    train(args)\n", ""), names)
    return names


def described(parser: argparse.ArgumentParser) -> list[dict[str, Any]]:
    """All that decides what a parser does with a command line, and its help."""
    names = ("option_strings", "dest", "nargs", "const", "default", "type", "choices", "required", "metavar", "help")
    rows = [{name: getattr(action, name) for name in names} | {"kind": type(action)} for action in parser._actions]
    for row in rows:
        if row["dest"] == "logger.wandb.run_name":
            row["default"] = row["default"].split("T")[0]  # the minute may pass
    return rows


def test_the_parser_read_from_the_source_is_that_of_the_whole_script(script: dict[str, Any]) -> None:
    assert described(command_line.openrlhfs_parser()) == described(script["parser"])
    assert len(described(script["parser"])) > 150


def test_train_gets_what_the_whole_script_would_give_it(script: dict[str, Any]) -> None:
    theirs, ours = flat(script["args"]), flat(command_line.settled(Settings(parse(FLAGS).flags)))
    assert theirs["reward.remote_url"] == ["http://a", "http://b"]
    assert {name: value for name, value in ours.items() if name in theirs} == theirs | {"ds.param_dtype": "auto"}


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
    usage, more, sentence = done.stderr.splitlines()
    assert usage.startswith("usage: openrlhf-gtpo train ")
    assert more.strip().startswith("openrlhf-gtpo train --help")
    assert sentence == (
        "openrlhf-gtpo train: error: There is no flag --rollout.n_sample_per_prompt: did you mean "
        "--rollout.n_samples_per_prompt or --eval.n_samples_per_prompt?"
    )


def test_every_flag_shows_its_default_in_the_help(parser: argparse.ArgumentParser) -> None:
    assert parser.format_help().startswith("usage: ")
    shown = {option: (action.help or "") for action in parser._actions for option in action.option_strings}
    assert [option for option, said in shown.items() if "default:" not in said] == ["-h", "--help"]
    expected = {"--ds.zero_stage": "2", "--train.colocate_all": "off", "--algo.kl.init_coef": "0.01"}
    expected |= {"--reward.clip_range": "-10 10", "--critic.model_name_or_path": "none"}
    expected |= {"--actor.muon.nesterov": "on", "--actor.muon.no_nesterov": "off"}
    assert {option: shown[option].rpartition("(default: ")[2] for option in expected} == {
        option: f"{default})" for option, default in expected.items()
    }


REFUSED: list[tuple[str, ...]] = [
    ("--n_samples_per_prompt 1", "--n_samples_per_prompt", "--rollout.n_samples_per_prompt"),
    ("--train_batch_size 1", "--train_batch_size", "--train.batch_size"),
    ("--train-batch-size 1", "--train-batch-size", "--train.batch_size"),
    ("--remote_rm_url 1", "--remote_rm_url", "--reward.remote_url"),
    ("--model_name 1", "--model_name", "--actor.model_name_or_path"),
    ("--dry_run", "--dry_run", "--dry-run"),
    ("--frobnicate 9 9", "--frobnicate", "--help"),
    ("gtpo", "'gtpo'", "--help"),
    ("--rollout.batch_size ten", "--rollout.batch_size", "'ten'"),
    ("--rollout.batch_size", "--rollout.batch_size", "one argument"),
    ("--pres gtpo", "--pres", "--preset"),
]


@pytest.mark.parametrize(("words", "named"), [(words, named) for words, *named in REFUSED])
def test_what_does_not_exist_is_refused_with_the_nearest_that_does(words: str, named: list[str]) -> None:
    with pytest.raises(FlagError) as refused:
        parse(words.split())
    assert_refusal(str(refused.value), *named)


def test_each_fault_has_its_sentence() -> None:
    with pytest.raises(FlagError) as refused:
        parse(["--ds.zero_stages", "3", "--rollout.topp=1"])
    first, second = str(refused.value).splitlines()
    assert_refusal(first, "--ds.zero_stages", "--ds.zero_stage?")
    assert_refusal(second, "--rollout.topp", "--rollout.top_p ", "--rollout.top_k")


def test_what_was_given_is_told_from_defaults_also_where_the_value_is_the_default() -> None:
    line = parse(["--actor.num_gpus_per_node=8", "--train.colocate_all", "--rollout.n_samples_per_prompt", "4"])
    assert line.given == {"actor.num_gpus_per_node", "train.colocate_all", "rollout.n_samples_per_prompt"}
    assert line.flags["rollout.n_samples_per_prompt"] == 4
    assert line.flags["ref.num_gpus_per_node"] == 8


PLAIN = ["--algo.advantage.estimator", "reinforce", "--vllm.num_engines", "1", "--actor.num_gpus_per_node", "1"]


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--train.partial_rollout_enable"], "--train.async_enable"),
        (["--rollout.micro_batch_size", "2048"], "sample batches"),
        (["--algo.advantage.is_correction_threshold", "1", "2", "3"], "LOW HIGH"),
        (["--algo.dynamic_filtering_enable"], "n_samples_per_prompt"),
        (["--algo.advantage.estimator", "rloo"], "rloo"),
        (["--eval.dataset", "x", "--reward.model_name_or_path", "judge"], "--eval_dataset"),
    ],
)
def test_what_openrlhfs_script_asserts_is_told_before_it_runs(flags: list[str], named: str) -> None:
    settings = Settings(parse([*PLAIN, *flags]).flags)
    before = copy.deepcopy(settings)
    sentence = openrlhfs_refusal(settings)
    assert_refusal(str(sentence), "OpenRLHF", named)
    assert settings == before


@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--algo.advantage.estimator", "gae"],  # its critic is the policy where rewards come by URL
        ["--eval.dataset", "x"],  # rewards of the built-in service count as remote
        ["--train.agent_func_path", "agent.py", "--eval.dataset", "x"],
        ["--algo.advantage.is_correction_threshold", "2"],  # which the script changes in place
        ["--use_ms"],
    ],
)
def test_what_openrlhfs_script_takes_is_taken_in_silence(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    settings = Settings(parse([*PLAIN, *flags]).flags)
    before = copy.deepcopy(settings)
    assert openrlhfs_refusal(settings) is None
    assert settings == before
    assert capsys.readouterr() == ("", "")
