"""run.json: settings by the names of their flags, versions, and no secret."""

import argparse
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from openrlhf.utils.config import hierarchize

from openrlhf_gtpo.controller.run_record import HIDDEN, differing, environment, flat, write_run_record


def test_settings_have_the_names_of_their_flags_again() -> None:
    flags = {"algo.kl.init_coef": 0.0, "actor.eps_clip_low_high": [0.2, 0.28], "preset": "gtpo", "train.seed": 3}
    assert flat(hierarchize(SimpleNamespace(**flags))) == flags


def test_the_record_holds_settings_and_versions_and_hides_what_is_secret(tmp_path: Path) -> None:
    flags = {
        "logger.wandb.key": "0123456789abcdef",
        "logger.wandb.project": "gtpo",
        "data.label_key": "label",
        "reward.remote_url": ["http://user:hunter2@grader:8000/get_reward", "http://grader:8001"],
        "eval.steps": float("inf"),
        "data.path": Path("somewhere"),
    }
    write_run_record(tmp_path / "run.json", hierarchize(SimpleNamespace(**flags)))
    text = (tmp_path / "run.json").read_text()
    record = json.loads(text)
    assert "hunter2" not in text
    assert "0123456789abcdef" not in text
    assert record["settings"] == {
        "logger.wandb.key": HIDDEN,
        "logger.wandb.project": "gtpo",
        "data.label_key": "label",
        "reward.remote_url": [f"http://{HIDDEN}@grader:8000/get_reward", "http://grader:8001"],
        "eval.steps": "never",
        "data.path": "somewhere",
    }
    assert record["environment"]["openrlhf"] == "0.11.2"
    assert {"python", "torch", "CPUs"} <= set(record["environment"])
    assert record["started"]


def test_no_key_that_was_given_is_not_said_to_be_hidden(tmp_path: Path) -> None:
    write_run_record(tmp_path / "run.json", hierarchize(SimpleNamespace(**{"logger.wandb.key": None})))
    assert json.loads((tmp_path / "run.json").read_text())["settings"]["logger.wandb.key"] is None


def test_the_record_names_the_defaults_of_what_was_set_otherwise(tmp_path: Path) -> None:
    flags = {"actor.adam.lr": 1e-5, "eval.steps": -1, "logger.wandb.key": "0123", "train.seed": 42}
    defaults = {"actor.adam.lr": 1e-6, "eval.steps": -1, "logger.wandb.key": None, "train.seed": 42}
    args = SimpleNamespace(**flags, defaults=differing(flags, defaults))
    write_run_record(tmp_path / "run.json", hierarchize(args))
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["defaults"] == {"actor.adam.lr": 1e-6, "logger.wandb.key": None}
    assert set(record["settings"]) == set(flags)
    assert "0123" not in (tmp_path / "run.json").read_text()


def test_only_what_a_command_line_sets_otherwise_differs_from_openrlhfs_defaults(
    parser: argparse.ArgumentParser,
) -> None:
    defaults = vars(parser.parse_args([]))
    assert differing(vars(parser.parse_args([])), defaults) == []
    same_again = ["--train.seed", str(defaults["train.seed"])]
    found = vars(parser.parse_args(["--actor.adam.lr", "1e-5", "--shaping.alpha2", "0.2", *same_again]))
    assert differing(found, defaults) == [("actor.adam.lr", 1e-6), ("shaping.alpha2", 0.1)]


def test_rays_gpus_on_a_cpu_are_called_logical(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.is_initialized", lambda: True)
    monkeypatch.setattr("ray.nodes", lambda: [{"Alive": True}])
    monkeypatch.setattr("ray.cluster_resources", lambda: {"GPU": 2.0, "CPU": 8.0, "accelerator_type:H100": 2.0})
    on_cpu, on_gpus = environment(logical_gpus=True), environment()
    assert on_cpu["logical GPUs"] == 2
    assert not {"GPUs", "GPU types"} & set(on_cpu)
    assert (on_gpus["GPUs"], on_gpus["GPU types"]) == (2, ["H100"])


def test_a_run_on_the_cpu_is_recorded_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    recorded = "openrlhf_gtpo.controller.run_record.environment"
    monkeypatch.setattr(recorded, lambda logical_gpus: asked.append(logical_gpus) or {})
    for device in ("cpu", "gpu"):
        write_run_record(tmp_path / "run.json", hierarchize(SimpleNamespace(device=device)))
    assert asked == [True, False]
