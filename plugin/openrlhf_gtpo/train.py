"""The driver: OpenRLHF's own command line with our flags and our classes.

    python -m openrlhf_gtpo.train <any flags of openrlhf.cli.train_ppo_ray> [--shaping.* --reward.* --device ...]

OpenRLHF's script is run as it is. Before, three names are rebound in this process to subclasses (the controller,
the policy actor, the rollout actor; a further pair serves asynchronous training), and the script's parser is given
our flags. Ray carries the subclasses to the workers by their import path.
"""

import argparse
import contextlib
import faulthandler
import importlib
import importlib.metadata
import os
import runpy
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from openrlhf_gtpo import openrlhf_seam, presets
from openrlhf_gtpo.errors import OneSentence, SettingsError
from openrlhf_gtpo.failures import one_sentence
from openrlhf_gtpo.guide.settings import GuideSettings, guide_warnings
from openrlhf_gtpo.orphans import adopt_orphans, reap
from openrlhf_gtpo.poison import guide_faults, poison
from openrlhf_gtpo.run_record import differing
from openrlhf_gtpo.settings import (
    add_flags,
    gpu_refusals,
    make_paths_absolute,
    openrlhfs_precision,
    refusals,
    reward_client_settings,
    rewards_are_embedded,
    rollout_settings,
)

PROGRAM = "openrlhf-gtpo train"
CLEAN_UP_SECONDS = 20
ORPHAN_SECONDS = 10


def main(argv: Sequence[str] | None = None) -> int:
    """Train.

    Args:
        argv: the command line without the program's name; by default this process's.

    Returns:
        Exit status: 0 when training ended, 1 when it stopped with a sentence, 2 for a command line that is
        refused, 130 after Ctrl-C.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    # A terminated driver cleans up like an interrupted one: nothing of a run outlives it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, _interrupted)
    status, last_words = 0, ""
    flags: dict[str, Any] = {}  # as parsed, once they are
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(faulthandler.cancel_dump_traceback_later)  # the last to be called
        adopt_orphans()
        cleanup.callback(reap, ORPHAN_SECONDS)  # after Ray and the reward service are down
        try:
            _run(arguments, cleanup, flags)
        except KeyboardInterrupt:
            status, last_words = 130, "interrupted"
        except SystemExit:
            _limit_clean_up()
            raise
        except SettingsError as error:
            status, last_words = 2, str(error)
        except Exception as error:
            _limit_clean_up()
            sentence = one_sentence(error, flags)
            if sentence is None:
                raise
            status, last_words = 1, sentence
    # Ray is down by now: what its workers still had to log comes first, also where standard output is buffered.
    sys.stdout.flush()
    for line in last_words.splitlines():
        print(f"{PROGRAM}: {'' if status == 130 else 'error: '}{line}", file=sys.stderr)
    return status


def _interrupted(*_: Any) -> None:
    _limit_clean_up()
    raise KeyboardInterrupt


def _limit_clean_up() -> None:
    """End this process if it is still there in a while: Ray's shutdown may wait for ever for workers that a Ctrl-C
    reached too.

    What was started then sees that its parent is gone and ends by itself. The timer is faulthandler's because that
    one works while C++ code holds Python's lock.
    """
    faulthandler.dump_traceback_later(CLEAN_UP_SECONDS, exit=True, file=open(os.devnull, "w"))  # noqa: SIM115


def _run(arguments: list[str], cleanup: contextlib.ExitStack, known_flags: dict[str, Any]) -> None:
    expanded = presets.expand(arguments)
    if expanded.show:
        print(presets.text(expanded.preset or ""), end="")
        return
    arguments = expanded.arguments
    device = choose_device(arguments)
    platform: Any = None
    if device == "cpu" or "--dry-run" in arguments:  # A plan for GPUs can be checked where there is none.
        platform = importlib.import_module("openrlhf_gtpo.cpu.platform")
        platform.prepare_process()
    if device == "gpu":
        platform = None
    python = platform.worker_python(cleanup) if platform and "--dry-run" not in arguments else None
    openrlhf_seam.check()
    # A variable that a Ray job brings and OpenRLHF hands to Ray too would be a conflict, though OpenRLHF hands on the
    # job's own value.
    os.environ.setdefault("RAY_OVERRIDE_JOB_RUNTIME_ENV", "1")
    _bind_controller_and_policy(device)
    _bind_engines(lambda: GuideSettings.of_flags(known_flags))
    import ray

    cleanup.callback(ray.shutdown)

    def prepare(args: argparse.Namespace, defaults: argparse.Namespace) -> None:
        faults = refusals(args) + (platform.refusals(args) if platform else gpu_refusals(args))
        if faults:
            raise SettingsError("\n".join(faults))
        precision = platform.choose_precision(args) if platform else openrlhfs_precision(args)
        if args.dry_run:  # also where the parser was given it abbreviated
            from openrlhf_gtpo.plan import plan  # which imports OpenRLHF

            how = {"device": device, "precision": precision}
            print(plan(args, **how, preset=expanded.preset, overridden=expanded.overridden))
            sys.exit(0)
        faults, warnings = poison(vars(args))
        faults += guide_faults(vars(args))
        if faults:
            raise SettingsError("\n".join(faults))
        for warning in warnings + guide_warnings(vars(args)):
            print(f"{PROGRAM}: warning: {warning}", file=sys.stderr)
        for warning in _unusable_services(args):
            print(f"{PROGRAM}: warning: {warning}", file=sys.stderr)
        make_paths_absolute(args)
        known_flags.update(vars(args))
        vars(args)["device"] = device
        if platform:
            for change in platform.adjust(args):
                print(f"{PROGRAM}: {change}", file=sys.stderr)
            print(f"{PROGRAM}: on the CPU in {precision}", file=sys.stderr)
            platform.start_ray(args, python)
        # For the run's record; the preset's flags are in their places already.
        vars(args).update(preset=expanded.preset, defaults=differing(vars(args), vars(defaults)))
        token = _start_embedded_service(args, cleanup) if rewards_are_embedded(vars(args)) else None
        _bind_rollout(args, device, token)

    with _parser_hook(prepare):
        sys.argv = [PROGRAM, *arguments]
        runpy.run_module(openrlhf_seam.CLI, run_name="__main__")


def choose_device(arguments: Sequence[str]) -> str:
    """``cpu`` or ``gpu``: what ``--device`` says; without it, whether this machine or the Ray cluster has a GPU."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--device", choices=["auto", "cpu", "gpu"], default="auto")
    chosen = parser.parse_known_args(arguments)[0].device
    if chosen != "auto":
        return chosen
    if _torch_knows_gpus() or any(node["Resources"].get("GPU") for node in _nodes_of_ray_address()):
        return "gpu"
    return "cpu"


