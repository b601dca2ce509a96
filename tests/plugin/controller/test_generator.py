"""Groups that lost a reward, whole updates, the number of steps: OpenRLHF's own generation over engines of tables."""

import time
from types import SimpleNamespace
from typing import Any

import pytest
from openrlhf.trainer.ppo_utils.experience import Experience

from openrlhf_gtpo.batch import RolloutBatch
from openrlhf_gtpo.controller import watch
from openrlhf_gtpo.controller.generator import Generator, GroupBroken, RewardsFailed, logger
from openrlhf_gtpo.controller.micro_batches import experiences_of

from ...refusals import assert_refusal
from ..guide.tables import MAX_LEN, NONE, RIGHT, Engine, G, Reference, over, said, without_ray


@pytest.fixture(autouse=True)
def no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    without_ray(monkeypatch)


def drawn(generate: Generator) -> list[str]:
    """The prompts that were asked, one after the other."""
    return [arguments["prompt"] for arguments in generate.vllm_engines[0].arguments]


def prompts_of(batch: RolloutBatch) -> str:
    """Of each group."""
    assert all(response.has_reward for response in batch.responses)
    return "".join(group.policy[0].returned["prompt"] for group in batch.groups)


def test_a_group_that_lost_a_reward_is_dropped_and_another_prompt_takes_its_place() -> None:
    generate = over("abcde", lost="bd", rollout__batch_size=3)
    samples, _, consumed, _ = generate.generate_samples(max_len=MAX_LEN)
    assert prompts_of(samples) == "ace"
    assert drawn(generate) == [*"abcde"]
    assert consumed == 5, "every prompt that was drawn is accounted for"
    assert generate.metrics()["reward/dropped_groups"] == generate.metrics()["reward/failed_responses"] == 2


def test_each_group_that_is_dropped_has_its_own_reason_in_the_log_and_the_commonest_is_said_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logged: list[str] = []
    monkeypatch.setattr(logger, "warning", lambda text, *values: logged.append(text % values))
    why = {"a": "full", "b": "gone", "c": "gone", "i": "slow"}
    answers = {p: [one | {"reward_error": why[p]} for one in said(p, NONE)] for p in why}
    generate = over("abcdefghijklmn", answers=answers, rollout__batch_size=4)
    generate.generate_samples(max_len=MAX_LEN)
    assert [line for line in logged if "Dropped" in line] == [
        f"Dropped a group of {G} responses: {why[p]}" for p in "abc"
    ]
    assert "step 1 drops 3 groups that lost a reward, 2 of them since gone." in capsys.readouterr().out
    generate.generate_samples(max_len=MAX_LEN)
    assert generate.metrics()["reward/dropped_groups"] == 1
    assert "lost a reward" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("prompts", "lost", "changes", "kept", "dropped"),
    [
        # Replacements fail too, three times.
        ("abcdef", "bcde", {"rollout__batch_size": 2}, "a", 4),
        # Of three groups that are left, an update of two takes two: a rest would shift gradient accumulation for good.
        ("abcdefg", "defg", {"rollout__batch_size": 4, "train__batch_size": 2 * G}, "ab", 5),
        # Less than one update.
        ("abcd", "abc", {"rollout__batch_size": 4, "train__batch_size": 2 * G}, "", 4),
        # The prompts ran out: two ranks would get two groups and one.
        ("abc", "", {"rollout__batch_size": 4, "train__batch_size": 2 * G}, "ab", 1),
    ],
)
def test_training_goes_on_with_a_smaller_batch_that_fills_whole_updates_and_says_what_is_left_out(
    prompts: str, lost: str, changes: dict[str, Any], kept: str, dropped: int, capsys: pytest.CaptureFixture[str]
) -> None:
    generate = over(prompts, lost, **changes)
    samples, *_ = generate.generate_samples(max_len=MAX_LEN)
    assert prompts_of(samples) == kept
    assert generate.metrics()["reward/dropped_groups"] == dropped
    told = capsys.readouterr().out
    assert (f"leaves out {G} of {len(samples) + G} responses" in told) is ("train__batch_size" in changes)
    assert (f"drops {len(lost)} groups that lost a reward, {len(lost)} of them since http" in told) is (lost != "")


