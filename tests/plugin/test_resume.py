"""What a resume refuses, warns of and puts in force, by what its checkpoint is of: with a dry run and without."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from openrlhf_gtpo import flags, resume, train
from openrlhf_gtpo.checks import data
from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.terminal import Terminal

from ..refusals import assert_refusal

CHECKPOINT = Path("state/_actor/global_step1")
GIVEN = {"--device": "cpu", "--actor.model_name_or_path": "policy", "--data.prompt_dataset": "train.jsonl"}
GIVEN |= {"--data.label_key": "label", "--data.max_len": "128", "--rollout.max_new_tokens": "40"}
GIVEN |= {"--ckpt.path": "state", "--ckpt.output_dir": "out", "--algo.advantage.estimator": "group_norm"}
GIVEN |= {"--rollout.n_samples_per_prompt": "4", "--rollout.batch_size": "4", "--train.batch_size": "16"}
GIVEN |= {"--actor.num_gpus_per_node": "1", "--algo.kl.init_coef": "0", "--train.max_steps": "2"}
GIVEN |= {"--actor.adam.lr": "1.5e-4"}

Prepare = Callable[..., Any]


def questions(count: int, first: int = 0) -> str:
    lines = ({"input": f"Put {n} into \\boxed{{}}.", "label": str(n)} for n in range(first, first + count))
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.fixture
def prepare(policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prepare:
    """The driver's own function, with what a test changes, beside the checkpoint of a run of two ranks' files."""
    monkeypatch.chdir(tmp_path)
    Path("train.jsonl").write_text(questions(16))

    def prepared(*words: str, **changed: str) -> Any:
        data._seen.cache_clear()  # of a process, whose files do not change
        given = GIVEN | {f"--{name.replace('__', '.')}": value for name, value in changed.items()}
        return train.prepare(flags.parse([*(word for one in given.items() for word in one), *words]), Terminal())

    save(vars(prepared())["checkpoint"])
    return prepared


def save(of: str | None, ranks: int = 1) -> None:
    """A checkpoint as DeepSpeed and the policy's actor leave it."""
    shutil.rmtree(CHECKPOINT, ignore_errors=True)
    CHECKPOINT.mkdir(parents=True)
    for rank in range(ranks):
        torch.save({}, CHECKPOINT / f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
    CHECKPOINT.with_name("latest").write_text(CHECKPOINT.name)
    if of is not None:
        (CHECKPOINT / resume.FILE).write_text(of)


Warnings = Callable[..., list[str]]


@pytest.fixture
def warnings(prepare: Prepare, capsys: pytest.CaptureFixture[str]) -> Warnings:
    """What is said of a resume that may go on."""

    def warned(*words: str, **changed: str) -> list[str]:
        capsys.readouterr()
        prepare("--ckpt.load_enable", "--dry-run", *words, **changed)
        return capsys.readouterr().err.splitlines()

    return warned


def test_the_same_run_goes_on_without_a_word_wherever_its_files_lie_now(warnings: Warnings) -> None:
    Path("policy").rename("moved")
    Path("train.jsonl").rename("moved.jsonl")
    assert warnings(actor__model_name_or_path="moved", data__prompt_dataset="moved.jsonl") == []


def test_the_first_rows_of_several_files_are_the_same_data(warnings: Warnings) -> None:
    assert warnings("--data.max_samples=16", data__prompt_dataset="train.jsonl,train.jsonl") == []


def test_a_dry_run_reads_no_data_set_of_the_hub(warnings: Warnings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "rows", lambda *_: pytest.fail("it is read"))
    assert warnings(data__prompt_dataset="owner/prompts") == []


def test_a_model_of_the_hub_is_known_by_its_name(warnings: Warnings) -> None:
    record = json.loads((CHECKPOINT / resume.FILE).read_text())
    record["model"]["sha256"] = None
    save(json.dumps(record))
    assert warnings() == []


def other_weights() -> None:
    (file,) = Path("policy").glob("*.safetensors")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def other_config() -> None:
    config = Path("policy/config.json")
    config.write_text(config.read_text().replace("{", '{"rope_theta": 1.0,', 1))


@pytest.mark.parametrize("how", [["--dry-run"], []])
@pytest.mark.parametrize("change", [other_weights, other_config, None])
def test_another_model_is_refused(prepare: Prepare, change: Callable[[], None] | None, how: list[str]) -> None:
    shutil.copytree("policy", "copy")
    if change:
        change()
    name = "policy" if change else "owner/model"
    with pytest.raises(SettingsError) as refused:
        prepare("--ckpt.load_enable", *how, actor__model_name_or_path=name)
    said, named = str(refused.value).splitlines()[-1], Path(name).absolute() if change else name
    assert_refusal(said, f"--actor.model_name_or_path {named}", str(CHECKPOINT))
    prepare("--ckpt.load_enable", *how, actor__model_name_or_path="copy")


@pytest.mark.parametrize("how", [["--dry-run"], []])
@pytest.mark.parametrize(
    ("rows", "more"),
    [
        (questions(15), []),
        (questions(16).replace("Put", "Write"), []),
        (questions(16).replace('"label": "', '"label": "1'), []),
        (questions(20, 1), []),
        (questions(16), ["--data.max_samples=8"]),
    ],
    ids=["shorter", "other prompts", "other labels", "longer and other", "fewer samples"],
)
def test_other_data_are_refused(prepare: Prepare, rows: str, more: list[str], how: list[str]) -> None:
    Path("train.jsonl").write_text(rows)
    with pytest.raises(SettingsError) as refused:
        prepare("--ckpt.load_enable", *how, *more)
    count = 8 if more else rows.count("\n")
    assert_refusal(str(refused.value), f"--data.prompt_dataset train.jsonl ({count} rows)", "(16 rows)", "another")


def test_a_longer_file_goes_on_with_its_consequences(warnings: Warnings) -> None:
    Path("train.jsonl").write_text(questions(20))
    rows, schedule = warnings()
    assert "has 20 rows, and had 16" in rows
    assert "more rows" in schedule


@pytest.mark.parametrize("known", [True, False])
def test_another_number_of_ranks_is_refused_which_an_older_checkpoints_files_tell(
    prepare: Prepare, known: bool
) -> None:
    of = (CHECKPOINT / resume.FILE).read_text().replace('"ranks": 1', '"ranks": 2')
    save(*(of, 1) if known else (None, 2))  # the files of other machines may lie there
    with pytest.raises(SettingsError) as refused:
        prepare("--ckpt.load_enable", "--dry-run")
    assert_refusal(str(refused.value), "of 2 training process(es)", "--actor.num_gpus_per_node", " are 1: train on 2")


@pytest.mark.parametrize("written", [None, "{", "5"])
def test_an_older_checkpoint_goes_on_with_a_sentence_and_none_of_its_values_is_guessed(
    prepare: Prepare, warnings: Warnings, written: str | None
) -> None:
    save(written)
    (said,) = warnings(actor__adam__lr="1e-6")
    assert_refusal(said, str(CHECKPOINT), resume.FILE)
    args = vars(prepare("--ckpt.load_enable", actor__adam__lr="1e-6"))
    assert args["actor.adam.lr"] == 1e-6
    save(args["checkpoint"])
    assert warnings(actor__adam__lr="1e-5") == [], "nobody knows what it was"


def test_a_learning_rate_that_a_resume_ignores_is_named_and_the_old_one_stays_in_force(
    prepare: Prepare, warnings: Warnings
) -> None:
    (said,) = warnings(actor__adam__lr="1e-6")
    assert_refusal(said, "--actor.adam.lr 1e-06", "0.00015")
    args = vars(prepare("--ckpt.load_enable", actor__adam__lr="1e-6"))
    assert args["settings"]["actor.adam.lr"] == args["actor.adam.lr"] == 1.5e-4, "as run.json has it"
    save(args["checkpoint"])
    assert len(warnings(actor__adam__lr="1e-6")) == 1, "of the next resume too"
    assert warnings() == []
    assert vars(prepare(actor__adam__lr="1e-6"))["settings"]["actor.adam.lr"] == 1e-6, "a run that starts over"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("actor__adam__betas", "0.9 0.99", "ignored: a resume keeps the checkpoint's, [0.9, 0.95]"),
        ("actor__max_norm", "2", "ignored: a resume keeps the checkpoint's, 1.0"),
        ("train__max_steps", "4", "(--train.max_steps 4, before 2)"),
        ("actor__lr_scheduler", "constant", "before cosine_with_min_lr"),
        ("algo__advantage__estimator", "rloo", "rloo, before group_norm: give"),
        ("actor__eps_clip", "0.3", "0.3, before 0.2: give"),
        ("train__max_steps", "1", "has all 1 steps of this command"),
    ],
)
def test_what_may_be_meant_is_named_with_both_values(warnings: Warnings, name: str, value: str, said: str) -> None:
    words = [f"--{name.replace('__', '.')}", *value.split()]
    found = warnings(*words)[-1]
    assert_refusal(found, words[0], said)


