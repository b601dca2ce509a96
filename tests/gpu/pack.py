"""Packs vLLM, Ray, DeepSpeed, OpenRLHF and what they need for a machine without a network; `pack.sh` runs it.

The machine has Python 3.12 with torch, transformers, Triton and CUDA's compiler. A call takes 64 MiB, so wheels are
unpacked, cut, compressed as archives and split, in the order in which calls need them. `unpack.py` puts them together
there.
"""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "runs" / "gpu"
CALLS = 4
ROOM = 58 * 10**6
"""Bytes of each call. The rest of 64 MiB is for the working tree."""

VLLM = ("vllm", "0.29.0")
CUT = re.compile(
    r"_vllm_fa2_C|_moe_C|_qutlass|_flashkda|_rust_tool_parser|^vllm/vllm-rs|cpython-3(10|11|13|14)"
    r"|third_party/.*/include/|instrumentator/static|^ray/(dashboard/client|cpp|jars|rllib|thirdparty_files/.*\.pyc)"
    r"|^xgrammar/.*\.a$|^mistral_common/data/tekken|^pycountry/locales"
)
"""Not packed: kernels for other GPUs, mixtures of experts, flash-attention 2 (Hopper has 3), headers, Ray's page,
Mistral's tokenizers and translations."""

NAMES = {
    "training": """ray datasets multiprocess dill annotated-types pydantic pydantic-core typing-inspection jsonschema
        jsonschema-specifications referencing rpds-py""",
    "engine": """apache-tvm-ffi astor blake3 cachetools cbor2 compressed-tensors depyf distro
        dnspython email-validator fastapi httpcore2 httpx2 ijson interegular jiter lark llguidance lm-format-enforcer
        loguru mistral_common msgspec openai openai-harmony outlines_core partial-json-parser pybase64 pycountry
        pydantic-extra-types python-json-logger python-multipart pyzmq setproctitle sniffio starlette truststore
        xgrammar uvicorn httptools pydantic-settings python-dotenv""",
    "model": "",
}
"""Packages of each archive besides vLLM, which the machine lacks; versions are those of this environment."""
COPIED = {
    "training": ("deepspeed", "hjson", "openrlhf", "pylatexenc", "torchdata", "openrlhf-gtpo", "math-reward"),
}
"""Pure Python without a wheel, taken from this environment; of this project the names and versions alone."""
MODEL = ROOT / "launch" / "smollm2" / "wheels.txt"
FLASH_ATTN = OUT / "flash" / "site"
"""What `flash.py` compiled."""

PLATFORMS = (
    "manylinux_2_28",
    "manylinux_2_27",
    "manylinux_2_17",
    "manylinux_2_24",
    "manylinux_2_31",
    "manylinux_2_34",
)
IMPORTED = """vllm vllm.v1.engine.async_llm vllm.v1.engine.core vllm.v1.worker.gpu_worker
    vllm.v1.worker.gpu.sample.sampler vllm.v1.attention.backends.flash_attn vllm.v1.attention.backends.triton_attn
    vllm.model_executor.models.qwen2"""
"""What an engine imports of vLLM, tried with the cut wheel."""


def main() -> None:
    cache = OUT / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    download(cache, [f"{VLLM[0]}=={VLLM[1]}"])
    site = OUT / "site"
    shutil.rmtree(site, ignore_errors=True)
    unpack(cache, VLLM[0], site / "engine")
    try_imports(site / "engine")
    if not (FLASH_ATTN / "flash_attn_2_cuda.so").is_file():
        sys.exit(f"pack.py: {FLASH_ATTN} has no flash_attn_2_cuda.so: compile it by pack.sh.")
    shutil.copytree(FLASH_ATTN, site / "training", ignore=shutil.ignore_patterns("*.o", "*.ninja*", ".ninja*"))
    model = [line.split()[0] for line in MODEL.read_text().splitlines() if line[:1] not in ("#", "")]
    download(cache, [*(wanted(name) for names in NAMES.values() for name in names.split()), *model])
    for name in model:
        unpack(cache, name.split("==")[0], site / "model" / "smollm2")
    for archive, names in NAMES.items():
        for name in names.split():
            unpack(cache, name, site / archive)
        for name in COPIED.get(archive, ()):
            copy(name, site / archive)
    archives = {name: compress(site / name, OUT / f"{name}.tar.xz") for name in NAMES}
    split(list(archives.values()))


