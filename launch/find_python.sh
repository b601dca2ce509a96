# To be sourced: sets `python` to an interpreter that has openrlhf-gtpo, or ends with one sentence. PYTHON names one; else
# it is that of this clone's .venv, else the first python3.
python=${PYTHON:-}
if [ -z "$python" ]; then
    venv=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/.venv/bin
    python=python3
    if [ -x "$venv/python" ]; then
        python=$venv/python
        export PATH=$venv:$PATH # for ninja, with which DeepSpeed compiles
        [ ! -d "$venv/../cuda" ] || export CUDA_HOME=$venv/../cuda # and its nvcc, of launch/setup_gpu.sh
    fi
    "$python" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("openrlhf_gtpo") is None)' || {
        echo "launch/${0##*/}: $python has no openrlhf-gtpo: run \`bash launch/setup_gpu.sh\` first (on a machine without" \
            "a GPU \`bash launch/setup.sh\`), or name an interpreter that has it, PYTHON=/path/to/python." >&2
        exit 2
    }
fi
