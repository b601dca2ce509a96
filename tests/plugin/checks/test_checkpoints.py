"""The checkpoint that a run goes on from is there and whole, or the sentence names one that is, or what is there."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from openrlhf_gtpo import resume
from openrlhf_gtpo.checks import Finding, checkpoints
from openrlhf_gtpo.cpu import platform

from ...refusals import assert_refusal

Found = Callable[..., list[Finding]]


@pytest.fixture
def found(parse: Callable[..., dict[str, Any]], tmp_path: Path) -> Found:
    for step in (2, 10, 12):
        folder = tmp_path / "_actor" / f"global_step{step}"
        folder.mkdir(parents=True)
        for name in ("mp_rank_00_model_states.pt", "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt"):
            torch.save({"weights": torch.zeros(100)}, folder / name)
    (tmp_path / "_actor" / "latest").write_text("global_step12")

    def check(*words: str, path: Path = tmp_path) -> list[Finding]:
        given = parse("--ckpt.path", path, "--actor.num_gpus_per_node", 1, *(words or ["--ckpt.load_enable"]))
        platform.prepare(given)
        return list(checkpoints.check(given))

    return check


def test_a_whole_one_is_fine(found: Found, tmp_path: Path) -> None:
    assert [one.state for one in found() if one.check == "checkpoint"] == ["ok"]
    assert resume.latest_step(str(tmp_path)) == 12


@pytest.mark.parametrize("damage", ["cut off", "empty", "no weights", "no folder", "pointer", "no pointer"])
def test_a_damaged_one_is_named_with_the_newest_whole_one(damage: str, found: Found, tmp_path: Path) -> None:
    folder, pointer = tmp_path / "_actor" / "global_step12", tmp_path / "_actor" / "latest"
    file = folder / "mp_rank_00_model_states.pt"
    if damage in ("cut off", "empty"):
        file.write_bytes(file.read_bytes()[: 200 * (damage == "cut off")])
    elif damage.endswith("pointer"):
        pointer.write_text("") if damage == "pointer" else pointer.unlink()
        folder.rename(tmp_path / "elsewhere")
    else:
        for one in folder.iterdir():
            one.unlink()
        if damage == "no folder":
            folder.rmdir()
    shutil.copytree(tmp_path / "_actor" / "global_step10", tmp_path / "_actor" / "global_step11_universal")
    (sentence,) = [one.sentence for one in found() if one.state == "fault"]
    assert_refusal(sentence, "damaged", "write global_step10 into", str(pointer))
    assert (f"{pointer} is not there" in sentence) == (damage == "no pointer")


def test_the_best_checkpoint_is_one_to_go_on_from(found: Found, tmp_path: Path) -> None:
    best, pointer = tmp_path / "_actor" / "best_global_step20", tmp_path / "_actor" / "latest"
    (tmp_path / "_actor" / "global_step12").rename(best)
    pointer.write_text(best.name)
    assert [one.state for one in found() if one.check == "checkpoint"] == ["ok"]
    assert resume.latest_step(str(tmp_path)) == 20
    pointer.write_text("global_step21")
    (sentence,) = [one.sentence for one in found()]
    assert_refusal(sentence, "damaged", f"write {best.name} into")


def test_without_a_whole_one_the_run_begins_again(found: Found, tmp_path: Path) -> None:
    for file in tmp_path.rglob("*.pt"):
        file.write_bytes(b"")
    (sentence,) = [one.sentence for one in found()]
    assert_refusal(sentence, "leave --ckpt.load_enable out")


def test_what_a_folder_without_checkpoints_has_is_said(found: Found, tmp_path: Path) -> None:
    """A model, or a folder inside the checkpoints, is refused; nothing is not: a script may always resume, the first
    time too."""
    inside = [tmp_path / "_actor", tmp_path / "_actor" / "global_step12", tmp_path / "global_step12_hf"]
    inside.append(tmp_path / "global_step_12")
    model, started, shards = (tmp_path / "elsewhere" / name for name in ("model", "started", "shards"))
    for folder, name in ((inside[2], "config.json"), (model, "config.json"), (started, "run.lock")):
        folder.mkdir(parents=True)
        (folder / name).write_text("{}")
    shards.mkdir()
    (shards / "model-00001-of-00002.safetensors").write_text("")
    (tmp_path / "empty").mkdir()
    for path, state, said in (
        *((one, "fault", f"name {tmp_path}.") for one in inside),
        (tmp_path / "nowhere", "warning", "is not there"),
        (tmp_path / "empty", "warning", "has nothing"),
        (tmp_path / "emtpy", "warning", "is not there (did you mean"),
        (started, "warning", "has run.lock"),
        (model, "fault", f"give --actor.model_name_or_path {model} and no --ckpt.load_enable"),
        (shards, "fault", "has a model"),
        (tmp_path / "_actor" / "latest", "fault", "is a file"),
    ):
        (finding,) = found("--ckpt.load_enable", path=path)
        assert finding.state == state
        assert_refusal(finding.sentence, f"--ckpt.path {path}", said)


def test_a_run_that_starts_over_where_checkpoints_are_says_so(found: Found, tmp_path: Path) -> None:
    assert found("--ckpt.save_steps", "-1") == []
    (finding,) = found("--ckpt.save_steps", "1")
    assert finding.state == "warning"
    assert_refusal(finding.sentence, str(tmp_path), "--ckpt.path", "--ckpt.load_enable")
    assert found("--ckpt.save_steps", "1", path=tmp_path / "other") == []
