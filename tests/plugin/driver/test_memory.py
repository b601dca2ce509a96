"""Memory before a run: three set-ups worked by hand, and what changes it."""

import re

import pytest

from openrlhf_gtpo.driver.memory import GIB, need, rows, warnings
from openrlhf_gtpo.driver.model_size import KNOWN
from openrlhf_gtpo.settings import Settings

from ...refusals import assert_refusal


def run(
    gpus: int, stage: int, share: float, *batches: int, nodes: int = 1, engine: int = 1, sleeps: bool = True
) -> Settings:
    """Engines of ``engine`` GPUs that take a ``share`` of each and share them with the policy.

    Args:
        batches: tokens of a response; responses in a training micro-batch, in a forward pass, and at once in an
            engine.
    """
    length, train, forward, at_once = batches
    sizes = {"actor.num_nodes": nodes, "actor.num_gpus_per_node": gpus, "vllm.tensor_parallel_size": engine}
    sizes |= {"data.max_len": length, "train.micro_batch_size": train, "rollout.micro_batch_size": forward}
    switches = {"train.colocate_all": True, "vllm.enable_sleep": sleeps, "ds.enable_sleep": sleeps}
    switches |= {"ds.adam_offload": False, "actor.gradient_checkpointing_enable": True}
    rest = {"ds.zero_stage": stage, "vllm.gpu_memory_utilization": share, "algo.kl.init_coef": 0.0}
    return Settings({**sizes, **switches, **rest, "vllm.max_num_seqs": at_once})


def test_half_a_billion_parameters_on_one_gpu_of_24_gib() -> None:
    """One rank shards nothing: 494,032,768 x (2 + 2 + 12 + 4) = 9.88e9 bytes. A micro-batch of 2 x 1,536 tokens:
    logits 3,072 x 151,936 x 10 = 4.67e9; activations 3,072 x (2 x 896 x 24 + 2 x (8 x 896 + 2 x 128 + 4 x 4,864)), so
    0.297e9."""
    setup = run(1, 2, 0.5, 1536, 2, 4, 128)
    found = need(KNOWN["Qwen2.5-0.5B"], setup, 24 * GIB)
    assert found.weights == found.gradients == found.engine_weights == 988_065_536
    assert found.optimizer == 7_904_524_288
    assert found.gathered == 0
    assert found.train_logits == 4_667_473_920
    assert found.backward == found.train_logits + 3072 * (43_008 + 53_760)
    assert found.forward_logits == 5_600_968_704, "4 x 1,536 tokens, 6 bytes"
    # The log-probabilities of 4 responses need more than the backward pass of 2: 5.93e9 over 4.96e9.
    forward = 6144 * 53_760 + 5_600_968_704
    assert found.training == 2 * 988_065_536 + 7_904_524_288 + forward + 2 * GIB
    assert found.training / GIB == pytest.approx(16.7, abs=0.05)
    # The engine's half: 12 GiB - 0.92 of weights - 2 x 4 x 128 x 151,936 bytes - 2 GiB; 12,288 bytes of cache a token.
    assert KNOWN["Qwen2.5-0.5B"].cache_bytes == 12_288
    assert found.cache == 12 * GIB - 988_065_536 - 155_582_464 - 2 * GIB
    assert found.full_length == pytest.approx(508, abs=1)
    # Asleep: the engine's weights, gradients and Adam's 12 bytes a parameter.
    assert found.host == (2 + 2 + 12) * 494_032_768
    assert warnings(found, setup) == []


def test_7_billion_on_8_gpus_of_80_gib_with_the_cluster_scripts_settings() -> None:
    """ZeRO-3 over 8: 7,615,616,512 x 20 / 8 = 19.04e9 bytes, and 1e9 parameters gathered. 8 x 6,144 tokens of logits
    are 49,152 x 152,064 x 6 = 44.8e9 bytes: the 42 GiB that the forward pass of 8 responses takes."""
    setup = run(8, 3, 0.6, 6144, 2, 8, 256)
    found = need(KNOWN["Qwen2.5-7B"], setup, 80 * GIB)
    assert found.weights == found.gradients == 1_903_904_128
    assert found.optimizer == 15_231_233_024
    assert found.gathered == 2e9
    assert found.forward_logits / GIB == pytest.approx(41.8, abs=0.05)
    assert found.train_logits == 12_288 * 152_064 * 10
    layer = 2 * (8 * 3584 + 2 * 512 + 4 * 18_944)
    assert found.training == 21_039_041_280 + 49_152 * (layer + 152_064 * 6) + 2 * GIB
    assert found.training / GIB == pytest.approx(73.0, abs=0.1), "fits, and on 48 GiB it would not"
    # An engine on each GPU: 48 GiB - 14.2 - 2 x 4 x 256 x 152,064 bytes - 2; 57,344 bytes of cache a token.
    assert found.engine_weights == 15_231_233_024
    assert KNOWN["Qwen2.5-7B"].cache_bytes == 57_344
    assert found.full_length == pytest.approx((46 * GIB - 15_231_233_024 - 311_427_072) / (57_344 * 6144))
    assert 90 < found.full_length < 100, "of the 256 that an engine gets, were all of them as long as can be"
    # Asleep at once: eight engines' weights, and 14 bytes a parameter of the trainer's over the node's 8 ranks.
    assert found.host == 8 * 15_231_233_024 + 14 * 7_615_616_512
    assert warnings(found, setup) == []
    (sentence,) = warnings(need(KNOWN["Qwen2.5-7B"], setup, 48 * GIB), setup)
    assert_refusal(sentence, "73.0 GiB", "48.0: ", "--rollout.micro_batch_size")