def test_groups_that_dynamic_filtering_drops_are_no_lost_rewards(capsys: pytest.CaptureFixture[str]) -> None:
    assert not over("ab", algo__dynamic_filtering_enable=True).generate_samples(max_len=MAX_LEN)[0]
    assert "warning" not in capsys.readouterr().out


def test_a_reward_model_gives_rewards_later_so_that_none_of_them_is_lost() -> None:
    later = [{**one, "reward": None, "scores": None, "reward_error": None} for one in said("a", RIGHT)]
    batch, *_ = over("a", answers={"a": later}, reward__remote_url=None).generate_samples(max_len=MAX_LEN)
    assert len(batch) == G


def test_what_stands_behind_max_len_is_cut_off_as_openrlhf_cuts_it() -> None:
    batch, *_ = over("a").generate_samples(max_len=6)
    for one, sample in zip(batch.responses, experiences_of(batch), strict=True):
        assert one.mask.tolist() == sample.action_mask[0].bool().tolist()
        assert len(one.of_tokens("entropy")) == len(one.mask) == 5


@pytest.mark.parametrize(
    ("prompts", "answers", "changes", "named"),
    [
        ("AB", {}, {}, "8 responses"),
        ("ABcd", {}, {"rollout__batch_size": 2}, "8 responses"),
        ("AB", {}, {"rollout__batch_size": 3}, "8 responses"),  # the data set is smaller than a batch
        ("aB", {}, {"reward__on_failure": "stop"}, "--reward.on_failure is stop"),
        ("ab", {"b": [one | {"reward_refused": True} for one in said("b", NONE)]}, {}, "refuses every request"),
    ],
)
def test_training_stops_and_says_what_failed(prompts: str, answers: Any, changes: dict[str, Any], named: str) -> None:
    with pytest.raises(RewardsFailed) as failed:
        over(prompts, "", answers, **changes).generate_samples(max_len=MAX_LEN)
    assert_refusal(str(failed.value), named, "http://127.0.0.1:1 is gone")


def test_a_chunk_that_lost_all_its_groups_ends_no_run(capsys: pytest.CaptureFixture[str]) -> None:
    """The last batch of a data set may be one prompt; and each group of a batch may have lost one reward of many."""
    generate = over("abcD", rollout__batch_size=3)
    assert prompts_of(generate.generate_samples(max_len=MAX_LEN)[0]) == "abc"
    batch, _, consumed, exhausted = generate.generate_samples(max_len=MAX_LEN)
    assert (len(batch), consumed, exhausted) == (0, 1, True)
    told = capsys.readouterr().out
    assert "warning: step 2 has nothing to train on; drops 1 groups that lost a reward, 1 of them since http" in told
    assert ".." not in told
    generate = over("abcdefghij", lost="abcdefgh", rollout__batch_size=2)
    batch, *_ = generate.generate_samples(max_len=MAX_LEN)
    assert (prompts_of(batch), len(drawn(generate))) == ("", 8), "two prompts, and twice in place of them"
    assert prompts_of(generate.generate_samples(max_len=MAX_LEN)[0]) == "ij", "the next batch is whole"
    seeds = [one["seed"] for one in generate.vllm_engines[0].arguments]
    assert len(set(seeds)) == 10, "a batch that came to nothing does not give its seeds to the next"


def test_an_evaluation_goes_on_without_the_prompts_that_lost_a_reward(capsys: pytest.CaptureFixture[str]) -> None:
    """Its first chunk loses all rewards, and the last, of one prompt, too."""
    generate = over("ABcdE", rollout__batch_size=2)
    generate.eval_dataloader = generate.prompts_dataloader
    samples = generate.generate_eval_samples(max_len=MAX_LEN)
    assert [sample.prompts[0] for sample in samples] == ["c"] * G + ["d"] * G
    assert "3 prompts are missing from this evaluation" in capsys.readouterr().out


