"""The driver: OpenRLHF's own command line with our flags and our classes.

    python -m openrlhf_gtpo.train <any flags of openrlhf.cli.train_ppo_ray> [--shaping.* --reward.* --device ...]

1. The command line is read (`driver.command_line`) and checked (`checks`) before anything heavy is imported.
2. OpenRLHF's names are rebound in this process to our subclasses: the controller, the policy actor, the rollout actor,
   the strategy, and a second pair for asynchronous training. Ray finds the subclasses in its workers by import path.
3. The ``train`` of OpenRLHF's own script is called, with the command line as the script's own statements complete it.
"""

import contextlib
import faulthandler
import importlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openrlhf_gtpo import openrlhf_internals
from openrlhf_gtpo.checks.files import check_named, in_the_files
from openrlhf_gtpo.checks.findings import Finding
from openrlhf_gtpo.checks.flags import check_flags, gpu_faults
from openrlhf_gtpo.controller.rollouts_file import expected
from openrlhf_gtpo.controller.run_record import differing, record_final_weights
from openrlhf_gtpo.driver import bindings, command_line, presets, run_lock
from openrlhf_gtpo.driver.cluster import check_cluster
from openrlhf_gtpo.driver.command_line import PROGRAM, USAGE, FlagError
from openrlhf_gtpo.driver.cuda import compiler_fault
from openrlhf_gtpo.driver.device import choose_device, nodes_of_ray_address
from openrlhf_gtpo.driver.failures import one_sentence
from openrlhf_gtpo.driver.orphans import adopt_orphans, reap
from openrlhf_gtpo.errors import SettingsError, UserError
from openrlhf_gtpo.rewards.embedded import EmbeddedService, start_embedded_service
from openrlhf_gtpo.rewards.probe import doubtful_services
from openrlhf_gtpo.settings import Settings

CLEAN_UP_SECONDS = 20
ORPHAN_SECONDS = 10


@dataclass(frozen=True)
class Prepared:
    """A checked command line."""

    settings: Settings
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
    flags: Mapping[str, Any] = {}  # once they are known
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(faulthandler.cancel_dump_traceback_later)  # called last
        locks = cleanup.enter_context(contextlib.ExitStack())  # held until every process of the run is gone
        try:
            prepared = prepare(arguments)
            if prepared is not None:
                flags = prepared.settings.flags
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
    device = choose_device(line.flags["device"])
    settings = Settings({**line.flags, "preset": expanded.preset, "device": device})
    platform: Any = None
    if device == "cpu":
        platform = importlib.import_module("openrlhf_gtpo.cpu.platform")
        platform.prepare_process()
        settings = settings.changed(platform.sizes(settings.flags, line.given))
    of_flags = check_flags(settings, platform.faults if platform else gpu_faults)
    _refuse([*of_flags, *check_named(settings)])
    wanted = settings.flags["ds.param_dtype"]
    dtype = "bf16" if wanted == "auto" else wanted  # on a GPU, as OpenRLHF's default
    dtype, precision = platform.chosen_precision(wanted) if platform else (dtype, dtype)
    settings = settings.changed({"ds.param_dtype": dtype})
    of_files = list(in_the_files(settings))
    _refuse(of_files)
    for finding in (*of_files, *of_flags):
        if finding.state == "warning":
            _tell(f"warning: {finding.sentence}")
    if settings.flags["dry_run"]:
        from openrlhf_gtpo.driver.plan import plan  # which imports torch

        print(plan(settings, precision=precision, overridden=expanded.overridden))
        return None
    if client := settings.reward_client():
        for doubt in doubtful_services(client):
            _tell(f"warning: {doubt}")
    return Prepared(settings.for_every_process(), precision)


def _refuse(findings: Sequence[Finding]) -> None:
    if faults := [finding.sentence for finding in findings if finding.state == "fault"]:
        raise SettingsError("\n".join(faults))


def _tell(sentence: str) -> None:
    print(f"{PROGRAM}: {sentence}", file=sys.stderr)


def _lock_folders(flags: Mapping[str, Any], locks: contextlib.ExitStack) -> None:
    """Lock the folders that the run writes its policy and its checkpoints to."""
    names = ["ckpt.output_dir"]
    keeps_best = flags["eval.dataset"] and flags["ckpt.best_metric_key"].lower() != "none"
    if flags["ckpt.save_steps"] > 0 or flags["ckpt.load_enable"] or keeps_best:
        names.append("ckpt.path")
    folders = {Path(flags[name]): f"--{name}" for name in reversed(names)}
    for folder, flag in folders.items():
        locks.enter_context(run_lock.held(folder, flag, lambda sentence: _tell(f"warning: {sentence}")))


def _train(prepared: Prepared, cleanup: contextlib.ExitStack) -> None:
    settings = prepared.settings
    device = settings.device
    platform: Any = importlib.import_module("openrlhf_gtpo.cpu.platform") if device == "cpu" else None
    python = platform.worker_python(cleanup) if platform else None
    if platform is None:
        if nodes := nodes_of_ray_address():
            check_cluster(settings, nodes, logical=False)
        elif sentence := compiler_fault():  # the training ranks are on this machine
            raise SettingsError(sentence)
    openrlhf_internals.check()
    # OpenRLHF passes on variables of a Ray job with the job's own values; without this Ray would call that a conflict.
    os.environ.setdefault("RAY_OVERRIDE_JOB_RUNTIME_ENV", "1")
    bindings.bind_actors(device)
    bindings.bind_engines(settings.guide)
    bindings.bind_strategy()
    import ray

    cleanup.callback(ray.shutdown)
    if platform:
        settings, changes = platform.adjusted(settings)
        for change in changes:
            _tell(change)
        _tell(f"on the CPU in {prepared.precision}")
        platform.start_ray(settings, python)
    if groups := expected(settings):
        _tell(f"rollouts.jsonl: {groups}")
    settings = settings.changed({"defaults": differing(settings.flags, command_line.defaults())})
    token = None
    if settings.rewards_are_embedded:
        service = _start_embedded_service(settings, cleanup)
        settings, token = settings.changed({"reward.remote_url": service.url}), service.token
    bindings.bind_rollout(device, settings.rollout(bindings.worker_extension(device), token))
    importlib.import_module(openrlhf_internals.CLI).train(command_line.settled(settings))
    record_final_weights(settings.metrics_path.with_name("run.json"), settings.flags["ckpt.output_dir"])


def _start_embedded_service(settings: Settings, cleanup: contextlib.ExitStack) -> EmbeddedService:
    """Start the built-in reward service on this machine."""
    if len(nodes_of_ray_address()) > 1:
        raise UserError(
            "The built-in reward service listens on this machine alone, but the Ray cluster has several machines: "
            "start `math-reward serve` where all of them reach it and pass --reward.remote_url http://HOST:PORT."
        )
    log = settings.metrics_path.with_name("reward_service.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    service = cleanup.enter_context(start_embedded_service(log_path=log))
    _tell(f"reward service at {service.url}, its log in {log}")
    return service


if __name__ == "__main__":
    sys.exit(main())
