"""The driver: OpenRLHF's own command line with our flags and our classes.

    python -m openrlhf_gtpo.train <any flags of openrlhf.cli.train_ppo_ray> [--shaping.* --reward.* --device ...]

1. The command line is read and checked (`command_line`, `checks`) before anything heavy is imported.
2. OpenRLHF's names are rebound in this process to our subclasses: the controller, the policy actor, the rollout actor,
   the strategy, and a second pair for asynchronous training. Ray finds the subclasses in its workers by import path.
3. The ``train`` of OpenRLHF's own script is called, with the command line as the script's own statements complete it.
"""

import argparse
import contextlib
import faulthandler
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openrlhf_gtpo import openrlhf_internals
from openrlhf_gtpo.controller.rollouts_file import expected
from openrlhf_gtpo.controller.run_record import differing, record_final_weights
from openrlhf_gtpo.driver import bindings, checks, command_line, presets, run_lock
from openrlhf_gtpo.driver.cluster import check_cluster
from openrlhf_gtpo.driver.command_line import PROGRAM, USAGE, FlagError
from openrlhf_gtpo.driver.cuda_compiler import compiler_faults
from openrlhf_gtpo.driver.device import choose_device, nodes_of_ray_address
from openrlhf_gtpo.driver.failures import one_sentence
from openrlhf_gtpo.driver.flags import make_paths_absolute, openrlhfs_precision
from openrlhf_gtpo.driver.orphans import adopt_orphans, reap
from openrlhf_gtpo.driver.refusals import gpu_refusals
from openrlhf_gtpo.errors import SettingsError, UserError
from openrlhf_gtpo.guide.settings import GuideSettings
from openrlhf_gtpo.settings import metrics_path_of_flags, rewards_are_embedded, rollout_settings

CLEAN_UP_SECONDS = 20
ORPHAN_SECONDS = 10


@dataclass(frozen=True)
class Prepared:
    """A checked command line."""

    args: argparse.Namespace
    """OpenRLHF's flat namespace, with all defaults."""
    device: str
    """``cpu`` or ``gpu``."""
    precision: str
    """The precision of the weights, as a text for people."""


