"""The driver: OpenRLHF's own command line with our flags and our classes.

    python -m openrlhf_gtpo.train <any flags of openrlhf.cli.train_ppo_ray> [--shaping.* --reward.* --device ...]

1. The command line is read (`flags`) and checked (`checks`) before anything heavy is imported.
2. Our subclasses take the places of OpenRLHF's classes in this process (`bindings`).
3. The ``train`` of OpenRLHF's own script is called, with the command line as the script's own statements complete it.

The terminal shows the steps; all other output goes to train.log (`terminal`)."""

import contextlib
import faulthandler
import importlib
import json
import os
import re
import shutil
import signal
import sys
import threading
import traceback
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from openrlhf_gtpo import bindings, checks, flags, resume, surroundings
from openrlhf_gtpo.checks.data import digests
from openrlhf_gtpo.checks.rules import in_a_file
from openrlhf_gtpo.controller.watch import Watch
from openrlhf_gtpo.errors import SettingsError, UserError
from openrlhf_gtpo.rewards.client import client_settings
from openrlhf_gtpo.rewards.embedded import start_embedded_service
from openrlhf_gtpo.terminal import Terminal

CLEAN_UP_SECONDS = 20
FULL_DISK = 100e6
"""Bytes below which a disk has no room for what a run writes."""
WANDB_KEY = "(of the environment)"
"""What OpenRLHF gets for the key of wandb, which it then takes from the environment or a login itself: it logs to
wandb where there is a key among its flags, and sends the flags to wandb."""


def main(argv: Sequence[str] | None = None) -> int:
    """Train.

    Args:
        argv: the command line without the program's name; by default this process's.

    Returns:
        Exit status: 0 when training ended, 1 when an error stopped it, 2 for a command line that is refused, 130
        after Ctrl-C.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is stopped
    terminal = Terminal()
    args: Namespace | None = None
    status, last_words, saved = 0, "", None
    with contextlib.ExitStack() as cleaned, contextlib.ExitStack() as cleanup:
        cleanup.enter_context(surroundings.prepared())
        try:
            args = prepare(flags.parse(sys.argv[1:] if argv is None else argv), terminal)
            if args is not None:
                saved = resume.saved_at(vars(args)["ckpt.path"])
                last_words = _train(args, terminal, cleanup)
        except KeyboardInterrupt:
            status, last_words = 130, "interrupted"
        except SystemExit as end:  # of SIGTERM; or of argparse, which has said why
            _limit_clean_up(end.code if isinstance(end.code, int) else 1, cleaned)
            raise
        except SettingsError as error:
            status, last_words = 2, str(error)
        except Exception as error:
            traceback.print_exc()
            status, last_words = 1, _last_words(error, args, terminal, saved)
        terminal.end(status, last_words)
        _limit_clean_up(status, cleaned)
    return status


def _limit_clean_up(status: int, cleaned: contextlib.ExitStack) -> None:
    """End this process with ``status`` if it has not ``cleaned`` up in `CLEAN_UP_SECONDS`: Ray may wait for ever for
    workers that the same Ctrl-C reached."""
    timer = threading.Timer(CLEAN_UP_SECONDS, os._exit, [status])
    timer.start()
    cleaned.callback(timer.cancel)
    # While C++ code holds Python's lock, only this one works, whose status is always 1.
    faulthandler.dump_traceback_later(CLEAN_UP_SECONDS + 1, exit=True, file=open(os.devnull, "w"))  # noqa: SIM115
    cleaned.callback(faulthandler.cancel_dump_traceback_later)


def prepare(args: Namespace, terminal: Terminal) -> Namespace | None:
    """Check a command line, and complete it for this device. Starts nothing but a request to the reward services.

    Args:
        args: flat, of `flags.parse`; changed.
        terminal: told of warnings.

    Returns:
        The flags, with absolute paths; None after ``--dry-run``, which prints the plan.

    Raises:
        SettingsError: the command line is refused; one sentence a line.
    """
    given = vars(args)
    if given["device"] == "cpu":
        importlib.import_module("openrlhf_gtpo.cpu.platform").prepare(given)
    elif given["ds.param_dtype"] == "auto":
        given["ds.param_dtype"] = "bf16"  # OpenRLHF's default
    of_the_command = list(checks.of_the_command(given))
    if faults := checks.faults(of_the_command):
        raise SettingsError("\n".join(faults))
    of_the_machine = list(checks.of_the_machine(given))
    if (faults := checks.faults(of_the_machine)) and not given["dry_run"]:
        raise SettingsError("\n".join(faults))
    for finding in (*of_the_command, *of_the_machine):
        if finding.state != "ok":
            here = "on this machine: " if finding.state == "fault" else ""
            terminal.say(f"warning: {here}{finding.sentence}")
    if given["dry_run"]:
        from openrlhf_gtpo.dry_run import plan

        print(plan(given))
        return None
    _complete(given)
    return args


def _complete(given: dict[str, Any]) -> None:
    """Absolute paths, since Ray's workers have another working directory, and what other processes need to know."""
    given["logger.metrics_path"] = given["logger.metrics_path"] or f"{given['ckpt.output_dir']}/metrics.jsonl"
    for name in ("ckpt.output_dir", "ckpt.path", "logger.metrics_path", "logger.tensorboard_dir", "guide.model"):
        if given[name] and (name != "guide.model" or os.path.isdir(given[name])):  # else a hub id
            given[name] = os.path.abspath(given[name])
    if in_a_file(given["algo.advantage.estimator"]):
        given["algo.advantage.estimator"] = os.path.abspath(given["algo.advantage.estimator"])  # the function stays
    rows, in_force = digests(given), resume.in_force(given)
    given |= {name: value for name, value in in_force.items() if value is not None}
    given["settings"] = {name: value for name, value in given.items() if name not in ("dry_run", "config")}
    given["checkpoint"] = json.dumps(resume.record(given | in_force, rows), indent=2)
    given["whole_updates"] = flags.whole_updates(given)
    if given["logger.wandb.enable"]:
        given["logger.wandb.key"] = WANDB_KEY


