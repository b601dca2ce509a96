"""One message a request: the tokens, log-probabilities and entropies that vLLM's own engine gives, and none lost."""

import itertools
import logging
import shutil
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import vllm
from hypothesis import given
from hypothesis import strategies as st
from vllm.logprobs import FlatLogprobs
from vllm.sampling_params import RequestOutputKind
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs, FinishReason
from vllm.v1.engine.logprobs import LogprobsProcessor
from vllm.v1.outputs import LogprobsLists
from vllm.v1.request import RequestStatus

from openrlhf_gtpo.engine import one_message
from openrlhf_gtpo.engine.one_message import front_end, kept_rows, vllm_internals
from openrlhf_gtpo.engine.one_message.scheduler import scheduler_class, wants_final_output_alone
from openrlhf_gtpo.vllm_entropy import entropies, logprobs

from ...refusals import assert_refusal
from .programs import RUNS, run


@pytest.fixture(scope="module")
def speaking_model(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory, characters: Any) -> Path:
    """The tiny model with a tokenizer, which stop strings need."""
    folder = tmp_path_factory.mktemp("speaking")
    shutil.copytree(tiny_model, folder, dirs_exist_ok=True)
    characters.save_pretrained(folder)
    return folder


# ---- real engines


@pytest.mark.engine
def test_seeded_requests_give_the_same_to_the_last_bit_as_vllms_own_engine(speaking_model: Path) -> None:
    """Tokens, text, entropies, every list of the log-probabilities, their sum, reasons to stop, indices of n > 1."""
    found = run(RUNS, "both schedulers", speaking_model)
    plain, ours = found["vllm"], found["one message"]
    assert (plain.pop("scheduler"), ours.pop("scheduler")) == ("Scheduler", "OneMessageScheduler")
    assert ours == plain
    # What this is worth: they were preempted, shared prefixes and stopped in every way.
    completions = list(itertools.chain(*plain["outputs"]))
    assert len(plain["outputs"]) == 48 < len(completions)
    assert plain["metrics"]["num_preemptions"] > 5
    assert sum(plain["cached"]) > 100
    assert {type(one["stop"]).__name__ for one in completions} == {"NoneType", "int", "str"}
    assert {one["finish"] for one in completions} == {"stop", "length"}
    columns = {one["rows"]["end_indices"][0] if "rows" in one else 0 for one in completions}
    assert columns == {0, 1, 2, 4}, "nothing, and 0, 1 and 3 log-probabilities beside the sampled token's"


@pytest.fixture(scope="module")
def engine(speaking_model: Path) -> dict[str, Any]:
    """In a process of its own, as in a rollout."""
    return run(RUNS, "in two processes", speaking_model)


@pytest.mark.engine
def test_a_final_output_takes_two_messages_and_has_the_tokens_and_entropies_of_a_stream(engine: Any) -> None:
    """One after the prefill, without tokens, which keeps vLLM's counts right, and one at the end."""
    assert engine["messages"] == {"FINAL_ONLY": 2, "DELTA": 100, "CUMULATIVE": 100}
    final, delta, cumulative = engine["kinds"]
    assert final == delta == cumulative
    assert len(final["tokens"]) == len(final["entropies"]) == 100
    assert engine["unfinished"] == [6, 3], "OpenRLHF's controller asks for it, to choose an engine for a prompt"


@pytest.mark.engine
def test_a_request_that_is_aborted_has_what_it_had_generated_and_the_engine_goes_on(engine: dict[str, Any]) -> None:
    """The same tokens and entropies as the beginning of a whole output's."""
    whole = engine["kinds"][0]
    for which in ("aborted", "pause aborted", "dropped"):  # by its caller, by a pause, in a pause
        found, n = engine[which], len(engine[which]["tokens"])
        assert (found["finish"], n >= 10) == ("abort", True)
        assert (found["tokens"], found["entropies"]) == (whole["tokens"][:n], whole["entropies"][:n])
    assert [(one["index"], one["finish"]) for one in engine["three"]] == [(0, "abort"), (1, "abort"), (2, "abort")]
    assert all(len(one["tokens"]) == len(one["entropies"]) >= 10 for one in engine["three"])
    assert (engine["clock of the pause"], engine["after the pause"]) == ("abort", whole["tokens"])


