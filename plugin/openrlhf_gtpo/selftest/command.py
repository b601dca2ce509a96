"""``openrlhf-gtpo selftest``: what only running on a machine can show, in fifteen minutes at most on one GPU.

The entropy kernel against float64; the hook in a real engine, with CUDA graphs on a GPU, against a forward pass; what
the hook costs; three training steps with packed samples, colocation and sleep; the same run resumed; LoRA. Writes
selftest.json and selftest.html. Exit status: 0 if nothing failed, 1 if something did, 2 for a command line that is
refused."""

import argparse
import dataclasses
import html
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.parsing import Parser
from openrlhf_gtpo.selftest.result import Part, Result, failed, impossible, passed

PROGRAM = "openrlhf-gtpo selftest"
PAIRS = {"cpu": 3, "gpu": 9}
LOG_CHARACTERS = 200_000
"""Of each part's log in selftest.json."""
PEERS = ("nothing", "logprobs", "same")
"""Requests to an engine without the hook; see `openrlhf_gtpo.selftest.hook_cost`."""


def main(argv: Sequence[str]) -> int:
    """Run the parts.

    Returns:
        Exit status: 0, 1 if a part failed.

    Raises:
        SettingsError: the command line is refused.
    """
    parser = Parser(prog=PROGRAM, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["auto", "cpu", "gpu"], default="auto", help="as for training (auto)")
    parser.add_argument("--out", type=Path, default=Path("selftest"), metavar="DIR", help="(selftest)")
    parser.add_argument(
        "--only", metavar="NAME,NAME", help="these parts alone: kernel, hook, cost, loop, resume, lora"
    )
    args = parser.parse_args(argv)

    from openrlhf_gtpo.driver.device import choose_device

    device = choose_device(args.device)
    if device == "cpu":
        from openrlhf_gtpo.cpu.platform import prepare_process

        prepare_process()
    results = {}
    for part in _chosen(parts(device, args.out.resolve()), args.only):
        print(f"{part.name} ...", end=" ", flush=True)
        results[part.name] = result = _timed(part)
        print(f"{result.state}, {result.seconds:.0f} s. {result.sentence}", flush=True)
    write(args.out, device, results)
    states = [result.state for result in results.values()]
    counts = ", ".join(f"{states.count(state)} {state}" for state in ("passed", "failed", "not possible here"))
    print(f"\n{counts}. Please attach {args.out / 'selftest.json'} to an issue.")
    return int("failed" in states)


def parts(device: str, out: Path) -> list[Part]:
    """All parts, in order.

    Args:
        device: ``cpu`` or ``gpu``.
        out: folder for the policy, the runs and their logs.
    """
    from openrlhf_gtpo.selftest import loop
    from openrlhf_gtpo.selftest.kernel import check_kernel
    from openrlhf_gtpo.selftest.policy import make

    task = make(out / "policy", device)
    shared = out / f"loop-{time.time_ns()}"  # a new folder, since a run continues from checkpoints that it finds
    saved = (*loop.SHARED, "--ckpt.save_steps=1")
    logs = {name: out / f"{name}.log" for name in ("cost", "loop", "resume", "lora")}
    again = partial(loop.train, task, shared, device, 4, logs["resume"], *saved, "--ckpt.load_enable")
    adapted = out / f"lora-{time.time_ns()}"
    return [
        Part("kernel", partial(_alone, check_kernel, device)),
        Part("hook", partial(check_hook, str(task.model), device)),
        Part("cost", partial(check_cost, str(task.model), device, logs["cost"]), logs["cost"]),
        Part("loop", partial(loop.train, task, shared, device, 3, logs["loop"], *saved), logs["loop"]),
        Part("resume", partial(_resumed, again, shared), logs["resume"]),
        Part("lora", partial(loop.train, task, adapted, device, 2, logs["lora"], *loop.LORA), logs["lora"]),
    ]


def _alone(check: Callable[[str], Result], device: str) -> Result:
    """A check in a process of its own, whose memory on the GPU is free when it has ended."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(check, device).result()


def check_hook(model: str, device: str) -> Result:
    """Compare a real engine's entropies with a float32 forward pass, as the doctor does; on a GPU with CUDA graphs."""
    from openrlhf_gtpo.checks.hook import check_engine

    finding = check_engine(model, device, wanted=True, graphs=device == "gpu")
    return (passed if finding.state == "ok" else failed)(finding.sentence)


