"""Compiles what these models use of flash-attn: causal attention in bfloat16, heads of 64 and 128, for Hopper.

    CUDA_HOME=TOOLKIT PYTHON tests/gpu/flash.py flash_attn-2.8.3.tar.gz FOLDER

PYTHON has the machine's Python and torch, ninja and numpy; no GPU is needed. The whole takes hours of a CPU, this part
minutes.
"""

import os
import shutil
import sys
import tarfile
from pathlib import Path

SOURCES = [f"{way}_hdim{size}_bf16_causal_sm80.cu" for way in ("flash_fwd", "flash_bwd") for size in (64, 128)]
LEFT_OUT = ("DROPOUT", "ALIBI", "SOFTCAP", "LOCAL")
SWITCHES = """
#define FP16_SWITCH(COND, ...) [&] { using elem_type = cutlass::bfloat16_t; return __VA_ARGS__(); }()
#define CAUSAL(COND, NAME, ...) [&] { constexpr static bool NAME = true; return __VA_ARGS__(); }()
#define HEADDIM_SWITCH(HEADDIM, ...) [&] { \\
    if (HEADDIM <= 64) { constexpr static int kHeadDim = 64; return __VA_ARGS__(); } \\
    constexpr static int kHeadDim = 128; return __VA_ARGS__(); }()
"""


def main(archive: Path, out: Path) -> None:
    from torch.utils.cpp_extension import load

    with tarfile.open(archive) as file:
        file.extractall(out / "source", filter="data")
    (top,) = (out / "source").iterdir()
    source = top / "csrc" / "flash_attn"
    switches, door = source / "src" / "static_switch.h", source / "flash_api.cpp"
    switches.write_text(switches.read_text().split("#define FP16_SWITCH")[0] + SWITCHES)
    asked = 'TORCH_CHECK(params.is_bf16 && params.is_causal, "compiled for causal attention in bfloat16"); CAUSAL('
    text = door.read_text().replace("BOOL_SWITCH(params.is_causal", f"{asked}params.is_causal")
    split = "run_mha_fwd_splitkv_dispatch<elem_type, kHeadDim, Is_causal>(params, stream)"
    door.write_text(text.replace(split, 'TORCH_CHECK(false, "compiled without split keys")'))
    os.environ["TORCH_CUDA_ARCH_LIST"] = "9.0"
    undo = [f"-U__CUDA_NO_{kind}__" for kind in ("HALF_OPERATORS", "HALF_CONVERSIONS", "HALF2_OPERATORS")]
    undo += ["-U__CUDA_NO_BFLOAT16_CONVERSIONS__", "--expt-relaxed-constexpr", "--expt-extended-lambda"]
    left_out = [f"-DFLASHATTENTION_DISABLE_{name}" for name in LEFT_OUT]
    site = out / "site"
    site.mkdir(parents=True, exist_ok=True)
    load(
        "flash_attn_2_cuda",
        [str(door), *(str(source / "src" / name) for name in SOURCES)],
        extra_cflags=["-O3", "-std=c++17", *left_out],
        extra_cuda_cflags=["-O3", "-std=c++17", "--use_fast_math", *undo, *left_out],
        extra_include_paths=[str(source), str(source / "src"), str(top / "csrc" / "cutlass" / "include")],
        build_directory=str(site),
        is_python_module=False,
        verbose=True,
    )
    shutil.copytree(top / "flash_attn", site / "flash_attn", dirs_exist_ok=True)
    about = site / f"{top.name}.dist-info"
    about.mkdir(exist_ok=True)  # transformers asks for the version, and for the package of the module
    shutil.copy(top / "PKG-INFO", about / "METADATA")
    (about / "top_level.txt").write_text("flash_attn\nflash_attn_2_cuda\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
