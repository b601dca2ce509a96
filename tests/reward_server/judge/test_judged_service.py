"""Who is asked what, and what everybody sees of it: the service, its streams, OpenRLHF's protocol, files."""

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from math_reward.client import Client, Unavailable

from ...fake_reward_server import Answer, FakeRewardServer, Post
from ...refusals import assert_refusal
from ..conftest import LiveServer, WaitFor
from .attacks import ATTACKS
from .fake_judge import NO, YES, answers_of, asked, judge

IN_WORDS = {"completion": r"It is \boxed{\text{Evelyn Smith}}.", "reference": "Evelyn", "prompt": "Who wins?"}
DECIDED = {
    "3 against 4": ("3", "4", "wrong"),
    "3 against 3": ("3", "3", "correct"),
    "letters of choices": ("B", "C", "wrong"),
    "yes against no": ("yes", "no", "wrong"),
    "the same words": (r"\text{the line AB}", r"\text{The line AB}", "correct"),
    "a number against a list of words": ("3", "Evelyn, Carla", "wrong"),
    "a number that is taken back": ("not 42", "42", "wrong"),
    "a condition": (r"42\text{ if }n\text{ is odd}", "42", "wrong"),
    "several answers": (r"42\text{ or }43", "42", "ambiguous"),
    "several words": ("Evelyn and Carla", "Evelyn", "ambiguous"),
    "an operation left undone": (r"\int_0^1 x\,dx", "1/2", "unevaluated"),
    "a bad reference": ("Evelyn", "", "bad_reference"),
    "too long to be read": ("Evelyn " * 9000, "42", "too_complex"),
    "a broken formula": ("1//2", "0.5", "wrong"),
}


@pytest.fixture(scope="module")
def obedient() -> Iterator[FakeRewardServer]:
    """A judge that says yes to everything, except that Carla is nobody else, and fails on what mentions a crash."""

    def says(post: Post) -> Answer:
        both = answers_of(post)
        if any("crash" in (text or "") for text in both):
            return Answer(400, body={})
        if "one order" in str(both):
            return YES if both[0] == "Evelyn" else NO
        return NO if "Carla" in both else YES

    with judge(says) as server:
        yield server


@pytest.fixture(scope="module")
def judged(serve: Callable[..., LiveServer], obedient: FakeRewardServer) -> LiveServer:
    flags = ("--workers", "1", "--judge", obedient.url, "--judge-model", "tiny")
    return serve(*flags, MATH_REWARD_JUDGE_KEY="sk-hidden").when_ready()


def boxed(answer: str, reference: str) -> dict[str, str]:
    return {"completion": rf"It is \boxed{{{answer}}}.", "reference": reference}


