"""The scripts for a borrowed GPU machine, as far as a CPU runs them."""

import hashlib
import json
import subprocess
from pathlib import Path

import pytest

from .. import preloaded
from ..scripts import script

pytestmark = pytest.mark.nightly
FOLDER = Path(__file__).parent


def test_what_is_packed_in_pieces_comes_out_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack, unpack = (script(FOLDER / f"{name}.py") for name in ("pack", "unpack"))
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


@pytest.mark.engine
@pytest.mark.parametrize(("name", "words"), [("preemption", []), ("drafts", ["--drafts"])])
def test_interrupted_and_drafted_responses_have_the_entropies_of_a_forward_pass(
    name: str, words: list[str], tmp_path: Path
) -> None:
    command = [preloaded.python(), str(FOLDER / "preemption.py"), "--device", "cpu", "--out", str(tmp_path), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    found = json.loads((tmp_path / f"{name}.json").read_text())
    assert found["counted"] > 0
    assert max(found["entropy"], found["logprob"]) < 1e-4
