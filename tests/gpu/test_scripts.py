"""The scripts for a borrowed GPU machine, as far as a CPU runs them."""

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from .. import preloaded
from ..scripts import script

pytestmark = pytest.mark.nightly
FOLDER = Path(__file__).parent


def program(name: str) -> ModuleType:
    return script(FOLDER / f"{name}.py")


def found_by(number: str, out: Path, name: str) -> bytes:
    """A file of a call's archive."""
    environment = {**os.environ, "DEVICE": "cpu", "PYTHON": sys.executable, "OUT": str(out)}
    command = ["bash", str(FOLDER / "call.sh"), number]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    with tarfile.open(out / f"call{number}.tar.gz") as archive:
        file = archive.extractfile(f"./{name}")
        assert file is not None
        return file.read()


def test_the_kernel_is_timed_in_every_way_and_checked_against_float64(tmp_path: Path) -> None:
    rows = json.loads(found_by("2", tmp_path, "kernel.json"))["rows"]
    assert [(row["dtype"], row["rows"]) for row in rows] == [
        (dtype, count) for dtype in ("bfloat16", "float32") for count in (1, 8)
    ]
    assert {"copy", "top-k", "log-softmax", "ranks", "one pass"} <= set(rows[0]["seconds"])
    assert all(error < 2e-6 for row in rows for error in row["error_nats"].values())
    assert "largest error against float64, nats: entropy" in (tmp_path / "kernel.log").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["call2.tar.gz", "kernel.log"], "few files come back"


def test_the_trainer_alone_goes_on_from_its_checkpoint_to_the_bit(tmp_path: Path) -> None:
    found = found_by("1", tmp_path, "training.jsonl").splitlines()
    lines = {line["part"]: line for line in map(json.loads, found)}
    assert lines["load"]["the same to the bit"]
    assert lines["load"]["second"]["grad_norm"] == lines["save"]["second"]["grad_norm"] > 0
    bytes_a_parameter = lines["save"]["gigabytes"] * 1e9 / lines["16384 tokens"]["parameters"]
    assert bytes_a_parameter < 14, "what the plan counts"


def test_a_call_that_does_not_exist_is_refused() -> None:
    done = subprocess.run(["bash", str(FOLDER / "call.sh"), "5"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (2, "tests/gpu/call.sh: takes the number of a call, 1 to 4.\n")


def test_what_is_packed_in_pieces_comes_out_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack, unpack = program("pack"), program("unpack")
    monkeypatch.setattr(pack, "OUT", tmp_path)
    monkeypatch.setattr(pack, "ROOM", 20_000)
    content = b"".join(hashlib.sha256(str(number).encode()).digest() for number in range(1500))  # does not compress
    for name, size in (("engine", 30_000), ("training", 18_000)):
        (tmp_path / name / "package").mkdir(parents=True)
        (tmp_path / name / "package" / f"{name}.bin").write_bytes(content[:size])
    pack.split([pack.compress(tmp_path / name, tmp_path / f"{name}.tar.xz") for name in ("engine", "training")])
    sizes = [sum(path.stat().st_size for path in (tmp_path / str(n)).glob("*.tar.xz.*")) for n in (1, 2, 3, 4)]
    assert sizes[:2] == [20_000, 20_000], "calls are filled"
    assert sum(sizes) == sum(path.stat().st_size for path in tmp_path.glob("*.tar.xz"))

    site = tmp_path / "there" / "site"
    assert unpack.unpack(tmp_path / "1", site) == [
        "engine.tar.xz: engine.tar.xz.01 has not come yet",
        "training.tar.xz: training.tar.xz.00, training.tar.xz.01 has not come yet",
    ]
    assert unpack.unpack(tmp_path / "2", site)[0] == "engine.tar.xz: complete"
    assert (site / "package" / "engine.bin").read_bytes() == content[:30_000]
    assert unpack.unpack(tmp_path / "3", site) == ["engine.tar.xz: complete", "training.tar.xz: complete"]
    assert (site / "package" / "training.bin").read_bytes() == content[:18_000]


def test_a_wheel_is_laid_out_as_pip_does_it_with_its_programs(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "py_spy-0.4-py3-none-any.whl", "w") as wheel:
        raylet = zipfile.ZipInfo("py_spy/core/raylet")
        raylet.external_attr = 0o755 << 16
        wheel.writestr(raylet, "binary")
        wheel.writestr("py_spy-0.4.data/scripts/py-spy", "binary")
        wheel.writestr("py_spy-0.4.data/purelib/module.py", "")
        wheel.writestr("ray/dashboard/client/page.js", "cut")
    program("pack").unpack(tmp_path, "py-spy", tmp_path / "site")
    found = {
        str(path.relative_to(tmp_path / "site")): path for path in (tmp_path / "site").rglob("*") if path.is_file()
    }
    assert set(found) == {"py_spy/core/raylet", "bin/py-spy", "module.py"}
    assert [os.access(found[name], os.X_OK) for name in sorted(found)] == [True, False, True]


def test_a_damaged_piece_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack, unpack = program("pack"), program("unpack")
    monkeypatch.setattr(pack, "OUT", tmp_path)
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "a.py").write_text("a = 1\n")
    pack.split([pack.compress(tmp_path / "engine", tmp_path / "engine.tar.xz")])
    piece = tmp_path / "1" / "engine.tar.xz.00"
    piece.write_bytes(piece.read_bytes()[:-1] + b"x")
    with pytest.raises(SystemExit, match=r"engine.tar.xz.00 is damaged: run tests/gpu/pack.sh again"):
        unpack.unpack(tmp_path / "1", tmp_path / "site")


def test_kernels_that_hopper_does_not_need_are_cut_and_others_stay() -> None:
    cut = program("pack").CUT
    for gone in ("vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so", "vllm/_moe_C_stable_libtorch.abi3.so", "vllm/vllm-rs"):
        assert cut.search(gone)
    for kept in (
        "vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so",
        "vllm/_C_stable_libtorch.abi3.so",
        "vllm/third_party/deep_gemm/_C.cpython-312-x86_64-linux-gnu.so",
        "ray/_raylet.so",
    ):
        assert not cut.search(kept)


def test_the_table_of_rollouts_is_in_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    found = [
        {"round": number, "sequences": 8, "kind": kind, "seconds": seconds, "cpu": 0.001}
        for number, pair in enumerate([(1.0, 2.0), (2.0, 2.5), (1.0, 1.25)], start=1)
        for kind, seconds in zip(("nothing", "hook"), pair, strict=True)
    ]
    nothing, hook = program("rollout").tables(found, tokens=100)
    assert (nothing["share"], hook["share"]) == (1.0, 0.8), "the median of 0.5, 0.8 and 0.8"
    assert hook["tokens_a_second"] == 400, "8 x 100 tokens in the median, 2.0 s"
    assert "8 sequences, hook: 400 tokens a second, 0.800 of nothing" in capsys.readouterr().out


@pytest.mark.engine
def test_interrupted_responses_have_the_entropies_of_a_forward_pass(tmp_path: Path) -> None:
    command = [preloaded.python(), str(FOLDER / "preemption.py"), "--device", "cpu", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    found = json.loads((tmp_path / "preemption.json").read_text())
    assert found["preemptions"] > 0
    assert max(found["entropy"], found["logprob"]) < 1e-4