def results(server: LiveServer, *items: dict[str, Any]) -> list[dict[str, Any]]:
    # As text of ASCII: an attack may have half a surrogate pair.
    body, headers = json.dumps({"items": items}), {"Content-Type": "application/json"}
    answer = server.client.post("/v1/grade", content=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()["results"]


def test_what_is_in_words_is_judged_and_the_judge_sees_the_extracted_answer_alone(
    judged: LiveServer, obedient: FakeRewardServer
):
    obedient.posts.clear()
    (result,) = results(judged, {**IN_WORDS, "completion": f"secret thoughts {IN_WORDS['completion']}"})
    assert result.pop("seconds") < 1
    assert result == {
        "verdict": "correct (judged)",
        "answer": r"\text{Evelyn Smith}",
        "reference": "Evelyn",
        "reward": 1.0,
        "correct": True,
        "stage": "judge",
        "detail": None,
        "span": [38, 57],
    }
    assert [asked(post)["question"] for post in obedient.posts] == ["Who wins?"] * 2
    assert not any("secret thoughts" in json.dumps(post.payload) for post in obedient.posts)
    assert {post.headers["Authorization"] for post in obedient.posts} == {"Bearer sk-hidden"}


def test_a_no_and_a_disagreement_of_the_orders_are_wrong(judged: LiveServer):
    no, split = results(judged, boxed("Carla", "Evelyn"), boxed(r"\text{in one order}", "Evelyn"))
    assert (no["verdict"], no["reward"], no["correct"], no["detail"]) == ("wrong (judged)", 0.0, False, None)
    assert (split["verdict"], split["reward"]) == ("wrong (judged)", 0.0)


def test_a_judge_without_an_answer_is_an_error_and_no_reward(judged: LiveServer):
    (result,) = results(judged, boxed("crash", "Evelyn"))
    assert (result["verdict"], result["stage"], result["reward"]) == ("error", "judge", 0.0)
    assert_refusal(result["detail"], "HTTP 400", "--judge")
    refused = judged.client.post(
        "/get_reward?on_no_judgement=refuse",
        json={"query": [r"\boxed{crash}"], "prompts": [""], "labels": ["Evelyn"]},
    )
    assert (refused.status_code, "Retry-After" in refused.headers) == (503, True)
    with Client(judged.url, deadline=0) as client, pytest.raises(Unavailable, match="HTTP 400"):
        client.grade(r"\boxed{crash}", "Evelyn")


@pytest.mark.parametrize(("answer", "reference", "verdict"), DECIDED.values(), ids=DECIDED)
def test_a_judge_that_says_yes_to_everything_changes_nothing_that_was_decided(
    judged: LiveServer, obedient: FakeRewardServer, answer: str, reference: str, verdict: str
):
    obedient.posts.clear()
    (result,) = results(judged, boxed(answer, reference))
    assert (result["verdict"], result["reward"]) == (verdict, float(verdict == "correct"))
    assert obedient.posts == []


def test_neither_is_a_completion_without_an_answer_nor_one_without_its_prompt(
    judged: LiveServer, obedient: FakeRewardServer
):
    obedient.posts.clear()
    (none,) = results(judged, {"completion": "Let me think once more,", "reference": "Evelyn"})
    absent = {"query": [r"\boxed{Evelyn Smith}"], "prompts": ["Who wins the race today?"], "labels": ["Evelyn"]}
    logs = judged.client.post("/get_reward", json=absent).json()["extra_logs"]
    assert none["verdict"] == "no_answer"
    assert logs["verdict_prompt_not_found"] == 1.0
    assert obedient.posts == []


def test_of_several_references_those_in_words_are_asked_about(judged: LiveServer, obedient: FakeRewardServer):
    obedient.posts.clear()
    (result,) = results(judged, {"completion": r"\boxed{3}", "reference": ["4", "Carla", "Evelyn, Carla", "Evelyn"]})
    assert (result["verdict"], result["reference"]) == ("correct (judged)", "Evelyn")
    assert {text for post in obedient.posts for text in answers_of(post)} == {"3", "Carla", "Evelyn"}


def test_too_long_an_answer_is_not_asked_about_and_stays_wrong(judged: LiveServer, obedient: FakeRewardServer):
    obedient.posts.clear()
    (result,) = results(judged, boxed(r"\text{Evelyn " + "or so " * 300 + "}", "Carla"))
    assert (result["verdict"], result["stage"]) == ("wrong", "undecided")
    assert_refusal(result["detail"], "1,000")
    assert obedient.posts == []


def test_attacks_reach_the_judge_as_one_string_or_not_at_all(judged: LiveServer, obedient: FakeRewardServer):
    obedient.posts.clear()
    graded = results(judged, *[{"completion": f"\\boxed{{{text}}}", "reference": "Evelyn"} for _, text in ATTACKS])
    sent = {text for post in obedient.posts for text in answers_of(post)}
    judged_answers = {one["answer"] for one in graded if one["stage"] == "judge"}
    assert sent == judged_answers | {"Evelyn"}
    assert len(judged_answers) > 50
    for post in obedient.posts:
        content = post.payload["messages"][1]["content"]
        assert len(content.split("\n")) == 3
        assert "<" not in content


def test_openrlhf_s_protocol_has_the_judge_s_verdicts(judged: LiveServer):
    query = {"query": ["Who?" + IN_WORDS["completion"]], "prompts": ["Who?"], "labels": ["Evelyn"]}
    answer = judged.client.post("/get_reward", json=query).json()
    assert (answer["rewards"], answer["scores"]) == (1.0, 1.0)
    assert {name for name, value in answer["extra_logs"].items() if value} == {"verdict_correct (judged)"}
    assert "verdict_wrong (judged)" in answer["extra_logs"]


def test_the_client_reads_a_judged_verdict(judged: LiveServer):
    with Client(judged.url) as client:
        result = client.grade(IN_WORDS["completion"], "Evelyn", prompt="Who wins?")
    assert (result.correct, result.reward, result.verdict, result.stage) == (True, 1.0, "correct (judged)", "judge")


def test_a_stream_has_judged_verdicts_in_order(judged: LiveServer):
    items = [boxed("4", "4"), IN_WORDS, boxed("3", "4"), boxed("Carla", "Evelyn")]
    body = "".join(json.dumps(item) + "\n" for item in items)
    answer = judged.client.post("/v1/grade", content=body, headers={"Content-Type": "application/x-ndjson"})
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [line.get("verdict") for line in lines] == ["correct", "correct (judged)", "wrong", "wrong (judged)", None]
    assert lines[-1] == {"end": True, "lines": 4, "verdicts": 4, "errors": 0}


def test_the_page_shows_and_lists_judged_verdicts(judged: LiveServer):
    explained = judged.client.post("/v1/explain", json=IN_WORDS).json()
    assert (explained["verdict"], explained["stage"]) == ("correct (judged)", "judge")
    assert judged.client.get("/v1/recent").json()["verdicts"][0]["verdict"] == "correct (judged)"
    script = judged.client.get("/page.js").text
    assert '"correct (judged)"' in script


def test_metrics_count_what_was_judged_and_the_log_does_not_show_the_key(judged: LiveServer):
    results(judged, IN_WORDS, boxed("Carla", "Evelyn"), boxed("crash", "Evelyn"))
    results(judged, IN_WORDS)
    metrics = judged.client.get("/metrics").text
    for series in (
        'math_reward_items_total{stage="judge",verdict="correct (judged)"}',
        'math_reward_items_total{stage="judge",verdict="wrong (judged)"}',
        'math_reward_items_total{stage="judge",verdict="error"}',
        'math_reward_judge_questions_total{answer="yes"}',
        'math_reward_judge_questions_total{answer="no"}',
        'math_reward_judge_questions_total{answer="none"}',
        'math_reward_judge_questions_total{answer="remembered"}',
    ):
        found = re.search(rf"^{re.escape(series)} (\d+)", metrics, re.M)
        assert found, series
        assert float(found[1]) > 0, series
    log = "\n".join(judged.log())
    assert "judge_model=tiny" in log
    assert "sk-hidden" not in log


def test_several_processes_for_http_ask_the_judge_too_and_count_together(
    serve: Callable[..., LiveServer], obedient: FakeRewardServer
):
    flags = ("--workers", "2", "--http-processes", "2", "--judge", obedient.url, "--judge-model", "tiny")
    service = serve(*flags).when_ready()
    for _ in range(4):
        assert results(service, IN_WORDS)[0]["verdict"] == "correct (judged)"
    found = re.search(
        r'^math_reward_items_total{stage="judge",verdict="correct \(judged\)"} (\S+)',
        service.client.get("/metrics").text,
        re.M,
    )
    assert found
    assert float(found[1]) == 4


def test_when_the_service_stops_it_does_not_wait_for_the_judge(serve: Callable[..., LiveServer], wait_for: WaitFor):
    flags = ("--workers", "1", "--judge-model", "m", "--drain-seconds", "1")
    with judge(Answer(body=YES.body, delay=60)) as server, ThreadPoolExecutor(1) as threads:
        service = serve(*flags, "--judge", server.url).when_ready()
        answer = threads.submit(results, service, IN_WORDS)
        wait_for(lambda: bool(server.posts))
        with Client(service.url) as another:  # whom nobody makes wait for the judge
            assert another.grade(r"\boxed{4}", "4").seconds < 1
        assert not answer.done()
        service.process.terminate()
        with pytest.raises(AssertionError, match="stop"):
            answer.result()
        assert service.process.wait(timeout=30) == 0


def test_without_a_judge_words_are_undecided_and_nothing_else_changes(serve: Callable[..., LiveServer]):
    plain = serve("--workers", "1").when_ready()
    (result,) = results(plain, IN_WORDS)
    assert (result["verdict"], result["reward"], result["stage"]) == ("wrong", 0.0, "undecided")
    query = {"query": ["Who?" + IN_WORDS["completion"]], "prompts": ["Who?"], "labels": ["Evelyn"]}
    logs = plain.client.post("/get_reward", json=query).json()["extra_logs"]
    assert not any("judged" in name for name in logs)
    metrics = plain.client.get("/metrics").text
    assert 'math_reward_items_total{stage="undecided",verdict="wrong"} 2.0' in metrics
    assert "(judged)" not in metrics


ROWS = [
    {"completion": r"\boxed{\text{Evelyn Smith}}", "reference": "Evelyn", "prompt": "Who?", "label": True},
    {"completion": r"\boxed{Carla}", "reference": "Evelyn", "prompt": "Who?", "label": False},
    {"completion": r"\boxed{3}", "reference": "4", "prompt": "How many?", "label": False},
    {"completion": r"\boxed{4}", "reference": "4", "prompt": "How many?", "label": True},
]


@pytest.fixture
def rows(tmp_path: Path) -> str:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return str(path)


def test_a_file_is_reported_with_what_is_undecided(in_process: Callable[..., Any], rows: str, tmp_path: Path):
    output = tmp_path / "verdicts.jsonl"
    code, text, _ = in_process("grade", "--workers", "1", "--file", rows, "--output", str(output))
    assert code == 0
    assert re.search(r"in words +2 \(50\.0%\).* 1 ", text)
    assert re.search(r"undecided +2 +50\.0%", text)
    written = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    assert [(row["verdict"], row["stage"]) for row in written[:2]] == [("wrong", "undecided")] * 2
    code, text, _ = in_process("grade", "--workers", "1", "--file", rows, "--json")
    report = json.loads(text)
    assert (report["undecided"], report["undecided_labelled_correct"], report["accuracy"]) == (2, 1, 0.75)


def test_a_file_is_judged(in_process: Callable[..., Any], rows: str, obedient: FakeRewardServer):
    flags = ("--judge", obedient.url, "--judge-model", "tiny", "--workers", "1")
    code, text, _ = in_process("grade", *flags, "--file", rows, "--json")
    report = json.loads(text)
    counts = {"correct (judged)": 1, "wrong (judged)": 1, "wrong": 1, "correct": 1}
    assert (code, report["verdicts"], report["accuracy"]) == (0, counts, 1.0)
    assert (report["stages"]["judge"], report["undecided"]) == (2, 2)


def test_a_file_says_why_the_judge_gave_no_verdict(in_process: Callable[..., Any], rows: str):
    with judge(Answer(403, body={})) as server:
        flags = ("--judge", server.url, "--judge-model", "tiny", "--workers", "1")
        code, text, _ = in_process("grade", *flags, "--file", rows)
    assert code == 0  # as for every row whose reference can be used
    assert re.search("no verdict +2 rows: .*HTTP 403.*MATH_REWARD_JUDGE_KEY", text)
    assert re.search(r"error +2 +50\.0%", text)


def test_a_single_completion_is_judged_too(in_process: Callable[..., Any], obedient: FakeRewardServer):
    flags = ("--judge", obedient.url, "--judge-model", "tiny")
    code, text, _ = in_process("grade", *flags, r"\boxed{\text{Evelyn Smith}}", "Evelyn")
    assert (code, text.splitlines()[0].split(maxsplit=1)) == (0, ["verdict", "correct (judged)"])


def test_a_judge_without_a_model_is_refused(in_process: Callable[..., Any]):
    code, _, said = in_process("grade", "--judge", "http://127.0.0.1:1", r"\boxed{1}", "1")
    assert code == 2
    assert_refusal(said, "--judge-model")