def _torch_knows_gpus() -> bool:
    """Whether torch finds a GPU. Its CPU build is known by its name and not imported: OpenMP reads how many threads it
    may start when torch is, and the CPU platform has yet to say so."""
    if importlib.metadata.version("torch").endswith("+cpu"):
        return False
    import torch

    return torch.cuda.is_available()


def _nodes_of_ray_address() -> list[dict[str, Any]]:
    """The living nodes of the cluster that RAY_ADDRESS names, as a Ray job's environment does; none without it."""
    if not os.environ.get("RAY_ADDRESS"):
        return []
    import ray

    joined = not ray.is_initialized()
    if joined:
        ray.init(log_to_driver=False, logging_level="ERROR")
    try:
        return [node for node in ray.nodes() if node["Alive"]]
    finally:
        if joined:
            ray.shutdown()


@contextlib.contextmanager
def _parser_hook(prepare: Callable[[argparse.Namespace, argparse.Namespace], None]) -> Iterator[None]:
    """Let OpenRLHF's parser, and no other, know our flags, and call ``prepare`` with what it parsed and with what it
    makes of an empty command line."""
    parse = argparse.ArgumentParser.parse_args

    def parse_args(self: argparse.ArgumentParser, args: Any = None, namespace: Any = None) -> Any:
        if not any(action.dest == "algo.advantage.estimator" for action in self._actions):
            return parse(self, args, namespace)
        add_flags(self)
        parsed = parse(self, args, namespace)
        prepare(parsed, parse(self, []))
        return parsed

    argparse.ArgumentParser.parse_args = parse_args  # type: ignore[method-assign]
    try:
        yield
    finally:
        argparse.ArgumentParser.parse_args = parse  # type: ignore[method-assign]


