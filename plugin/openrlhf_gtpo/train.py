"""The driver: OpenRLHF's own command line with our flags and our classes.

    python -m openrlhf_gtpo.train <any flags of openrlhf.cli.train_ppo_ray> [--shaping.* --reward.* --device ...]

1. The command line is read (`flags`) and checked (`checks`) before anything heavy is imported.
2. Our subclasses take the places of OpenRLHF's classes in this process (`bindings`).
3. The ``train`` of OpenRLHF's own script is called, with the command line as the script's own statements complete it.

The terminal shows the steps; all other output goes to train.log (`terminal`)."""

import contextlib
import faulthandler
import importlib
import os
import re
import shutil
import signal
import sys
import traceback
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from openrlhf_gtpo import bindings, checks, flags, surroundings
from openrlhf_gtpo.checks.checkpoints import latest_step
from openrlhf_gtpo.checks.rules import in_a_file
from openrlhf_gtpo.errors import SettingsError, UserError, reason
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
    status, last_words = 0, ""
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(faulthandler.cancel_dump_traceback_later)  # called last
        cleanup.enter_context(surroundings.prepared())
        try:
            args = prepare(flags.parse(sys.argv[1:] if argv is None else argv), terminal)
            if args is not None:
                last_words = _train(args, terminal, cleanup)
        except KeyboardInterrupt:
            _limit_clean_up()
            status, last_words = 130, "interrupted"
        except SystemExit:
            _limit_clean_up()
            raise
        except SettingsError as error:
            status, last_words = 2, str(error)
        except Exception as error:
            _limit_clean_up()
            traceback.print_exc()
            status, last_words = 1, _last_words(error, args, terminal)
    # Ray is down, so its workers' logs are complete.
    terminal.end(status, last_words)
    return status


def _limit_clean_up() -> None:
    """End this process after `CLEAN_UP_SECONDS`, whatever it waits for.

    Ray's shutdown may wait for ever for workers that the same Ctrl-C reached. The timer is faulthandler's, since it
    works while C++ code holds Python's lock.
    """
    faulthandler.dump_traceback_later(CLEAN_UP_SECONDS, exit=True, file=open(os.devnull, "w"))  # noqa: SIM115


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
    given["logger.metrics_path"] = given["logger.metrics_path"] or os.path.join(
        given["ckpt.output_dir"], "metrics.jsonl"
    )
    for name in ("ckpt.output_dir", "ckpt.path", "logger.metrics_path", "logger.tensorboard_dir", "guide.model"):
        if given[name] and (name != "guide.model" or os.path.isdir(given[name])):  # else a hub id
            given[name] = os.path.abspath(given[name])
    if in_a_file(given["algo.advantage.estimator"]):
        path, colon, name = given["algo.advantage.estimator"].rpartition(":")
        given["algo.advantage.estimator"] = f"{os.path.abspath(path)}{colon}{name}"
    given["settings"] = {name: value for name, value in given.items() if name not in ("dry_run", "config")}
    given["whole_updates"] = flags.whole_updates(given)
    if given["logger.wandb.enable"]:
        given["logger.wandb.key"] = WANDB_KEY


def _train(args: Namespace, terminal: Terminal, cleanup: contextlib.ExitStack) -> str:
    """Train, and say where the policy is and what to type next."""
    given = vars(args)
    folder = Path(given["logger.metrics_path"]).parent
    _lock(given, cleanup)
    cleanup.enter_context(terminal.quiet(folder / "train.log"))
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


def _last_words(error: BaseException, args: Namespace | None, terminal: Terminal) -> str:
    """Why the run stopped, and how to go on: one of our own sentences, else the last line of the exception with the
    end of the log before it."""
    ours = next((link for link in _chain(error) if isinstance(link, UserError) and not hasattr(link, "cause")), None)
    sentence = str(ours) if ours else reason(error)
    if ours is None:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        # Ray passes on the exception of an actor's constructor as a text.
        own = [line.partition(": ")[2] for line in lines if line.startswith("openrlhf_gtpo.")]
        dead = re.search(r"class_name: (\w+)", str(error))  # in Ray's ActorDiedError
        if own:
            sentence = own[-1]
        elif dead:
            sentence = f"The Ray actor {dead[1]} died: it crashed, was killed, or there was no memory left for it."
        elif not hasattr(error, "cause"):  # Ray's RayTaskError ends with the exception's own last line
            sentence = f"{type(error).__name__}: {lines[-1] if lines else 'without a message'}"
        else:
            sentence = lines[-1]
        if not own:
            terminal.show_end_of_log()
            sentence = _full_disk(args) or sentence
    step = latest_step(vars(args)["ckpt.path"]) if args else None
    if step is None:
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


def _chain(error: BaseException | None) -> Any:
    while error is not None:
        yield error
        # Ray's RayTaskError holds the original exception as ``cause``, and is an instance of its class too.
        error = getattr(error, "cause", None) or error.__cause__


if __name__ == "__main__":
    sys.exit(main())