@pytest.mark.engine
def test_a_paused_request_goes_on_with_new_weights_and_keeps_its_first_tokens(engine: dict[str, Any]) -> None:
    kept, whole = engine["kept"], engine["kinds"][0]
    assert kept["finish"] == "length"
    assert len(kept["tokens"]) == len(kept["entropies"]) == 100
    new = [number for number, value in enumerate(kept["entropies"]) if value == pytest.approx(engine["ln V"])]
    assert 10 <= new[0] < 100
    assert new == list(range(new[0], 100)), "from the new weights on every token is as likely as any other"
    assert kept["tokens"][: new[0]] == whole["tokens"][: new[0]]


# ---- which requests


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        ({}, True),
        ({"logprobs": 1}, True),
        ({"stop_token_ids": [3]}, True),
        ({"stop": ["end"], "detokenize": True}, False),
        ({"logprobs": -1}, False),
        ({"prompt_logprobs": 1}, False),
        ({"output_kind": RequestOutputKind.DELTA}, False),
        ({"output_kind": RequestOutputKind.CUMULATIVE}, False),
    ],
)
def test_tokens_are_kept_of_requests_that_nobody_needs_before_their_end(asked: dict[str, Any], kept: bool) -> None:
    params = vllm.SamplingParams(**{"output_kind": RequestOutputKind.FINAL_ONLY} | asked)
    assert wants_final_output_alone(SimpleNamespace(sampling_params=params, resumable=False)) is kept


# ---- which scheduler


@pytest.fixture(scope="module")
def config(tiny_model: Path) -> Any:
    arguments = vllm.EngineArgs(str(tiny_model), skip_tokenizer_init=True, scheduler_cls=one_message.SCHEDULER)
    return arguments.create_engine_config()


@pytest.mark.parametrize(("asynchronous", "chosen"), [(False, Scheduler), (True, AsyncScheduler)])
def test_vllms_choice_of_scheduler_stays(
    config: Any, asynchronous: bool, chosen: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config.scheduler_config, "async_scheduling", asynchronous)
    assert scheduler_class(config).__mro__[2] is chosen
    assert config.scheduler_config.scheduler_cls == one_message.SCHEDULER


