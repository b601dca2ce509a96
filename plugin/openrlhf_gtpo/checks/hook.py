"""Checks that the entropy hook covers the installed vLLM's samplers and that its entropies agree with transformers."""

import os
from importlib.metadata import entry_points

from openrlhf_gtpo.checks.findings import Finding, fault, ok, skipped, warning
from openrlhf_gtpo.checks.isolated import ProbeFailed, isolated
from openrlhf_gtpo.checks.packages import IMPORT_SECONDS
from openrlhf_gtpo.engine import plugin
from openrlhf_gtpo.engine.over_http import check_server
from openrlhf_gtpo.engine.versions import INSTALL_TESTED
from openrlhf_gtpo.errors import EntropyMissing

ENGINE_SECONDS = 1800.0
"""Timeout for an engine with a large model on a slow disk."""

SERVED_SECONDS = 120.0
"""Timeout for a server's two answers."""

TOLERANCE = {"cpu": 1e-3, "gpu": 5e-2}
"""Nats, mean over the tokens: for float32 against float32 on a CPU, and bfloat16 against float32 on a GPU."""


def check_hook() -> Finding:
    """Check the hook against vLLM's classes, without starting an engine."""
    name = "entropy hook"
    try:
        samplers = isolated("samplers", {}, IMPORT_SECONDS)
    except ProbeFailed as error:
        fix = "" if error.has_fix else ": fix the installation of vLLM"
        return fault(name, f"{error}{fix}.")
    foreign = [sampler["name"] for sampler in samplers if sampler["hooked"] is False]
    if foreign:
        return warning(
            name,
            f"vLLM also has {', '.join(foreign)}, which the hook does not cover: give the doctor --engine to see "
            f"whether it is used here, and if so {INSTALL_TESTED}.",
        )
    said = "It covers " + " and ".join(sampler["name"] for sampler in samplers if sampler["hooked"])
    absent = [
        f"{s['name']} cannot be imported here ({s['problem']}), so it is not used" for s in samplers if s["problem"]
    ]
    return ok(name, "; ".join([said, *absent]) + ".")


def check_plugin() -> Finding:
    """Check that vLLM finds the entry point with the hook, and may load it. vLLM itself only logs one that fails."""
    name = "entropy plugin"
    found = entry_points(group="vllm.general_plugins", name=plugin.ENTRY_POINT)
    if not found:
        return warning(
            name,
            "vLLM finds no plugin of openrlhf-gtpo, so the hook is in engines of ours alone: install it with pip in "
            "the environment of vLLM.",
        )
    allowed, value = os.environ.get("VLLM_PLUGINS"), os.environ.get(plugin.VARIABLE, "")
    if allowed is not None and plugin.ENTRY_POINT not in allowed.split(","):
        state = fault if value == "1" else warning
        return state(
            name, f"VLLM_PLUGINS is {allowed!r}, so vLLM does not load the plugin: add {plugin.ENTRY_POINT} to it."
        )
    if value not in ("", "0", "1"):
        return fault(name, f"{plugin.VARIABLE} is {value!r}: set it to 1 for entropies, or to 0.")
    if value == "1":
        return ok(name, f"{plugin.VARIABLE} is 1, so every vLLM that starts here has the hook.")
    return ok(name, f"Any vLLM that starts here with {plugin.VARIABLE}=1 has the hook.")


def check_served(url: str) -> Finding:
    """Ask a running vLLM server for entropies.

    Args:
        url: of the server.
    """
    name = "vLLM server"
    try:
        check_server(url, timeout=SERVED_SECONDS / 2)
    except EntropyMissing as error:
        return fault(name, str(error))
    return ok(name, f"{url} returns the entropies of what it samples from.")


def check_engine(model: str | None, device: str, wanted: bool, graphs: bool = False) -> Finding:
    """Sample a few tokens with vLLM and compare their entropies with those of a forward pass in float32.

    Args:
        model: folder or hub id.
        device: ``cpu`` or ``gpu``.
        wanted: whether ``--engine`` was given.
        graphs: whether the engine captures CUDA graphs.
    """
    name = "vLLM engine"
    if not wanted or model is None:
        return skipped(name, f"Not checked: give {'--actor.model_name_or_path' if wanted else '--engine'}.")
    try:
        sampled = isolated("sample", {"model": model, "device": device, "graphs": graphs}, ENGINE_SECONDS)
    except ProbeFailed as error:
        return fault(name, f"An engine with {model} gave no entropies ({error}): fix that before training.")
    try:
        given = {"prompts": sampled["prompts"], "tokens": sampled["tokens"]}
        expected = isolated("forward", {"model": model, "device": device, **given}, ENGINE_SECONDS)
    except ProbeFailed as error:
        return warning(
            name,
            f"vLLM returned entropies, but transformers could not compute them again with {model} ({error}): check "
            "that the model fits into memory in float32.",
        )
    pairs = [
        (is_, should)
        for row, wanted_row in zip(sampled["entropies"], expected, strict=True)
        for is_, should in zip(row, wanted_row, strict=True)
    ]
    apart = sum(abs(is_ - should) for is_, should in pairs) / len(pairs)
    compared = f"The entropies of {len(pairs)} tokens are {apart:.1e} nats from a float32 forward pass on average"
    if not apart <= TOLERANCE[device]:
        return fault(
            name,
            f"{compared}, more than {TOLERANCE[device]:g}: do not train with this vLLM, install the one that OpenRLHF "
            "asks for.",
        )
    return ok(name, f"{compared}.")