def check_cost(model: str, device: str, log: Path) -> Result:
    """Measure the throughput with the hook divided by that without, for each kind of request without."""
    from openrlhf_gtpo.selftest.hook_cost import HOOK, rounds
    from openrlhf_gtpo.selftest.kernel import VOCABULARY

    measured = rounds(
        *(model, device, PAIRS[device]),
        prompts=16,
        n=8,
        tokens=64,
        without=PEERS,
        vocabulary=VOCABULARY if device == "gpu" else None,
        log=log,
    )
    try:
        seconds = list(measured)
    except EOFError:
        return failed(f"An engine ended by itself: see the end of {log}.")
    told, shares = [], {}
    for peer in PEERS:
        ratios = [one[peer] / one[HOOK] for one in seconds]
        shares[f"throughput_share_{peer}"] = median = statistics.median(ratios)
        told.append(f"{median:.2f} of {peer} ({min(ratios):.2f} to {max(ratios):.2f})")
    return passed(f"Throughput with the hook, as a share of an engine's without: {', '.join(told)}.", **shares)


def _resumed(run: partial[Result], folder: Path) -> Result:
    if not (folder / "state").exists():
        return impossible("There is no checkpoint to resume from: the part `loop` has to run before.")
    return run()


def _chosen(all_parts: list[Part], only: str | None) -> list[Part]:
    if only is None:
        return all_parts
    wanted = [name.strip() for name in only.split(",")]
    names = [part.name for part in all_parts]
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise SettingsError(f"--only names {', '.join(unknown)}, but the parts are {', '.join(names)}.")
    return [part for part in all_parts if part.name in wanted]


def _timed(part: Part) -> Result:
    begin = time.monotonic()
    if part.log:
        part.log.unlink(missing_ok=True)  # of an earlier self-test
    try:
        result = part.run()
    except Exception as error:  # the other parts still run
        result = failed(f"{type(error).__name__}: {error}")
    printed = part.log.read_text(encoding="utf-8", errors="replace") if part.log and part.log.exists() else ""
    return dataclasses.replace(result, seconds=time.monotonic() - begin, log=printed[-LOG_CHARACTERS:])


def write(out: Path, device: str, results: dict[str, Result]) -> None:
    """selftest.json and selftest.html."""
    from openrlhf_gtpo.controller.run_record import environment

    about = {"device": device, **_gpu(device), **environment()}
    parts_of = {name: dataclasses.asdict(result) for name, result in results.items()}
    out.mkdir(parents=True, exist_ok=True)
    (out / "selftest.json").write_text(json.dumps({"environment": about, "parts": parts_of}, indent=2) + "\n")
    rows = "".join(
        f"<tr><th scope=row>{name}</th><td>{result.state}</td><td>{result.seconds:.0f}</td>"
        f"<td>{html.escape(result.sentence)}</td><td>{_figures(result)}</td></tr>"
        for name, result in results.items()
    )
    facts = "".join(
        f"<dt>{html.escape(str(name))}</dt><dd>{html.escape(str(value))}</dd>" for name, value in about.items()
    )
    (out / "selftest.html").write_text(PAGE % {"rows": rows, "facts": facts}, encoding="utf-8")


def _figures(result: Result) -> str:
    return "<br>".join(f"{html.escape(name)} {value:.4g}" for name, value in result.figures.items())


def _gpu(device: str) -> dict[str, object]:
    if device == "cpu":
        return {}
    import torch

    properties = torch.cuda.get_device_properties(0)
    capability = f"{properties.major}.{properties.minor}"
    return {"gpu": properties.name, "gpu_gib": round(properties.total_memory / 2**30, 1), "capability": capability}


PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>openrlhf-gtpo selftest</title>
<style>
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
div { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { border-bottom: 1px solid #8886; padding: .3rem .6rem; text-align: left; vertical-align: top; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; }
</style>
<h1>What this machine does</h1>
<div><table>
<thead><tr><th>part</th><th>result</th><th>seconds</th><th>in words</th><th>figures</th></tr></thead>
<tbody>%(rows)s</tbody>
</table></div>
<h2>The machine</h2>
<dl>%(facts)s</dl>
</html>
"""