@pytest.mark.parametrize(
    ("part", "setting", "why"),
    [
        ("model_config", "enable_return_routed_experts", "routed experts"),
        ("model_config", "return_sampling_mask", "sampling masks"),
        ("aux_output_config", "enabled", "sampling masks"),
        ("parallel_config", "enable_fault_tolerance", "fault"),
    ],
)
def test_an_engine_whose_tokens_cannot_be_kept_gets_vllms_scheduler_and_one_line(
    config: Any, part: str, setting: str, why: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if not hasattr(config, part):  # of vLLM from 0.31 on
        monkeypatch.setattr(config, part, SimpleNamespace(), raising=False)
    monkeypatch.setattr(getattr(config, part), setting, True, raising=False)
    with caplog.at_level(logging.WARNING):
        assert scheduler_class(config) is Scheduler
    (line,) = [record.getMessage() for record in caplog.records if record.name.startswith("openrlhf_gtpo")]
    assert_refusal(line, "this engine", why)


# ---- a vLLM that differs


def other_arguments(self: Any, request: Any, priority: int) -> None:
    pass


@pytest.mark.parametrize(
    ("name", "change", "why"),
    [
        ("v1.engine.async_llm.AsyncLLM", None, "vllm.v1.engine.async_llm.AsyncLLM.abort"),
        ("v1.engine.logprobs.LogprobsProcessor._update_sample_logprobs", other_arguments, "(self, logprobs_lists)"),
        ("logprobs.FlatLogprobs", SimpleNamespace(__dataclass_fields__={"token_ids": 0}), "fields token_ids"),
        ("v1.engine.EngineCoreOutput", SimpleNamespace(__struct_fields__=("thoughts",)), "EngineCoreOutput"),
        ("v1.outputs.LogprobsLists.slice_request", other_arguments, "slice_request"),
        ("v1.engine.EngineCoreOutputs", SimpleNamespace(__struct_fields__=("outputs",)), "no finished_requests"),
        ("v1.core.sched.scheduler.Scheduler.finish_requests", other_arguments, "finish_requests"),
    ],
)
def test_the_installed_vllm_fits_and_what_differs_in_another_is_named(
    name: str, change: Any, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert vllm_internals.misfit() is None
    monkeypatch.setattr(f"vllm.{name}", change)
    assert why in str(vllm_internals.misfit())


def test_where_vllm_does_not_fit_everything_stays_as_vllm_does_it_and_one_line_says_so(
    config: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(vllm_internals, "misfit", lambda: "vLLM 0.40.0 differs")
    installed: list[Any] = []
    monkeypatch.setattr(front_end, "install", lambda: installed.append(1))
    with caplog.at_level(logging.WARNING):
        assert one_message.switch_on() == {}
        assert scheduler_class(config) is Scheduler
    assert installed == []
    (line,) = {record.getMessage() for record in caplog.records if record.name.startswith("openrlhf_gtpo")}
    assert_refusal(line, "vLLM 0.40.0 differs")


class SlicesArrays:
    """A scheduler as another vLLM may have it, which cuts each request's rows out of a step's arrays by itself. Each
    request is a client's own, and ends with its third token."""

    def __init__(self, config: Any) -> None:
        self.requests: dict[str, Any] = {}

    def add_request(self, request: Any) -> None:
        self.requests[request.request_id] = request

    def update_from_output(self, tokens: list[int], model_runner_output: Any) -> dict[int, EngineCoreOutputs]:
        ids, values, ranks, _ = model_runner_output.logprobs
        messages: dict[int, EngineCoreOutputs] = {}
        for i, (name, request) in enumerate(self.requests.items()):
            request.output_token_ids.append(tokens[i])
            rows = LogprobsLists(ids[i : i + 1], values[i : i + 1], ranks[i : i + 1])
            end = FinishReason.LENGTH if len(request.output_token_ids) == 3 else None
            output = EngineCoreOutput(name, [tokens[i]], new_logprobs=rows, finish_reason=end)
            messages[request.client_index] = EngineCoreOutputs(outputs=[output])
        return messages

    def finish_requests(self, names: Any, status: Any) -> list[Any]:
        return [self.requests.pop(name) for name in names]


def test_each_client_gets_its_own_requests_whole_token_by_token_or_as_far_as_they_came(
    config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though this vLLM slices rows in another way."""
    monkeypatch.setattr(type(config.scheduler_config), "get_scheduler_cls", lambda self: SlicesArrays)
    scheduler = scheduler_class(config)(config)
    final, delta = RequestOutputKind.FINAL_ONLY, RequestOutputKind.DELTA
    asked = {"whole": final, "each": delta, "aborted": final, "aborted stream": delta}
    for client, (name, kind) in enumerate(asked.items()):
        request = SimpleNamespace(
            request_id=name,
            client_index=client,
            sampling_params=vllm.SamplingParams(output_kind=kind, logprobs=1),
            resumable=False,
            output_token_ids=[],
            trace_headers=None,
            take_events=lambda: None,
            get_finished_reason=lambda: FinishReason.ABORT,
        )
        scheduler.add_request(request)
    got = defaultdict(list)
    rows = lists(4, 2)  # of another request's wider batch, and in arrays that the next step uses again
    for step in range(3):
        tokens = [10 + step, 20 + step, 30 + step, 40 + step]
        rows.logprob_token_ids[:, 0] = tokens
        if step == 2:
            assert scheduler.finish_requests(["aborted", "aborted stream"], RequestStatus.FINISHED_ABORTED) == []
        for client, message in scheduler.update_from_output(tokens, SimpleNamespace(logprobs=rows)).items():
            for output in message.outputs:
                assert client == list(asked).index(output.request_id)
                found = output.new_logprobs and output.new_logprobs.logprob_token_ids.tolist()
                got[output.request_id].append((output.new_token_ids, found, output.finish_reason))
    end, abort = FinishReason.LENGTH, FinishReason.ABORT
    assert got["whole"] == [([10, 11, 12], [[10, 0], [11, 0], [12, 0]], end)]
    assert [(tokens, why) for tokens, _, why in got["each"]] == [([20], None), ([21], None), ([22], end)]
    assert got["aborted"] == [([30, 31], [[30, 0], [31, 0]], abort)]
    assert [(tokens, why) for tokens, _, why in got["aborted stream"]] == [([40], None), ([41], None), ([], abort)]


# ---- rows


SMALL_BLOCK = 2_000
STEPS = st.lists(
    st.tuples(st.integers(1, 4), st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=6)),
    max_size=40,
)


@given(STEPS, st.lists(st.integers(0, 3), min_size=5, max_size=5))
def test_each_requests_rows_come_back_in_the_order_of_its_tokens(
    steps: list[tuple[int, list[tuple[int, int]]]], wanted: list[int]
) -> None:
    """Batches of any width, several rows a step or none, in blocks that are full after a few steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_rows, "BLOCK_BYTES", SMALL_BLOCK)
        requests = [
            kept_rows.KeptRequest(SimpleNamespace(sampling_params=SimpleNamespace(num_logprobs=k))) for k in wanted
        ]
        expected: list[list[int]] = [[] for _ in requests]
        step_rows, value = kept_rows.StepRows(), itertools.count()
        for width, parts in steps:
            parts = [(request, count) for request, count in parts if wanted[request] < width]
            numbers = [next(value) for _, count in parts for _ in range(count)]
            ranks = np.array(numbers, dtype=np.int64)
            ids = ranks[:, None] * 10 + np.arange(width)
            block, place = step_rows.add(LogprobsLists(ids, -ids.astype(np.float32), ranks), columns=4)
            for request, count in parts:
                requests[request].add(block, place, count)
                place += count
                expected[request] += numbers[:count]
                numbers = numbers[count:]
        for request, numbers, k in zip(requests, expected, wanted, strict=True):
            rows = request.rows()
            if rows is None:
                assert numbers == []
                continue
            ids = np.array(numbers)[:, None] * 10 + np.arange(1 + k)
            assert rows[2].tolist() == numbers
            assert rows[0].tolist() == ids.tolist()
            assert rows[1].tolist() == (-ids.astype(np.float32)).tolist()


# ---- the front-end


def processor(k: int) -> LogprobsProcessor:
    nothing = {"tokenizer": None, "prompt_logprobs": None, "num_prompt_logprobs": None}
    return LogprobsProcessor(logprobs=FlatLogprobs(), cumulative_logprob=0.0, num_logprobs=k, **nothing)


def lists(tokens: int, k: int) -> LogprobsLists:
    """Random rows whose tokens differ from what stands beside them."""
    drawn = np.random.default_rng(tokens)
    ids = drawn.integers(2, 150_000, (tokens, 1 + k))
    ids[:, 1:] = np.arange(k)
    values = drawn.random((tokens, 1 + k), dtype=np.float32)
    values[:, 0] *= -1
    return LogprobsLists(ids, values, drawn.integers(1, 99, tokens))


FIELDS = ["start_indices", "end_indices", "token_ids", "logprobs", "ranks", "decoded_tokens"]


@pytest.fixture
def both() -> Any:
    """Gives vLLM's log-probabilities of rows, and those of a front-end that takes a response at once."""
    front_end.install()
    update = LogprobsProcessor._update_sample_logprobs.__wrapped__

    def read(rows: LogprobsLists, k: int) -> tuple[LogprobsProcessor, LogprobsProcessor]:
        plain, ours = processor(k), processor(k)
        update(plain, rows)
        ours._update_sample_logprobs(rows)
        return plain, ours

    return read


@pytest.mark.parametrize("k", [0, 1, 3])
@pytest.mark.parametrize("tokens", [1, 16, 17, 500])
def test_rows_that_come_at_once_read_like_those_that_come_one_by_one(both: Any, tokens: int, k: int) -> None:
    plain, ours = both(lists(tokens, k), k)
    assert isinstance(ours.logprobs, front_end.ArrayLogprobs) is (tokens > 16)
    assert len(ours.logprobs) == tokens
    assert ours.cumulative_logprob == plain.cumulative_logprob
    assert ours.logprobs[0] == plain.logprobs[0]
    assert list(ours.logprobs) == list(plain.logprobs)
    for name in FIELDS:
        theirs, mine = getattr(plain.logprobs, name), getattr(ours.logprobs, name)
        assert mine == theirs
        assert list(map(type, mine)) == list(map(type, theirs))


def test_rows_may_follow_those_that_came_at_once_and_no_lists_are_made_to_read_entropies(both: Any) -> None:
    """With speculative decoding a stream's first message may have many."""
    rows = lists(500, 1)
    plain, ours = both(rows, 1)
    tokens = rows.logprob_token_ids[:, 0].tolist()
    of_lists, of_arrays = (SimpleNamespace(token_ids=tokens, logprobs=one.logprobs) for one in (plain, ours))
    assert entropies(of_arrays) == entropies(of_lists)
    assert logprobs(of_arrays) == logprobs(of_lists)
    assert ours.logprobs.arrays is not None
    for more in (lists(1, 1), lists(30, 1)):
        plain._update_sample_logprobs(more)
        ours._update_sample_logprobs(more)
    assert [getattr(ours.logprobs, name) for name in FIELDS] == [getattr(plain.logprobs, name) for name in FIELDS]
    assert len(ours.logprobs) == 531
    assert ours.logprobs[-2:] == plain.logprobs[-2:]
