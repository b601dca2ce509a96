"""The last words of a run: what happened, and how it goes on."""

import errno
from pathlib import Path
from typing import Any

import ray.exceptions

from openrlhf_gtpo.driver.failures import last_checkpoint, one_sentence
from openrlhf_gtpo.errors import UserError

from ...refusals import assert_refusal

# As Ray words it when an actor's process is killed.
DEATH = """The actor died unexpectedly before finishing this task.
\tclass_name: RolloutActor
\tactor_id: 0f2f
\tpid: 4711
\tnamespace: 1c3e
The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: killed."""


def checkpoint(folder: Path, step: int) -> dict[str, Any]:
    (folder / "_actor").mkdir()
    (folder / "_actor" / "latest").write_text(f"global_step{step}")
    return {"ckpt.path": str(folder)}


def test_an_error_that_was_raised_to_say_why_is_its_own_sentence() -> None:
    assert one_sentence(UserError("No reward."), {}) == "No reward."
    wrapped = RuntimeError("elsewhere")
    wrapped.__cause__ = UserError("No reward.")
    assert one_sentence(wrapped, {}) == "No reward."


def test_with_a_checkpoint_the_sentence_says_how_to_go_on(tmp_path: Path) -> None:
    said = one_sentence(UserError("No reward."), checkpoint(tmp_path, 40))
    assert said == (
        "No reward. The same command with --ckpt.load_enable continues after step 40, the last "
        f"checkpoint in {tmp_path}."
    )


def test_a_process_that_died_is_named(tmp_path: Path) -> None:
    error = ray.exceptions.ActorDiedError()
    error.error_msg = DEATH
    error.args = (DEATH,)
    said = one_sentence(error, checkpoint(tmp_path, 7))
    assert_refusal(str(said), "RolloutActor (pid 4711) died (SYSTEM_ERROR)", "--ckpt.load_enable", "step 7")
    said = one_sentence(error, {"ckpt.path": str(tmp_path / "none")})
    assert_refusal(str(said), "--ckpt.save_steps")


def test_a_full_disk_is_called_so_wherever_it_was_met() -> None:
    here = OSError(errno.ENOSPC, "No space left on device")
    in_a_worker = RuntimeError("ray::Trainer.fit()\nOSError: [Errno 28] No space left on device: 'metrics.jsonl'")
    for error in (here, in_a_worker):
        assert_refusal(str(one_sentence(error, {})), "disk is full", "--ckpt.save_steps")


def test_a_node_without_a_key_for_wandb_is_told_from_a_bad_key() -> None:
    error = RuntimeError("wandb.errors.errors.AuthenticationError: API key may only contain the letters A-Z, digits")
    assert_refusal(str(one_sentence(error, {})), "no key", "WANDB_API_KEY")


def test_what_nobody_expected_keeps_its_traceback() -> None:
    assert one_sentence(KeyError("surprise"), {}) is None
    assert one_sentence(RuntimeError("AuthenticationError of a proxy"), {}) is None
    assert one_sentence(OSError(errno.EACCES, "Permission denied"), {}) is None


def test_there_is_no_checkpoint_before_the_first(tmp_path: Path) -> None:
    assert last_checkpoint({}) is None
    assert last_checkpoint({"ckpt.path": str(tmp_path)}) is None
    assert last_checkpoint(checkpoint(tmp_path, 12)) == 12
