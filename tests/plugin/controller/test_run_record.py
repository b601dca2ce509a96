"""run.json: the flags of a run, versions, hashes, when it was resumed, and no secret."""

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from openrlhf.utils.config import hierarchize

from openrlhf_gtpo import flags
from openrlhf_gtpo.controller.files import cpu, environment, record_final_weights, write_run_record
from openrlhf_gtpo.errors import SettingsError

from ...refusals import assert_refusal


def recorded(folder: Path, **flags: Any) -> dict[str, Any]:
    """The record of a run in a folder."""
    given = {"ckpt.path": str(folder / "state"), "ckpt.load_enable": False, "data.prompt_dataset": "", **flags}
    write_run_record(folder / "run.json", hierarchize(SimpleNamespace(**given, settings=dict(given))))
    return json.loads((folder / "run.json").read_text())


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_the_record_holds_the_flags_and_versions_and_hides_what_is_secret(tmp_path: Path) -> None:
    url = "http://user:hunter2@grader:8000/get_reward"
    found = recorded(tmp_path, **{"reward.remote_url": url, "actor.adam.betas": (0.9, 0.95), "train.seed": 3})
    assert "hunter2" not in (tmp_path / "run.json").read_text()
    assert found["settings"] == {
        "ckpt.path": str(tmp_path / "state"),
        "ckpt.load_enable": False,
        "data.prompt_dataset": "",
        "reward.remote_url": "http://(hidden)@grader:8000/get_reward",
        "actor.adam.betas": [0.9, 0.95],
        "train.seed": 3,
    }
    assert found["environment"]["openrlhf"] == "0.11.2"
    assert {"python", "torch", "CPUs"} <= set(found["environment"])
    assert found["started"]


def test_a_user_and_a_password_that_a_record_hides_are_given_anew_or_the_run_is_refused(tmp_path: Path) -> None:
    url = "http://user:hunter2@grader:8000/get_reward"
    given = vars(flags.parse(["--device=cpu", "--reward.remote_url", url]))
    recorded(tmp_path, **given)
    words = ["--config", str(tmp_path / "run.json")]
    with pytest.raises(SettingsError) as refused:
        flags.parse(words)
    assert_refusal(str(refused.value), "--reward.remote_url", "http://(hidden)@grader", "on the command line")
    assert vars(flags.parse([*words, "--reward.remote_url", url]))["reward.remote_url"] == url


def test_the_data_and_the_final_weights_are_known_by_their_content(tmp_path: Path) -> None:
    data, model = tmp_path / "one.jsonl", tmp_path / "model"
    data.write_text("as it was")
    model.mkdir()
    (model / "model.safetensors").write_text("trained")
    before = recorded(tmp_path, **{"data.prompt_dataset": f"{data},org/hub"})
    assert before["sha256"] == {str(data): sha256("as it was")}
    record_final_weights(tmp_path / "run.json", model)
    after = json.loads((tmp_path / "run.json").read_text())
    # As `sha256sum *.safetensors | sha256sum` gives it in the model's folder.
    assert after["sha256"].pop("final weights") == sha256(f"{sha256('trained')}  model.safetensors\n")
    assert after == before
    record_final_weights(tmp_path / "elsewhere" / "run.json", model)
    assert not (tmp_path / "elsewhere").exists()


def test_a_resumed_run_keeps_the_record_of_its_first_start_and_one_that_finds_no_checkpoint_is_new(
    tmp_path: Path,
) -> None:
    recorded(tmp_path, **{"train.seed": 1})
    same = {"ckpt.load_enable": True, "actor.adam.betas": (0.9, 0.95), "data.prompt_dataset": f"{tmp_path}/one.jsonl"}
    first = recorded(tmp_path, **same, **{"train.seed": 2})
    assert first["settings"]["train.seed"] == 2
    assert "resumed" not in first
    (tmp_path / "state" / "_actor").mkdir(parents=True)  # OpenRLHF's checkpoint
    data = tmp_path / "one.jsonl"
    for seed, changed in ((2, {}), (3, {"train.seed": 3}), (3, {}), (2, {"train.seed": 2})):
        data.write_text(f"{seed}")
        again = recorded(tmp_path, **same, **{"train.seed": seed, "logger.wandb.run_name": f"ppo_{seed}"})
        (*_, last) = again.pop("resumed")
        assert again == first
        assert last["changed"] == changed, "what is in force and was not before"
        assert last["sha256"] == {str(data): sha256(f"{seed}")}


def test_the_environment_names_the_clusters_gpus_and_the_kind_of_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.is_initialized", lambda: True)
    monkeypatch.setattr("ray.nodes", lambda: [{"Alive": True}, {"Alive": False}])
    monkeypatch.setattr("ray.cluster_resources", lambda: {"GPU": 2.0, "CPU": 8.0, "accelerator_type:H100": 2.0})
    found = environment()
    assert (found["nodes"], found["GPUs"], found["GPU types"]) == (1, 2, ["H100"])
    flags = Path("/proc/cpuinfo").read_text()
    assert found["CPU"] == cpu()["CPU"]
    assert found["CPU"] in flags
    assert set(found["CPU instructions"].split()) == {"avx2", "avx512f", "avx512_bf16", "amx_bf16"} & set(
        flags.split()
    )