def _train(args: Namespace, terminal: Terminal, cleanup: contextlib.ExitStack) -> str:
    """Train, and say where the policy is and what to type next."""
    given = vars(args)
    folder = Path(given["logger.metrics_path"]).parent
    _lock(given, cleanup)
    cleanup.enter_context(terminal.quiet(folder / "train.log", append=given["ckpt.load_enable"]))
    cleanup.callback(_watch_the_start(folder).end)
    token = None
    if flags.embedded(given):
        service = cleanup.enter_context(start_embedded_service(log_path=folder / "reward_service.log"))
        given["reward.remote_url"], token = service.url, service.token
    # OpenRLHF passes on variables of a Ray job with the job's own values; without this Ray would call that a conflict.
    os.environ.setdefault("RAY_OVERRIDE_JOB_RUNTIME_ENV", "1")
    import ray

    cleanup.callback(ray.shutdown)
    if given["device"] == "cpu":
        importlib.import_module("openrlhf_gtpo.cpu.platform").start_ray(given)
    from openrlhf_gtpo.rollout.actor import RolloutSettings

    completed = flags.completed(args)
    rollout = RolloutSettings(
        reward=client_settings(given, token),
        reward_options={"mode": given["reward.mode"]} if given["reward.mode"] else None,
        worker_extension_cls=bindings.worker_extension(given["device"]),
        dtype="float32" if given["ds.param_dtype"] == "fp32" else None,
        max_num_seqs=flags.responses_at_once(given),
        chat=given["data.apply_chat_template"],
        function_seconds=given["reward.deadline"],
    )
    bindings.bind(given["device"], rollout, completed.guide)
    importlib.import_module("openrlhf.cli.train_ppo_ray").train(completed)
    from openrlhf_gtpo.controller.files import last_step, record_final_weights
    from openrlhf_gtpo.controller.metrics import progress_line

    record_final_weights(folder / "run.json", Path(given["ckpt.output_dir"]))
    step = last_step(Path(given["logger.metrics_path"]))
    if step is None:
        raise UserError(
            f"The run ended without a step, so {given['ckpt.output_dir']} has the policy that it began with: "
            f"{folder / 'train.log'} says what was left out."
        )
    terminal.wait_for(progress_line(step, {}))
    return f"the policy is in {given['ckpt.output_dir']}; its curves and tokens: openrlhf-gtpo report {folder}"


