"""run.json: settings by the names of their flags, versions, hashes, what a resumption changes, and no secret."""

import argparse
import hashlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from openrlhf.utils.config import hierarchize

from openrlhf_gtpo.controller.run_record import (
    HIDDEN,
    cpu,
    differing,
    environment,
    flat,
    record_final_weights,
    write_run_record,
)


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
        write_run_record(tmp_path / "run.json", hierarchize(SimpleNamespace(device=device))).join()
    assert asked == [True, False]


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def model(folder: Path, weights: str) -> str:
    folder.mkdir()
    (folder / "model.safetensors").write_text(weights)
    return str(folder)


LOADER = SimpleNamespace(sampler=[0], dataset=SimpleNamespace(prompts=["a"], labels=["1"]))
"""As far as a record looks at a data loader; `test_content.py` has a real one."""


def recorded(folder: Path, loader: Any = LOADER, **changes: Any) -> dict[str, Any]:
    """The record of a run in a folder, once its hashes are there."""
    flags = {"ckpt.path": str(folder / "state"), "ckpt.load_enable": False, "actor.adam.betas": (0.9, 0.95), **changes}
    write_run_record(folder / "run.json", hierarchize(SimpleNamespace(**flags)), loader).join()
    return json.loads((folder / "run.json").read_text())


def test_the_record_has_hashes_of_all_that_decides_a_run(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("one.jsonl", "two.jsonl", "mine.py")}
    for name, path in files.items():
        path.write_text(name)
    prompts = SimpleNamespace(prompts=["a", "b"], labels=["1", "2"])
    loader = SimpleNamespace(sampler=[1, 0], dataset=prompts)
    found = recorded(
        tmp_path,
        loader,
        **{
            "actor.model_name_or_path": model(tmp_path / "policy", "weights"),
            "guide.model": model(tmp_path / "guide", "weights"),
            "guide.solutions": None,
            "data.prompt_dataset": f"{files['one.jsonl']},{files['two.jsonl']}",
            "eval.dataset": str(files["one.jsonl"]),
            "algo.advantage.estimator": f"{files['mine.py']}:advantages",
        },
    )
    weights = sha256(f"{sha256('weights')}  model.safetensors\n")
    assert found["sha256"] == {
        "actor.model_name_or_path": weights,
        "guide.model": weights,
        "data.prompt_dataset 1": sha256("one.jsonl"),
        "data.prompt_dataset 2": sha256("two.jsonl"),
        "eval.dataset": sha256("one.jsonl"),
        "algo.advantage.estimator": sha256("mine.py"),
        "order_of_prompts": sha256('["b", "2"]\n["a", "1"]\n'),
    }
    assert "not_hashed" not in found


def test_a_hash_that_cannot_be_had_is_null_and_says_why(tmp_path: Path) -> None:
    loader = SimpleNamespace(sampler=[5], dataset=SimpleNamespace(prompts=["a"], labels=["1"]))
    gone, file = str(tmp_path / "gone.jsonl"), str(tmp_path / "gone.py")
    found = recorded(tmp_path, loader, **{"data.prompt_dataset": gone, "algo.advantage.estimator": f"{file}:f"})
    assert found["sha256"] == dict.fromkeys(("data.prompt_dataset", "algo.advantage.estimator", "order_of_prompts"))
    why = {"data.prompt_dataset": gone, "algo.advantage.estimator": file, "order_of_prompts": "IndexError"}
    assert found["not_hashed"].keys() == why.keys()
    assert all(name in found["not_hashed"][key] for key, name in why.items())


def test_in_asynchronous_training_the_order_is_not_known(tmp_path: Path) -> None:
    found = recorded(tmp_path, None)
    assert found["sha256"] == {"order_of_prompts": None}
    assert "asynchronous" in found["not_hashed"]["order_of_prompts"]


def test_the_final_weights_are_added_when_the_run_has_ended(tmp_path: Path) -> None:
    before = recorded(tmp_path, **{"algo.advantage.estimator": "gtpo"})
    record_final_weights(tmp_path / "run.json", model(tmp_path / "model", "trained"))
    after = json.loads((tmp_path / "run.json").read_text())
    assert after["sha256"].pop("final_weights") == sha256(f"{sha256('trained')}  model.safetensors\n")
    assert after == before
    record_final_weights(tmp_path / "elsewhere" / "run.json", str(tmp_path / "model"))
    assert not (tmp_path / "elsewhere").exists()


def test_a_resumed_run_keeps_the_facts_of_its_first_start_and_says_what_it_changed(tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_text("as it was")
    data = {"data.prompt_dataset": str(tmp_path / "data.jsonl"), "algo.advantage.estimator": "gtpo"}
    policy = {"actor.model_name_or_path": model(tmp_path / "policy", "weights")}
    first = recorded(tmp_path, **policy, **data)
    record_final_weights(tmp_path / "run.json", model(tmp_path / "model", "after three steps"))

    (tmp_path / "state" / "_actor").mkdir(parents=True)  # OpenRLHF's checkpoint
    (tmp_path / "data.jsonl").write_text("changed")
    resumed = recorded(tmp_path, **policy, **data, **{"ckpt.load_enable": True, "train.max_steps": 9})
    [again] = resumed.pop("resumed")
    assert resumed == first, "without the final weights: the run goes on"
    assert again["started"]
    assert again["settings"] == {"ckpt.load_enable": True, "train.max_steps": 9}
    assert again["environment"] == {}
    assert again["sha256"] == {"data.prompt_dataset": sha256("changed")}

    recorded(tmp_path, **policy, **data, **{"ckpt.load_enable": True})
    record_final_weights(tmp_path / "run.json", str(tmp_path / "model"))
    ended = json.loads((tmp_path / "run.json").read_text())
    assert len(ended["resumed"]) == 2
    assert ended["sha256"].keys() == {*first["sha256"], "final_weights"}


def test_a_run_that_finds_no_checkpoint_is_a_new_one(tmp_path: Path) -> None:
    recorded(tmp_path, **{"train.seed": 1})
    found = recorded(tmp_path, **{"train.seed": 2, "ckpt.load_enable": True})
    assert found["settings"]["train.seed"] == 2
    assert "resumed" not in found


def test_the_environment_names_the_kind_of_cpu_and_the_threads_of_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    found = environment()
    assert found["OMP_NUM_THREADS"] == "3"
    flags = Path("/proc/cpuinfo").read_text()
    assert found["CPU"] == cpu()["CPU"]
    assert found["CPU"] in flags
    assert set(found["CPU instructions"].split()) == {"avx2", "avx512f", "avx512_bf16", "amx_bf16"} & set(
        flags.split()
    )
