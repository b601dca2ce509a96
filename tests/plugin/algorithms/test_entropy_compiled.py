"""The GPU kernel, compiled ahead of time for each kind of GPU on a machine that has none; its values are tested in
Triton's interpreter (test_entropy.py)."""

import re
import subprocess
from pathlib import Path

import pytest

from openrlhf_gtpo.algorithms.entropy import BLOCK, WARPS, triton_kernel

triton = pytest.importorskip("triton", reason="Triton has no wheel for this platform; the eager path serves here")
TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
"""NVIDIA's assembler and disassemblers, which come with Triton."""


def compiled(capability: int, dtype: str, aligned: bool) -> tuple[str, bytes]:
    """PTX and machine code.

    Args:
        capability: 80 for sm_80.
        dtype: of the logits, by Triton's name.
        aligned: whether row stride and vocabulary are multiples of 16, as 152,064 is; Triton compiles for either.
    """
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature = {"logits_ptr": f"*{dtype}", "row_stride": "i32", "sampled_ptr": "*i64"}
    signature |= {"out_ptr": "*fp32", "vocabulary": "i32"}
    divisible = {
        (i,): [["tt.divisibility", 16]] for i, name in enumerate(signature) if aligned or name.endswith("_ptr")
    }
    source = ASTSource(
        fn=triton_kernel(),
        signature={**signature, "BLOCK": "constexpr"},
        constexprs={"BLOCK": BLOCK},
        attrs=divisible,
    )
    made = triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": WARPS})
    return made.asm["ptx"], made.asm["cubin"]


@pytest.mark.parametrize("aligned", [True, False], ids=["152064 tokens", "151665 tokens"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("capability", [80, 89, 90, 100])
def test_no_register_is_spilled_and_aligned_rows_are_read_sixteen_bytes_at_a_time(
    capability: int, dtype: str, aligned: bool, tmp_path: Path
) -> None:
    ptx, cubin = compiled(capability, dtype, aligned)
    (tmp_path / "kernel.cubin").write_bytes(cubin)
    listed = subprocess.run(
        [TOOLS / "cuobjdump", "--dump-resource-usage", tmp_path / "kernel.cubin"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    used = {name: int(number) for name, number in re.findall(r"(REG|STACK|LOCAL):(\d+)", listed)}
    assert (used["STACK"], used["LOCAL"]) == (0, 0), "spilled registers lie in local memory, on the stack"
    assert used["REG"] * WARPS * 32 <= 65_536, "what a multiprocessor has, or the kernel would not start"
    wide = re.findall(r"ld\.global\.v4\.b32", ptx)
    narrow = re.findall(r"ld\.global\.b\d+", ptx)
    if aligned:
        size = {"fp32": 4, "bf16": 2}[dtype]
        assert len(wide) * 16 == BLOCK // (32 * WARPS) * size, "each thread's logits, and nothing twice"
        assert len(narrow) == 2, "the sampled token and its logit"
    else:  # a row may begin anywhere, where wide loads would be misaligned
        assert wide == []
