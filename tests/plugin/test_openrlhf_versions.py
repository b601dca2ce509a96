"""The other releases of the supported range, each installed beside the tests: what the plugin leans on is there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from openrlhf_gtpo import openrlhf_internals
from openrlhf_gtpo.driver import command_line
from openrlhf_gtpo.driver.refusals import refusals
assert openrlhf_internals.check() == sys.argv[1], openrlhf_internals.check()

# The classes of every process role can be made of this release's.
from openrlhf_gtpo.controller import experience
from openrlhf_gtpo.policy import actor as policy
from openrlhf_gtpo.rollout import actor as rollout
from openrlhf_gtpo.engine import openrlhf_worker as vllm_openrlhf_worker
from openrlhf_gtpo.cpu import actors

# Its own parser, read from its source, takes our flags and is the one that its script makes.
import argparse, runpy
args = command_line.parse(
    ["--algo.advantage.estimator", "grpo_s", "--algo.kl.init_coef", "0", "--data.label_key", "answer",
     "--rollout.n_samples_per_prompt", "8", "--shaping.alpha2", "0.2", "--vllm.num_engines", "1"]
).args
assert vars(args)["algo.advantage.estimator"] == "grpo_s"
assert refusals(args) == [], refusals(args)
class Parsed(Exception): pass
def stop(self, *_):
    command_line.check_same(self)
    raise Parsed
argparse.ArgumentParser.parse_args = stop
try:
    runpy.run_module(openrlhf_internals.CLI, run_name="__main__")
except Parsed:
    print("parsed")

# Its policy loss, whatever it returns beside the loss, becomes GRPO-S's.
import torch
from openrlhf.models.loss import PolicyLoss
from openrlhf_gtpo.policy.loss import SequenceRatioLoss
theirs = PolicyLoss(clip_eps_low=0.2, clip_eps_high=0.28)
old = torch.zeros(2, 3)
new = torch.tensor([[0.3, 0.3, 0.3], [-0.1, -0.1, 0.0]], requires_grad=True)
mask = torch.tensor([[1, 1, 1], [1, 1, 0]])
advantages = torch.tensor([[1.0, 1.0, 1.0], [-1.0, -1.0, 0.0]])
found = SequenceRatioLoss.like(theirs)(new, old, advantages, action_mask=mask)
expected = (-min(2.718281828 ** 0.3, 1.28) + 2.718281828 ** -0.1) / 2
assert abs(found[0].item() - expected) < 1e-6, (found[0].item(), expected)
assert len(found) == len(theirs(new, old, advantages, action_mask=mask))
print("fits")
"""


@pytest.mark.engine
@pytest.mark.parametrize("release", ["0.11.0", "0.11.1"])
def test_an_earlier_release_of_the_range_fits(release: str, tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    install = subprocess.run([*pip, f"--target={tmp_path}", f"openrlhf=={release}"], capture_output=True, text=True)
    if install.returncode:
        pytest.skip(f"openrlhf {release} cannot be installed here: {install.stderr.strip().splitlines()[-1][:200]}")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, release],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split()[-2:] == ["parsed", "fits"], done.stdout[-1000:] + done.stderr[-3000:]
