"""Two ranks whose second batch is short, because the prompts ran out or a group lost its rewards: no rank waits for
the other, and nothing is left over for the next step."""

import json
from pathlib import Path

import pytest

from .loop import Run, train

pytestmark = pytest.mark.engine

SIZES = [
    "--rollout.batch_size=4",
    "--rollout.n_samples_per_prompt=4",
    "--rollout.micro_batch_size=4",
    "--train.batch_size=4",
    "--train.micro_batch_size=2",
    "--actor.num_gpus_per_node=2",
]
DYNAMIC = ["--train.dynamic_batch_enable", "--ds.packing_samples", "--train.max_tokens_per_gpu=256"]
LORA = ["--ds.lora.rank=8", "--ds.lora.alpha=16", "--actor.adam.lr=1e-2"]
REWARDS = """
def reward_func(queries, prompts, labels):
    import torch
    if {question!r} in prompts[0]:
        raise RuntimeError("nobody judges this prompt")
    right = torch.tensor([float(f"boxed{{{{{{label}}}}}}" in query) for query, label in zip(queries, labels)])
    return {{"rewards": right, "scores": right}}
"""


def short_second_step(policy: Path, folder: Path, lost: bool, *flags: str) -> Run:
    """Two steps of four prompts, of which there are seven; or eight, of which one never gets a reward."""
    flags = (*SIZES, *flags, f"--data.max_samples={8 if lost else 7}")
    if lost:
        question = json.loads((policy / "train.jsonl").read_text().splitlines()[0])["input"]
        (folder / "rewards.py").write_text(REWARDS.format(question=question))
        flags = (*flags, f"--reward.remote_url={folder / 'rewards.py'}")
    return train(policy, folder, "gtpo", 2, *flags).check()


def check(run: Run, trained_on: int) -> None:
    first, second = run.metrics
    assert [first["rollout/num_samples"], second["rollout/num_samples"]] == [16, trained_on]
    assert any(line["actor_grad_norm"] > 0 for line in run.metrics)
    assert max(line["mismatch/logprob_gap"] for line in run.metrics) <= 2 * run.gap, "both ranks have one policy"


@pytest.mark.parametrize(
    ("lost", "flags"),
    [(False, []), (True, ["--train.batch_size=8", "--ds.zero_stage=3", *LORA])],
    ids=["the prompts run out", "a lost group, ZeRO-3, LoRA"],
)
def test_with_static_micro_batches_a_short_batch_is_cut_to_what_all_ranks_need(
    policy: Path, tmp_path: Path, lost: bool, flags: list[str]
) -> None:
    """Twelve responses are three micro-batches, which two ranks cannot share out."""
    run = short_second_step(policy, tmp_path, lost, *flags)
    check(run, 8)
    assert "warning: step 2 leaves out 4 of 12 responses" in run.log


@pytest.mark.parametrize(
    ("lost", "flags"),
    [(True, ["--ds.zero_stage=3"]), (False, LORA)],
    ids=["a lost group, ZeRO-3", "the prompts run out, LoRA"],
)
def test_with_dynamic_micro_batches_a_short_batch_is_shared_out_whole(
    policy: Path, tmp_path: Path, lost: bool, flags: list[str]
) -> None:
    run = short_second_step(policy, tmp_path, lost, *DYNAMIC, *flags)
    check(run, 12)
    assert "leaves out" not in run.log