FORMS = ["ds.zero_stage 3", "ds.zero_stage 0", "ds.param_dtype fp32", "ds.lora.rank 8", "ds.lora.alpha 32"]
FORMS += ["actor.optim muon", "data.dataloader_num_workers 2"]


@pytest.mark.parametrize("form", FORMS)
def test_a_form_in_which_a_checkpoint_cannot_be_loaded_is_refused(prepare: Prepare, form: str) -> None:
    name, value = form.split()
    save(vars(prepare(ds__param_dtype="bf16"))["checkpoint"])
    with pytest.raises(SettingsError) as refused:
        prepare(
            "--ckpt.load_enable",
            "--dry-run",
            *[] if "dtype" in name else ["--ds.param_dtype=bf16"],
            f"--{name}",
            value,
        )
    assert_refusal(str(refused.value), str(CHECKPOINT), f"--{name} {value}, before ")


def test_what_a_response_is_worth_and_the_guide_are_of_what_is_learned(prepare: Prepare, warnings: Warnings) -> None:
    Path("mine.py").write_text("def reward_func(queries, prompts, labels): ...\n")
    for words, said in (
        (["--reward.mode", "strict"], "--reward.mode strict, before None"),
        (["--reward.overlong_buffer_len", "10"], "--reward.overlong_buffer_len 10.0, before None"),
        (["--reward.remote_url", "mine.py"], f"--reward.remote_url {Path('mine.py').absolute()}, before None"),
        (["--guide.weight", "0.5"], "--guide.weight 0.5, before 1.0"),
        (["--reward.timeout", "5", "--reward.batch_size", "8"], ""),
    ):
        model = ["--guide.model", "policy", "--guide.when", "zero_reward"] if "guide" in words[0] else []
        given = [*words, *model, *["--algo.dynamic_filtering_enable"] * bool(model)]
        found = warnings(*given)
        assert [said in one for one in found] == [True] * bool(said), found


