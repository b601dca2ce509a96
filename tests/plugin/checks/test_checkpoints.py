"""The checkpoint that a run goes on from is whole, or the sentence names one that is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from openrlhf_gtpo.checks import Finding, checkpoints

from ...refusals import assert_refusal


@pytest.fixture
def found(parse: Callable[..., dict[str, Any]], tmp_path: Path) -> Callable[[], list[Finding]]:
    for step in (2, 10, 12):
        folder = tmp_path / "_actor" / f"global_step{step}"
        folder.mkdir(parents=True)
        for name in ("mp_rank_00_model_states.pt", "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt"):
            torch.save({"weights": torch.zeros(100)}, folder / name)
    (tmp_path / "_actor" / "latest").write_text("global_step12")
    return lambda: list(checkpoints.check(parse("--ckpt.path", tmp_path, "--ckpt.load_enable")))


def test_a_whole_one_is_fine(found: Callable[[], list[Finding]], tmp_path: Path) -> None:
    assert [one.state for one in found()] == ["ok"]
    assert checkpoints.latest_step(str(tmp_path)) == 12


@pytest.mark.parametrize("damage", ["cut off", "empty", "no weights", "no folder", "pointer"])
def test_a_damaged_one_is_named_with_the_newest_whole_one(
    damage: str, found: Callable[[], list[Finding]], tmp_path: Path
) -> None:
    folder, pointer = tmp_path / "_actor" / "global_step12", tmp_path / "_actor" / "latest"
    file = folder / "mp_rank_00_model_states.pt"
    if damage in ("cut off", "empty"):
        file.write_bytes(file.read_bytes()[: 200 * (damage == "cut off")])
    elif damage == "pointer":
        pointer.write_text("")
        folder.rename(tmp_path / "elsewhere")
    else:
        for one in folder.iterdir():
            one.unlink()
        if damage == "no folder":
            folder.rmdir()
    (sentence,) = [one.sentence for one in found() if one.state == "fault"]
    assert_refusal(sentence, "damaged", "write global_step10 into", str(pointer))


def test_the_best_checkpoint_is_one_to_go_on_from(found: Callable[[], list[Finding]], tmp_path: Path) -> None:
    best, pointer = tmp_path / "_actor" / "best_global_step20", tmp_path / "_actor" / "latest"
    (tmp_path / "_actor" / "global_step12").rename(best)
    pointer.write_text(best.name)
    assert [one.state for one in found()] == ["ok"]
    assert checkpoints.latest_step(str(tmp_path)) == 20
    pointer.write_text("global_step21")
    (sentence,) = [one.sentence for one in found()]
    assert_refusal(sentence, "damaged", f"write {best.name} into")


def test_without_a_whole_one_the_run_begins_again(found: Callable[[], list[Finding]], tmp_path: Path) -> None:
    for file in tmp_path.rglob("*.pt"):
        file.write_bytes(b"")
    (sentence,) = [one.sentence for one in found()]
    assert_refusal(sentence, "leave --ckpt.load_enable out")