def wanted(name: str) -> str:
    try:
        return f"{name}=={version(name)}"
    except PackageNotFoundError:
        return name


def download(cache: Path, requirements: list[str]) -> None:
    """Wheels for Python 3.12 on Linux, without what they need."""
    missing = [one for one in requirements if not list(cache.glob(f"{_stem(one.split('==')[0])}-*.whl"))]
    platforms = [f"--platform={platform}_x86_64" for platform in (*PLATFORMS, "manylinux2014", "manylinux1")]
    # One by one, so that a package without such a wheel is named.
    for requirement in missing:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        command += ["--python-version=3.12", "--implementation=cp", *platforms, f"--dest={cache}", requirement]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"pack.py: {requirement} has no wheel for Python 3.12: {done.stderr.strip().splitlines()[-1]}")


def _stem(name: str) -> str:
    """The name as wheels' file names have it, for a glob that ignores case."""
    return "".join(f"[{c.lower()}{c.upper()}]" if c.isalpha() else c for c in re.sub(r"[-.]", "_", name))


def unpack(cache: Path, name: str, folder: Path) -> None:
    """A wheel's files, without those that `CUT` names, where pip would put them; programs go to ``bin``."""
    (wheel,) = cache.glob(f"{_stem(name)}-*.whl")
    with zipfile.ZipFile(wheel) as file:
        for member in file.infolist():
            if CUT.search(member.filename) or member.is_dir():
                continue
            target = folder / re.sub(r"^[^/]+\.data/(purelib|platlib|data)/", "", member.filename)
            if scripts := re.match(r"[^/]+\.data/scripts/(.+)", member.filename):
                target = folder / "bin" / scripts[1]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read(member))
            if scripts or (member.external_attr >> 16) & 0o100:  # Ray starts programs out of its package
                target.chmod(0o755)


def copy(name: str, folder: Path) -> None:
    """An installed package's files."""
    for file in distribution(name).files or ():
        source, target = Path(str(file.locate())), folder / file
        if ".." in file.parts or source.suffix in (".pyc", ".pth") or not source.is_file():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def try_imports(folder: Path) -> None:
    """Import the cut vLLM here, with this environment's other packages: a file that is needed and was cut is found.

    Its compiled kernels need CUDA's libraries and are not loaded; vLLM says so and goes on.
    """
    script = (
        "import importlib, os, sys\n"
        "for name in sys.argv[1:]: importlib.import_module(name)\n"
        "import vllm; print(vllm.__file__, flush=True)\n"
        "os._exit(0)"
    )
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(folder), "VLLM_TARGET_DEVICE": "cuda", "HOME": str(OUT)}
    command = [sys.executable, "-c", script, *IMPORTED.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    if done.returncode or not done.stdout.strip().split("\n")[-1].startswith(str(folder)):
        sys.exit(f"pack.py: the cut vLLM cannot be imported:\n{done.stdout[-1000:]}{done.stderr[-3000:]}")
    print(f"imported {len(IMPORTED.split())} modules of the cut vLLM")


def compress(folder: Path, archive: Path) -> Path:
    with tarfile.open(archive, "w:xz", preset=6) as file:
        file.add(folder, ".")
    print(f"{archive.name}: {archive.stat().st_size / 1e6:.0f} MB")
    return archive


def split(archives: list[Path]) -> None:
    """Pieces for the calls, one archive after the other, and a list of each archive's pieces in every folder."""
    for call in range(1, CALLS + 1):
        shutil.rmtree(OUT / str(call), ignore_errors=True)
        (OUT / str(call)).mkdir()
    pieces: dict[str, dict[str, str]] = {}
    call, room = 1, ROOM
    for archive in archives:
        content, place, number = archive.read_bytes(), 0, 0
        pieces[archive.name] = {}
        while place < len(content):
            if room == 0:
                call, room = call + 1, ROOM
            if call > CALLS:
                sys.exit(f"pack.py: {CALLS} calls of {ROOM / 1e6:.0f} MB are not enough: cut more.")
            piece = content[place : place + room]
            name = f"{archive.name}.{number:02}"
            (OUT / str(call) / name).write_bytes(piece)
            pieces[archive.name][name] = hashlib.sha256(piece).hexdigest()
            place, number, room = place + len(piece), number + 1, room - len(piece)
        print(f"{archive.name} is complete with call {call}")
    for number in range(1, CALLS + 1):
        (OUT / str(number) / "pieces.json").write_text(json.dumps(pieces))


if __name__ == "__main__":
    main()