@pytest.mark.parametrize("name", ["tokenizer.json", "chat_template.jinja"])
def test_another_tokenizer_or_template_gives_other_prompts(warnings: Warnings, name: str) -> None:
    path = Path("policy", name)
    path.write_text(path.read_text() + " ")
    (said,) = warnings()
    assert_refusal(said, "chat template", str(path.parent), str(CHECKPOINT))
    record = json.loads((CHECKPOINT / resume.FILE).read_text())
    del record["model"]["tokenizer"]
    save(json.dumps(record))
    assert warnings() == [], "as of an older version"


def test_a_universal_checkpoint_fits_any_number_of_processes(prepare: Prepare, warnings: Warnings) -> None:
    save((CHECKPOINT / resume.FILE).read_text().replace('"ranks": 1', '"ranks": 2'))
    with pytest.raises(SettingsError) as refused:
        warnings("--ds.use_universal_ckpt")
    assert_refusal(str(refused.value), "latest_universal is not there", "ds_to_universal.py")

    universal = CHECKPOINT.with_name(f"{CHECKPOINT.name}_universal")
    universal.mkdir()
    torch.save({}, universal / "mp_rank_00_model_states.pt")
    CHECKPOINT.with_name("latest_universal").write_text(universal.name)
    assert warnings("--ds.use_universal_ckpt", ds__zero_stage="3") == []
    with pytest.raises(SettingsError, match="of 2 training"):
        warnings()


def test_zero_1_and_2_have_the_same_files(warnings: Warnings) -> None:
    assert warnings(ds__zero_stage="1") == []


def test_zero_3_takes_the_norm_of_the_new_command(prepare: Prepare, warnings: Warnings) -> None:
    save(vars(prepare(ds__zero_stage="3"))["checkpoint"])
    assert warnings(ds__zero_stage="3", actor__max_norm="2") == []


def test_an_estimator_of_ones_own_is_the_same_from_another_folder(
    prepare: Prepare, warnings: Warnings, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("mine.py").write_text("def shape(rollouts): return rollouts.rewards\n")
    monkeypatch.setattr("openrlhf_gtpo.checks.data._function", lambda given: iter(()))
    save(vars(prepare(algo__advantage__estimator="mine.py:shape"))["checkpoint"])
    assert warnings(algo__advantage__estimator="mine.py:shape") == []