def test_a_first_step_whose_rewards_are_all_one_is_reported_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    generate = over("ab", answers={prompt: said(prompt, [0.0] * G) for prompt in "ab"})
    generate.generate_samples(max_len=MAX_LEN)
    first, *examples = capsys.readouterr().out.splitlines()
    assert f"all {2 * G} responses of the first step have the reward 0 (no_answer {2 * G})" in first
    assert [line.partition("  ")[2].partition(" ->")[0].strip() for line in examples] == ["'a'", "'b'"]
    over("ab", answers={"a": said("a", [0.0] * G), "b": said("b", [1.0] * G)}).generate_samples(max_len=MAX_LEN)
    assert not capsys.readouterr().out, "rewards that differ are not told"


def test_a_first_step_with_more_than_half_of_its_responses_cut_off_is_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for cut in (G, G + 1):
        answers = {prompt: said(prompt, RIGHT) for prompt in "ab"}
        for response in [*answers["a"], *answers["b"]][:cut]:
            response["truncated"] = True
        over("ab", answers=answers).generate_samples(max_len=MAX_LEN)
        warned = f"{cut} of the {2 * G} responses of the first step were cut off" in capsys.readouterr().out
        assert warned is (cut > G)


def test_responses_of_different_prompts_are_never_taken_for_a_group() -> None:
    mixed = {"a": said("a", RIGHT)[:3] + said("b", RIGHT)[:1]}
    with pytest.raises(GroupBroken, match=r"0 to 3 .* 4 responses"):
        over("a", answers=mixed).generate_samples(max_len=MAX_LEN)


def test_a_log_that_only_some_responses_have_is_left_out_instead_of_crashing() -> None:
    group = said("a", RIGHT)
    group[1]["extra_logs"] = {"format": 1.0}
    batch, *_ = over("a", answers={"a": group}).generate_samples(max_len=MAX_LEN)
    samples = experiences_of(batch)
    assert all("format" not in sample.info for sample in samples)
    Experience.concat_experiences(samples, 0)


@pytest.mark.parametrize(
    ("first", "expected"), [(0, [(4, False), (4, False), (4, True)]), (2, [(4, True)]), (3, [(0, True)])]
)
def test_max_steps_ends_training_after_so_many_batches_those_before_a_resumption_included(
    first: int, expected: list[tuple[int, bool]]
) -> None:
    generate = over("abcdefghij", rollout__batch_size=1, train__max_steps=3)
    generate.steps = first
    told: list[tuple[int, bool]] = []
    while not told or not told[-1][1]:
        samples, _, _, exhausted = generate.generate_samples(max_len=MAX_LEN)
        told.append((len(samples), exhausted))
    assert told == expected
    batch, *rest = generate.generate_samples(max_len=MAX_LEN)
    assert (len(batch), *rest) == (0, None, 0, True), "and so for every later episode"


def test_a_step_that_takes_long_says_what_it_waits_for_at_growing_intervals(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(watch, "FIRST_SECONDS", 0.3)

    class Slow(Engine):
        """Its first prompt takes a second, in which nothing has come yet, and its second another."""

        asked_for_rewards = 0

        @property
        def rewards_awaited(self) -> Any:
            return SimpleNamespace(remote=self.count)

        def count(self) -> Reference:
            self.asked_for_rewards += 1
            return Reference(int(self.asked_for_rewards > 2))

        def responses(self, arguments: dict[str, Any]) -> list[dict[str, Any]]:
            time.sleep(1.0)
            return super().responses(arguments)

    generate = over("ab")
    generate.vllm_engines = [Slow({prompt: said(prompt, RIGHT) for prompt in "ab"})]
    generate.watch.begin(7)
    generate.generate_samples(max_len=MAX_LEN)
    generate.watch.end()  # else it would ask Ray itself, once the fixture is gone
    lines = [line for line in capsys.readouterr().out.splitlines() if "not done" in line]

    assert (
        lines[0] == "openrlhf-gtpo train: step 7 not done after 0.005 minutes: waiting for the engine's first response"
    )
    assert [line.split(" after ")[1].split()[0] for line in lines[:3]] == ["0.005", "0.01", "0.02"]
    assert lines[2].endswith(f"waiting for {2 * G - 1} responses and 1 reward of {2 * G}")
