"""run.json: settings by the names of their flags, versions, and no secret."""

import json
from pathlib import Path
from types import SimpleNamespace

from openrlhf.utils.config import hierarchize

from openrlhf_gtpo.run_record import HIDDEN, flat, write_run_record


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