def _bind_controller_and_policy(device: str) -> None:
    import ray

    from openrlhf_gtpo import trainers

    def bind(module: str, name: str, cls: type, **options: Any) -> None:
        setattr(importlib.import_module(module), name, ray.remote(**options)(cls) if options else ray.remote(cls))

    bind("openrlhf.trainer.ppo_trainer", "PPOTrainer", trainers.Trainer)
    bind("openrlhf.trainer.ppo_trainer_async", "GenerateSamplesActor", trainers.AsyncGenerator)
    bind("openrlhf.trainer.ppo_trainer_async", "TrainingActor", trainers.AsyncTrainer)
    if device == "cpu":
        from openrlhf_gtpo.cpu import actors

        bind("openrlhf.trainer.ray.ppo_actor", "PolicyModelActor", actors.CpuPolicyActor, num_gpus=1)
        bind("openrlhf.trainer.ray.launcher", "ReferenceModelActor", actors.CpuReferenceActor, num_gpus=1)
    else:
        from openrlhf_gtpo import policy

        bind("openrlhf.trainer.ray.ppo_actor", "PolicyModelActor", policy.PolicyActor, num_gpus=1)
        bind("openrlhf.trainer.ray.launcher", "ReferenceModelActor", policy.ReferenceActor, num_gpus=1)


def _bind_engines(guide: Callable[[], GuideSettings | None]) -> None:
    """Start a guide's engines beside the policy's.

    Args:
        guide: called when engines are started; OpenRLHF's script imports their function before it knows its flags.
    """
    import openrlhf.trainer.ray as openrlhf_ray

    from openrlhf_gtpo.guide.engines import with_guide_engines

    openrlhf_ray.create_vllm_engines = with_guide_engines(openrlhf_ray.create_vllm_engines, guide)


def _bind_rollout(args: argparse.Namespace, device: str, token: str | None) -> None:
    import openrlhf.trainer.ray.vllm_engine as vllm_engine
    import ray

    from openrlhf_gtpo import rollout

    actor, extension = rollout.RolloutActor, "openrlhf_gtpo.vllm_openrlhf_worker.OpenRLHFWorkerExtension"
    if device == "cpu":
        from openrlhf_gtpo.cpu.engines import CpuRolloutActor

        actor, extension = CpuRolloutActor, "openrlhf_gtpo.cpu.vllm_worker.CpuWorkerExtension"
    vllm_engine.RolloutRayActor = rollout.ConfiguredRolloutActor(
        ray.remote(actor), rollout_settings(args, extension, token)
    )


def _unusable_services(args: argparse.Namespace) -> list[str]:
    """Ask the reward services for known verdicts before anything starts: one sentence for each that cannot be used.

    Raises:
        ServiceUnusable: none can.
    """
    from openrlhf_gtpo.reward_probe import unusable_services

    settings = reward_client_settings(vars(args))
    return unusable_services(settings) if settings else []


def _start_embedded_service(args: argparse.Namespace, cleanup: contextlib.ExitStack) -> str:
    """Start the built-in reward service on this machine and make it OpenRLHF's remote reward URL.

    Returns:
        Its bearer token.
    """
    from openrlhf_gtpo.embedded_reward import start_embedded_service
    from openrlhf_gtpo.settings import metrics_path_of_flags

    if len(_nodes_of_ray_address()) > 1:
        raise OneSentence(
            "The built-in reward service listens on this machine alone, but the Ray cluster has several: start "
            "`math-reward serve` where all of them reach it and pass --reward.remote_url http://HOST:PORT."
        )
    log = metrics_path_of_flags(vars(args)).with_name("reward_service.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    service = cleanup.enter_context(start_embedded_service(log_path=log))
    vars(args)["reward.remote_url"] = service.url
    print(f"{PROGRAM}: reward service at {service.url}, its log in {log}", file=sys.stderr)
    return service.token


if __name__ == "__main__":
    sys.exit(main())
