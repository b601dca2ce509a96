"""docs/examples/slurm.sbatch, with stand-ins for Slurm, Ray and the training script. With Ray itself it ran in two
network namespaces; under Slurm it never ran."""

import subprocess
from pathlib import Path

import pytest

from ..refusals import assert_refusal

SCRIPT = Path(__file__).parents[2] / "docs" / "examples" / "slurm.sbatch"
FAKES = {
    "bin/scontrol": "printf 'first\\nsecond\\n'",
    "bin/openssl": "echo secret",
    "bin/math-reward": "exec sleep 60",
    # Whose node's Ray is to end does so at once.
    "bin/srun": """cpus=SRUN_CPUS_PER_TASK=$SRUN_CPUS_PER_TASK
    echo "TMPDIR=$TMPDIR RAY_TMPDIR=$RAY_TMPDIR HF_HOME=$HF_HOME $cpus srun $*" >>"$RECORD"
    [[ -z $BROKEN || "$*" != *$BROKEN* ]] || exit 1
    exec sleep 60""",
    # The address that leads to the other node; as many nodes as `ray start` was called, but for the broken one.
    "bin/python": """case "$*" in
        *SOCK_DGRAM*second) echo 10.0.0.5 ;;
        *ray.nodes*) sleep 0.1; grep 'ray start' "$RECORD" | grep -vc -- "${BROKEN:-nothing}" ;;
    esac""",
    ".venv/bin/activate": "",
    "launch/train_gtpo.sh": """token=$(cat "$MATH_REWARD_TOKEN_FILE")
    echo "train NODES=$NODES GPUS=$GPUS $REWARD_URL $RAY_ADDRESS $token $*" >>"$RECORD\"""",
}


def submitted(folder: Path, *words: str, **environment: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """The script on two nodes; what was started, line by line."""
    for name, text in FAKES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/usr/bin/env bash\n{text}\n")
        path.chmod(0o755)
    record = folder / "record"
    record.touch()
    slurm = {"JOB_ID": "77", "JOB_NODELIST": "x", "NNODES": "2", "CPUS_PER_TASK": "64", "GPUS_ON_NODE": "4"}
    done = subprocess.run(
        ["bash", str(SCRIPT), *words],
        env={
            "PATH": f"{folder / 'bin'}:/usr/bin:/bin",
            "RECORD": str(record),
            "BROKEN": "",
            "TMPDIR": f"/{'long' * 30}",
            "SLURM_SUBMIT_DIR": str(folder),
            **{f"SLURM_{name}": value for name, value in slurm.items()},
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done, record.read_text().splitlines()


def test_ray_starts_on_the_first_node_then_on_the_others_and_trains_when_all_are_there(tmp_path: Path) -> None:
    done, (head, others, train) = submitted(tmp_path, "--dry-run")
    assert done.returncode == 0, done.stderr
    for start in (head, others):
        assert "TMPDIR=/tmp RAY_TMPDIR=/tmp/ray-77 " in start, "which the job's own would be too long for"
        assert f"HF_HOME={tmp_path}/runs/hf SRUN_CPUS_PER_TASK=64 srun --nodes=1 --ntasks=1 " in start
        assert start.endswith("--num-gpus=4 --num-cpus=64 --block --node-manager-port=6380 --object-manager-port=6381")
    assert "--nodelist=first --overlap --kill-on-bad-exit ray start --head --node-ip-address=10.0.0.5 " in head
    assert "--exclude=first --overlap --kill-on-bad-exit ray start --address=10.0.0.5:6379 " in others
    assert train == "train NODES=2 GPUS=4 http://10.0.0.5:8000 10.0.0.5:6379 secret --dry-run"
    assert not list(tmp_path.glob(".token*"))


def test_one_node_starts_ray_alone(tmp_path: Path) -> None:
    done, found = submitted(tmp_path, SLURM_NNODES="1")
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in found] == ["TMPDIR=/tmp", "train"]


@pytest.mark.parametrize("broken", ["--head", "--exclude"])
def test_a_node_whose_ray_ends_ends_the_job(tmp_path: Path, broken: str) -> None:
    done, found = submitted(tmp_path, BROKEN=broken)
    assert done.returncode == 1
    assert_refusal(done.stderr.strip(), "docs/examples/slurm.sbatch", "Ray", "ended")
    assert not [line for line in found if line.startswith("train")]