def _watch_the_start(folder: Path) -> Watch:
    """Until the controller has written its record: Ray waits without a word for what never starts."""

    def written() -> int | None:
        record = folder / "run.json"
        return record.stat().st_mtime_ns if record.exists() else None

    before = written()
    watch = Watch(over=lambda: written() != before)
    watch.waits_for(f"Ray, its actors and engines to start; {folder / 'train.log'} has their last words")
    watch.begin(0)
    return watch


def _lock(given: dict[str, Any], cleanup: contextlib.ExitStack) -> None:
    """Lock the folders that the run writes its policy and its checkpoints to, so that no second run does."""
    names = ["ckpt.output_dir"]
    keeps_best = given["eval.dataset"] and given["ckpt.best_metric_key"].lower() != "none"
    if given["ckpt.save_steps"] > 0 or given["ckpt.load_enable"] or keeps_best:
        names.append("ckpt.path")
    for folder, name in {given[name]: name for name in reversed(names)}.items():
        Path(folder).mkdir(parents=True, exist_ok=True)
        try:
            cleanup.enter_context(FileLock(Path(folder, "run.lock"), timeout=0))
        except Timeout:
            raise SettingsError(
                f"--{name} {folder}: another run writes there: wait for it, stop it, or name another folder."
            ) from None


def _last_words(error: BaseException, args: Namespace | None, terminal: Terminal, saved: int | None) -> str:
    """Why the run stopped, and how to go on: one of our own sentences, else the last line of the exception with the
    end of the log before it.

    A resume is recommended from a checkpoint of this run alone, none that was there before (``saved``): it may be
    another run's, or the command that has just failed was that resume."""
    from ray.exceptions import ActorDiedError, UnserializableException

    raised = _raised(error)
    # Ray has as a text alone what an exception is raised from, and why a worker could not import an actor's class.
    told = re.findall(r"^\s*openrlhf_gtpo\.[\w.]+: (.*\S)", str(error), re.MULTILINE)
    if ours := [str(raised)] if isinstance(raised, UserError) else told:
        sentence = ours[-1]
    else:
        terminal.show_end_of_log()
        lines = [line.strip() for line in str(raised).splitlines() if line.strip()] or ["without a message"]
        # The text of an exception that cannot travel is its traceback, whose last line names it.
        name = "" if isinstance(raised, UnserializableException) else f"{type(raised).__name__}: "
        sentence = name + lines[-1]
        # Likewise the class of an actor whose process is gone.
        if isinstance(raised, ActorDiedError) and (dead := re.search(r"class_name: (\w+)", str(raised))):
            sentence = f"The Ray actor {dead[1]} died: it crashed, was killed, or there was no memory left for it."
        sentence = _full_disk(args) or sentence
    folder = vars(args)["ckpt.path"] if args else ""
    step = resume.latest_step(folder)
    if step is None or resume.saved_at(folder) == saved:
        return sentence
    return f"{sentence.rstrip('.')}. The same command with --ckpt.load_enable goes on after step {step}."


def _full_disk(args: Namespace | None) -> str | None:
    """A sentence where the disk of a folder that the run writes to is full, which torch tells as another fault."""
    for name in ("ckpt.path", "ckpt.output_dir") if args else ():
        folder = vars(args)[name]
        if os.path.isdir(folder) and (free := shutil.disk_usage(folder).free) < FULL_DISK:
            return (
                f"The disk of --{name} {folder} is full, with {free / 1e6:,.0f} MB free: make room, keep fewer "
                "checkpoints by --ckpt.max_num, or name another folder."
            )
    return None


def _raised(error: BaseException) -> BaseException:
    """The exception that Ray brings from another process in its own."""
    from ray.exceptions import ActorDiedError, RayTaskError

    match error:
        # Of a method, which is an instance of the cause's class too; of a constructor.
        case RayTaskError(cause=BaseException() as cause) | ActorDiedError(args=[RayTaskError() as cause]):
            return _raised(cause)
        case _:
            return error


if __name__ == "__main__":
    sys.exit(main())