def test_32_billion_on_64_gpus() -> None:
    """ZeRO-3 over 64: 32,763,876,352 x 20 / 64 = 10.24e9 bytes a GPU; an engine of 4 GPUs has a quarter of 65.5e9."""
    setup = run(8, 3, 0.6, 6144, 2, 8, 128, nodes=8, engine=4)
    found = need(KNOWN["Qwen2.5-32B"], setup, 80 * GIB)
    assert found.weights == 32_763_876_352 / 32
    assert found.optimizer == 32_763_876_352 / 4
    assert found.engine_weights == 32_763_876_352 / 2
    assert KNOWN["Qwen2.5-32B"].cache_bytes == 262_144
    quarter = 2 * 4 * 128 * 152_064 / 4
    assert found.full_length == pytest.approx((46 * GIB - 32_763_876_352 / 2 - quarter) * 4 / (262_144 * 6144))
    # 8 GPUs of a node: 8 quarters of an engine, and 14 bytes of an eighth of the parameters.
    assert found.host == 4 * 32_763_876_352 + 14 * 32_763_876_352 / 8
    assert warnings(found, setup) == []


def test_what_cannot_fit_is_told_with_what_helps() -> None:
    alone = run(1, 2, 0.5, 1536, 1, 1, 64)
    states, cache = warnings(need(KNOWN["Qwen2.5-7B"], alone, 24 * GIB), alone)
    assert_refusal(states, "optimizer", "141.9 GiB", "24.0: ")
    assert_refusal(cache, "KV cache", "0.0 GiB", "1,536 tokens")


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_each_stage_shards_one_thing_more(stage: int) -> None:
    alone, many = (need(KNOWN["Qwen2.5-7B"], run(n, stage, 0.6, 1024, 1, 1, 64), 80 * GIB) for n in (1, 8))
    assert (alone.optimizer / many.optimizer, alone.gradients / many.gradients, alone.weights / many.weights) == (
        8 if stage >= 1 else 1,
        8 if stage >= 2 else 1,
        8 if stage >= 3 else 1,
    )


def test_an_offloaded_optimizer_is_in_the_hosts_memory_and_not_on_the_gpu() -> None:
    here, there = (
        need(
            KNOWN["Qwen2.5-1.5B"],
            run(2, 2, 0.4, 1024, 1, 1, 64, sleeps=False).changed({"ds.adam_offload": o}),
            24 * GIB,
        )
        for o in (False, True)
    )
    assert here.training - there.training == here.optimizer == 16 * 1_543_714_304 / 2
    assert there.host - here.host == 12 * 1_543_714_304


def test_an_engine_that_does_not_sleep_has_a_sentence_of_its_own_with_the_flags_that_let_it_sleep() -> None:
    """73.0 GiB of training fit into 80, but not beside an engine that keeps 0.6 x 80 = 48."""
    setup = run(8, 3, 0.6, 6144, 2, 8, 256, sleeps=False)
    found = need(KNOWN["Qwen2.5-7B"], setup, 80 * GIB)
    assert found.beside == 48 * GIB
    assert_refusal(warnings(found, setup)[0], "73.0 GiB", "48.0", "80.0", "--vllm.enable_sleep", "--ds.enable_sleep")
    assert "48.0 the engine" in rows(found, setup)[0][1]


def test_the_parts_of_training_that_are_listed_add_up_to_its_total() -> None:
    for sleeps in (True, False):
        setup = run(8, 3, 0.6, 6144, 2, 8, 256, sleeps=sleeps)
        found = need(KNOWN["Qwen2.5-7B"], setup, 80 * GIB)
        (_, first), (_, second), *_ = rows(found, setup)
        total, *parts = (float(number) for number in re.findall(r"\d+\.\d", first.replace("a GPU's 80.0", "")))
        learning, scoring = (float(number) for number in re.findall(r"\d+\.\d", second))
        assert sum(parts) + max(learning, scoring) == pytest.approx(total, abs=0.4), "each is rounded to a tenth"


def test_the_room_in_the_cache_is_compared_with_the_responses_at_once() -> None:
    """7B with the cluster script's 0.8 of 80 GiB: 64 - 14.2 of weights - 0.3 of logits - 2 = 47.5 GiB for responses of
    57,344 x 6,144 bytes, 0.328 GiB. At 0.6 they were 96."""
    setup = run(8, 3, 0.8, 6144, 2, 8, 256)
    found = need(KNOWN["Qwen2.5-7B"], setup, 80 * GIB)
    assert "144 of the 256 responses" in rows(found, setup)[2][1]
    assert warnings(found, setup) == []
    few = setup.changed({"vllm.max_num_seqs": 100})
    found = need(KNOWN["Qwen2.5-7B"], few, 80 * GIB)
    assert "all 100 responses" in rows(found, few)[2][1]


def test_an_engine_that_takes_what_the_trainer_keeps_is_told_so() -> None:
    """1.5 billion parameters whose optimizer alone is offloaded: 2.9 GiB of weights and 2.9 of gradients stay."""
    fits, takes = (
        run(1, 2, share, 1536, 1, 1, 64).changed({"ds.enable_sleep": False, "ds.adam_offload": True})
        for share in (0.6, 0.8)
    )
    assert warnings(need(KNOWN["Qwen2.5-1.5B"], fits, 24 * GIB), fits) == []
    (sentence,) = warnings(need(KNOWN["Qwen2.5-1.5B"], takes, 24 * GIB), takes)
    assert_refusal(sentence, "19.2 GiB", "5.8", "24.0", "--vllm.gpu_memory_utilization", "--ds.enable_sleep")