def main(argv: Sequence[str] | None = None) -> int:
    """Train.

    Args:
        argv: the command line without the program's name; by default this process's.

    Returns:
        Exit status: 0 when training ended, 1 when an error stopped it, 2 for a command line that is refused, 130
        after Ctrl-C.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    # SIGTERM cleans up as Ctrl-C does: no process of a run outlives the driver.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, _interrupted)
    status, last_words = 0, ""
    flags: dict[str, Any] = {}  # once they are known
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(faulthandler.cancel_dump_traceback_later)  # called last
        locks = cleanup.enter_context(contextlib.ExitStack())  # held until every process of the run is gone
        try:
            prepared = prepare(arguments)
            if prepared is not None:
                flags = vars(prepared.args)
                adopt_orphans()
                cleanup.callback(reap, ORPHAN_SECONDS)  # after Ray and the reward service are down
                _lock_folders(flags, locks)
                _train(prepared, cleanup)
        except KeyboardInterrupt:
            status, last_words = 130, "interrupted"
        except SystemExit:
            _limit_clean_up()
            raise
        except SettingsError as error:
            status, last_words = 2, str(error)
            if isinstance(error, FlagError):
                print(f"usage: {USAGE}", file=sys.stderr)
        except Exception as error:
            _limit_clean_up()
            sentence = one_sentence(error, flags)
            if sentence is None:
                raise
            status, last_words = 1, sentence
    # Ray is down, so its workers' logs are complete: print them before our last words, also where stdout is buffered.
    sys.stdout.flush()
    for line in last_words.splitlines():
        print(f"{PROGRAM}: {'' if status == 130 else 'error: '}{line}", file=sys.stderr)
    return status


def _interrupted(*_: Any) -> None:
    _limit_clean_up()
    raise KeyboardInterrupt


def _limit_clean_up() -> None:
    """End this process after `CLEAN_UP_SECONDS`, whatever it waits for.

    Ray's shutdown may wait for ever for workers that the same Ctrl-C reached. Child processes see that their parent is
    gone and end by themselves. The timer is faulthandler's, since it works while C++ code holds Python's lock.
    """
    faulthandler.dump_traceback_later(CLEAN_UP_SECONDS, exit=True, file=open(os.devnull, "w"))  # noqa: SIM115


def prepare(arguments: Sequence[str]) -> Prepared | None:
    """Read and check a command line. Starts nothing, and imports torch only once the flags are known to be right.

    Args:
        arguments: without the program's name.

    Returns:
        None where there is nothing to run: after ``--show`` and ``--dry-run``.

    Raises:
        SettingsError: the command line is refused; one sentence a line.
        SystemExit: after ``--help``.
    """
    expanded = presets.expand(arguments)
    if expanded.show:
        print(presets.text(expanded.preset or ""), end="")
        return None
    line = command_line.parse(expanded.arguments)
    args = line.args
    device = choose_device(vars(args)["device"])
    platform: Any = None
    if device == "cpu":
        platform = importlib.import_module("openrlhf_gtpo.cpu.platform")
        platform.prepare_process()
        platform.fill_in(args, line.given)
    _refuse(checks.of_flags(args, platform.refusals if platform else gpu_refusals))
    precision = platform.choose_precision(args) if platform else openrlhfs_precision(args)
    faults, warnings = checks.of_content(args)
    _refuse(faults)
    for warning in warnings:
        _tell(f"warning: {warning}")
    if args.dry_run:
        from openrlhf_gtpo.driver.plan import plan  # which imports torch

        how = {"device": device, "precision": precision}
        print(plan(args, **how, preset=expanded.preset, overridden=expanded.overridden))
        return None
    for warning in checks.of_services(args):
        _tell(f"warning: {warning}")
    make_paths_absolute(args)
    # For the run's record; the preset's flags are in their places already.
    vars(args).update(preset=expanded.preset, device=device)
    return Prepared(args, device, precision)


def _refuse(faults: Sequence[str]) -> None:
    if faults:
        raise SettingsError("\n".join(faults))


def _tell(sentence: str) -> None:
    print(f"{PROGRAM}: {sentence}", file=sys.stderr)


def _lock_folders(flags: dict[str, Any], locks: contextlib.ExitStack) -> None:
    """Lock the folders that the run writes its policy and its checkpoints to."""
    names = ["ckpt.output_dir"]
    keeps_best = flags["eval.dataset"] and flags["ckpt.best_metric_key"].lower() != "none"
    if flags["ckpt.save_steps"] > 0 or flags["ckpt.load_enable"] or keeps_best:
        names.append("ckpt.path")
    folders = {Path(flags[name]): f"--{name}" for name in reversed(names)}
    for folder, flag in folders.items():
        locks.enter_context(run_lock.held(folder, flag, lambda sentence: _tell(f"warning: {sentence}")))


def _train(prepared: Prepared, cleanup: contextlib.ExitStack) -> None:
    args, device = prepared.args, prepared.device
    platform: Any = importlib.import_module("openrlhf_gtpo.cpu.platform") if device == "cpu" else None
    python = platform.worker_python(cleanup) if platform else None
    if platform is None:
        if nodes := nodes_of_ray_address():
            check_cluster(vars(args), nodes, logical=False)
        else:  # the training ranks are on this machine
            _refuse(compiler_faults())
    openrlhf_internals.check()
    # OpenRLHF passes on variables of a Ray job with the job's own values; without this Ray would call that a conflict.
    os.environ.setdefault("RAY_OVERRIDE_JOB_RUNTIME_ENV", "1")
    bindings.bind_actors(device)
    bindings.bind_engines(GuideSettings.of_flags(vars(args)))
    bindings.bind_strategy()
    import ray

    cleanup.callback(ray.shutdown)
    if platform:
        for change in platform.adjust(args):
            _tell(change)
        _tell(f"on the CPU in {prepared.precision}")
        platform.start_ray(args, python)
    if groups := expected(vars(args)):
        _tell(f"rollouts.jsonl: {groups}")
    vars(args)["defaults"] = differing(vars(args), command_line.defaults())
    token = _start_embedded_service(args, cleanup) if rewards_are_embedded(vars(args)) else None
    bindings.bind_rollout(device, rollout_settings(args, bindings.worker_extension(device), token))
    flags = vars(args)
    nested = command_line.settled(flags)
    importlib.import_module(openrlhf_internals.CLI).train(nested)  # returns when the policy is saved
    record_final_weights(metrics_path_of_flags(flags).with_name("run.json"), flags["ckpt.output_dir"])


def _start_embedded_service(args: argparse.Namespace, cleanup: contextlib.ExitStack) -> str:
    """Start the built-in reward service on this machine and make it OpenRLHF's remote reward URL.

    Returns:
        Its bearer token.
    """
    from openrlhf_gtpo.rewards.embedded import start_embedded_service

    if len(nodes_of_ray_address()) > 1:
        raise UserError(
            "The built-in reward service listens on this machine alone, but the Ray cluster has several machines: "
            "start `math-reward serve` where all of them reach it and pass --reward.remote_url http://HOST:PORT."
        )
    log = metrics_path_of_flags(vars(args)).with_name("reward_service.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    service = cleanup.enter_context(start_embedded_service(log_path=log))
    vars(args)["reward.remote_url"] = service.url
    _tell(f"reward service at {service.url}, its log in {log}")
    return service.token


if __name__ == "__main__":
    sys.exit(main())
