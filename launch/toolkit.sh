# To be sourced. nvcc, headers and libraries of CUDA come with torch's packages; builds look for them as in a toolkit.

make_toolkit() { # make_toolkit PYTHON FOLDER: a link to this environment's CUDA in FOLDER, and CUDA_HOME
    local library cuda
    cuda=$("$1" -c 'import nvidia.cu13; print(nvidia.cu13.__path__[0])')
    [ -x "$cuda/bin/nvcc" ] || return 1
    ln -sfn lib "$cuda/lib64"
    for library in "$cuda"/lib/*.so.*; do
        [ -e "${library%%.so.*}.so" ] || ln -s "${library##*/}" "${library%%.so.*}.so"
    done
    ln -sfn "$cuda" "$2/cuda"
    CUDA_HOME=$(cd "$2" && pwd)/cuda
    export CUDA_HOME
}
