"""The HTTP service: a live one, asked by real clients."""

import dataclasses
import functools
import itertools
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from math_reward.grader import Options, Verdict, grade
from math_reward.http.bodies import PYTHONS_BYTES
from math_reward.http.page import ExplainResponse
from math_reward.http.schemas import GradeResponse, RewardResponse

from ..refusals import assert_refusal

TOKEN = "a-token-for-tests"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def open_server(serve: Callable[..., Any]) -> Any:
    """A service without a token, whose deadline is one second and whose grader can be told to hang."""
    return serve("--workers", "2", "--deadline", "1", stub=True).when_ready()


@pytest.fixture(scope="module")
def guarded_server(serve: Callable[..., Any]) -> Any:
    """A service with a token and narrow limits."""
    options = ["--workers", "1", "--max-items", "3", "--max-body-bytes", "2000"]
    return serve(*options, MATH_REWARD_TOKEN=TOKEN).when_ready()


@pytest.fixture
def ask(open_server: Any) -> httpx.Client:
    return open_server.client


def test_a_strict_service_takes_boxes_alone_where_a_request_does_not_say(serve: Callable[..., Any]):
    ask = serve("--workers", "1", "--mode", "strict").when_ready().client
    prose = {"completion": "The answer is 42.", "reference": "42"}
    items = [prose, {**prose, "completion": r"\boxed{42}"}, {**prose, "options": {"mode": "lenient"}}]
    assert [one["reward"] for one in ask.post("/v1/grade", json={"items": items}).json()["results"]] == [0, 1, 1]
    query = {"query": ["The answer is 42."], "prompts": [""], "labels": ["42"]}
    assert ask.post("/get_reward", json=query).json()["rewards"] == 0, "of one response"


def test_grades_have_the_order_and_the_number_of_the_items(ask: httpx.Client):
    items = [{"completion": rf"\boxed{{{i}}}", "reference": "3"} for i in range(6)]

    response = ask.post("/v1/grade", json={"items": items})

    assert response.status_code == 200
    assert response.headers["Accept-Prompts"] == "shared", "it says that items may share prompts"
    results = response.json()["results"]
    assert [result["answer"] for result in results] == ["0", "1", "2", "3", "4", "5"]
    assert [result["reward"] for result in results] == [0.0, 0.0, 0.0, 1.0, 0.0, 0.0]
    assert [result["correct"] for result in results] == [False, False, False, True, False, False]
    assert results[3]["seconds"] > 0
    del results[3]["seconds"]
    assert results[3] == {
        "reward": 1.0,
        "correct": True,
        "verdict": "correct",
        "answer": "3",
        "reference": "3",
        "detail": None,
        "stage": "string",
        "span": [7, 8],
    }
    assert GradeResponse.model_validate(response.json())


@pytest.mark.parametrize("completion", ["so 41 = 42", r"$41 = \boxed{42}$", r"\boxed{41 = 42}", "1/2 is 42"])
def test_command_service_and_library_say_the_same(ask: httpx.Client, in_process: Any, completion: str):
    items = [{"completion": completion, "reference": "42"}]
    (answered,) = ask.post("/v1/grade", json={"items": items}).json()["results"]
    rewarded = ask.post("/get_reward", json={"query": [completion], "prompts": [""], "labels": ["42"]}).json()
    printed = json.loads(in_process("grade", "--json", completion, "42")[1])
    assert printed.pop("rule") is None, "no rule decided"
    own = grade(completion, "42").as_dict()

    assert printed == {name: answered[name] for name in printed} == own
    assert (own["verdict"], own["reward"], rewarded["rewards"]) == ("ambiguous", 0.0, 0.0)


def test_any_one_of_several_references_counts(ask: httpx.Client):
    items = [{"completion": r"\boxed{1/2}", "reference": r} for r in (["3", 0.5], ["3", "4"], [], [None, "1/2"])]

    results = ask.post("/v1/grade", json={"items": items}).json()["results"]

    assert [result["verdict"] for result in results] == ["correct", "wrong", "bad_reference", "correct"]
    assert [result["reference"] for result in results[:2]] == ["0.5", "3"]


def test_an_item_has_the_options_of_the_request_and_its_own_before_them(ask: httpx.Client):
    prose = {"completion": "So the answer is 101", "reference": "100"}
    boxed = {"completion": r"\boxed{101}", "reference": "100"}
    items = [prose, boxed, {**prose, "options": {"mode": "lenient"}}, {**boxed, "options": {"rel_tol": 0}}]

    body = {"items": items, "options": {"mode": "strict", "rel_tol": 0.02}}
    results = ask.post("/v1/grade", json=body).json()["results"]

    assert [result["verdict"] for result in results] == ["no_answer", "correct", "correct", "wrong"]


@pytest.mark.parametrize("prompt", [r"<|user|>1+1=\boxed{2}. 6*7=", r"1+1=\boxed{2}. "])
def test_a_prompt_is_never_graded_whether_the_completion_begins_with_it_or_not(ask: httpx.Client, prompt: str):
    other = prompt.removeprefix("<|user|>").replace(" ", "  ")
    completions = [rf"{begin}\boxed{{42}}" for begin in ("", prompt, other)] + [prompt + "who knows"]
    items = [{"completion": completion, "reference": "42", "prompt": prompt} for completion in completions]

    results = ask.post("/v1/grade", json={"items": items}).json()["results"]

    assert [result["verdict"] for result in results] == ["correct", "correct", "correct", "no_answer"]
    paid = ask.post("/v1/grade", json={"items": [{**items[3], "reference": "2"}]}).json()["results"]
    assert paid[0]["reward"] == 0


PROMPTS = ["6*7=", r"1+1=\boxed{2}. What are six sevens in all, written as a number? A:", "", "6*7 or 7*6?"]
COMPLETIONS = [r"\boxed{42}", r"\boxed{6*7}", "6*7=42", "42", *PROMPTS, PROMPTS[1] + r"\boxed{42}", r"\boxed{2}"]


def test_a_prompt_that_items_share_is_as_if_each_item_had_it(ask: httpx.Client):
    asked = itertools.product(COMPLETIONS, [*PROMPTS, None])
    own = [{"completion": text, "reference": "42", "prompt": prompt} for text, prompt in asked]
    places = [item | {"prompt": PROMPTS.index(item["prompt"])} if item["prompt"] is not None else item for item in own]

    bodies = ({"items": own}, {"items": places, "prompts": PROMPTS})
    answers = [ask.post("/v1/grade", json=body).json()["results"] for body in bodies]

    of_own, of_shared = ([{**result, "seconds": 0} for result in answer] for answer in answers)
    assert of_own == of_shared
    assert len({result["verdict"] for result in of_own}) > 3


def test_shared_prompts_get_nobody_more_than_the_largest_body_could_hold(guarded_server: Any):
    """2 items share 1,000 characters, and 2,000 bytes may come; one character more is two."""
    items = [{"completion": "1", "reference": "1", "prompt": 0}] * 2
    headers = {"Authorization": f"Bearer {TOKEN}"}

    fits, too_many = (
        guarded_server.client.post("/v1/grade", json={"prompts": ["p" * length], "items": items}, headers=headers)
        for length in (1000, 1001)
    )

    assert (fits.status_code, len(fits.json()["results"])) == (200, 2)
    assert too_many.status_code == 413
    assert_refusal(too_many.json()["detail"], "prompts", "2,000")


def verdict_logs(verdict: str) -> dict[str, float]:
    return {f"verdict_{v.value}": float(v.value == verdict) for v in Verdict}


def test_one_query_is_answered_with_numbers(ask: httpx.Client):
    body = {"query": [r"Q: \boxed{2}? A: \boxed{42}"], "prompts": [r"Q: \boxed{2}? A:"], "labels": ["42"]}

    assert ask.post("/get_reward", json=body).json() == {
        "rewards": 1.0,
        "scores": 1.0,
        "extra_logs": verdict_logs("correct"),
    }


def test_several_queries_are_answered_with_lists(ask: httpx.Client):
    body = {
        "query": [r"Q \boxed{42}", r"Q \boxed{41}", r"<s>Q", r"\boxed{42}"],
        "prompts": ["Q", "Q", "Q", "Q"],
        "labels": ["42", 42, "42", "42"],
    }

    answer = ask.post("/get_reward", json=body).json()

    assert RewardResponse.model_validate(answer)
    assert answer["rewards"] == answer["scores"] == [1.0, 0.0, 0.0, 0.0]
    one_by_one = [verdict_logs(v) for v in ("correct", "wrong", "no_answer", "prompt_not_found")]
    assert answer["extra_logs"] == {key: [logs[key] for logs in one_by_one] for key in one_by_one[0]}


async def test_openrlhfs_own_client_gets_rewards_that_its_trainer_can_stack(open_server: Any):
    agent = pytest.importorskip("openrlhf.utils.agent")
    torch = pytest.importorskip("torch")
    client = agent.SingleTurnAgentExecutor(open_server.url + "/get_reward")

    (right,) = await client._fetch_rewards_via_http([r"Q: 6*7? \boxed{42}"], ["Q: 6*7?"], ["42"])
    (wrong,) = await client._fetch_rewards_via_http([r"Q: 6*7? \boxed{41}"], ["Q: 6*7?"], ["42"])

    # OpenRLHF makes torch.tensor([value]) of every value and concatenates the samples to shape (B,).
    rewards = torch.cat([torch.tensor([answer["rewards"]]) for answer in (right, wrong)])
    scores = torch.cat([torch.tensor([answer["scores"]]) for answer in (right, wrong)])
    assert rewards.tolist() == scores.tolist() == [1.0, 0.0]
    assert rewards.dtype == torch.float32
    assert right["extra_logs"].keys() == wrong["extra_logs"].keys()
    assert all(torch.tensor([value]).shape == (1,) for value in right["extra_logs"].values())


GIVEN = {"completion": "7", "reference": "1"}
REWARDED = {"query": ["a"], "prompts": ["a"], "labels": ["1"]}
REFUSED: list[tuple[str, Any, list[str]]] = [
    ("/v1/grade", {"items": [GIVEN, {"completion": "1"}]}, ["`reference`", "$.items[1]"]),
    ("/v1/grade", {"items": [GIVEN | {"completion": 7}]}, ["$.items[0].completion"]),
    ("/v1/grade", {"items": [GIVEN | {"reference": [["1"]]}]}, ["$.items[0].reference[0]"]),
    ("/v1/grade", {"items": [GIVEN | {"reference": True}]}, ["$.items[0].reference"]),
    ("/v1/grade", {"items": [GIVEN | {"reference": ["1"] * 65}]}, ["$.items[0].reference", "64"]),
    ("/v1/grade", {"items": [GIVEN | {"options": {"rel_tol": -1}}]}, ["$.items[0].options.rel_tol"]),
    ("/v1/grade", {"items": [], "options": {"mode": "lax"}}, ["'lax'", "$.options.mode"]),
    *(
        ("/v1/grade", {"items": [GIVEN | {"prompt": prompt}], "prompts": ["6+1?"]}, ["$.items[0].prompt"])
        for prompt in (-1, True, 0.0, [])
    ),
    ("/v1/grade", {"items": [GIVEN | {"prompt": 1}], "prompts": ["6+1?"]}, ["Item 0 has prompt 1", "1 prompts"]),
    ("/v1/explain", GIVEN | {"prompt": 0}, ["$.prompt"]),
    ("/v1/grade", {"items": [GIVEN | {"promt": ""}]}, ["`promt`", "$.items[0]"]),
    ("/v1/explain", GIVEN | {"x" * 1000: 1}, ["unknown field `xxx"]),
    ("/get_reward?on_no_judgment=refuse", REWARDED, ["'on_no_judgment'", "has on_no_judgement"]),
    ("/get_reward?on_no_judgement=nan", REWARDED, ["'on_no_judgement'", "'zero'", "'refuse'"]),
    ("/v1/grade?strict=1", {"items": []}, ["'strict'", "none"]),
    (
        "/v1/grade",
        {"items": [{"completion": "1", "answer": "1"}]},
        ["`answer`", "the reference is called `reference`"],
    ),
    ("/v1/grade", {"items": [GIVEN | {"completions": "1"}]}, ["the completion is called `completion`"]),
    ("/v1/grade", [GIVEN], ["`object`", "wrap it"]),
    ("/v1/grade", GIVEN, ["`completion`", "wrap it"]),
    ("/v1/grade", {}, ["`items`", "wrap it"]),
    ("/get_reward", b'{"other": ' + b"[" * 100_000, ["recursion"]),
    ("/get_reward", REWARDED | {"query": ["a", "b"]}, ["2, 1 and 1"]),
    ("/get_reward", REWARDED | {"labels": [{}]}, ["$.labels[0]"]),
    ("/v1/grade", b'{"items": ', ["truncated"]),
    ("/v1/grade", b'{"items": [{"completion": "\xff"}]}', ["utf-8"]),
    ("/v1/grade", b'{"items": [{"completion": "1", "reference": ' + b"9" * 5000 + b"}]}", ["$.items[0].reference"]),
    ("/v1/grade", b'{"items": [{"completion": NaN, "reference": "1"}]}', ["$.items[0].completion"]),
    *(("/v1/grade", b'{"items": [], "options": {"rel_tol": %b}}' % odd, ["rel_tol"]) for odd in (b"NaN", b"1e999")),
    ("/v1/grade", b'{"items": [], "\\ud800": 1}', ["truncated"]),
    *(  # too large to be read as Python reads it
        ("/get_reward", b'{"query": ["7"], "prompts": [""], "labels": [%b]%b}' % (odd, b" " * PYTHONS_BYTES), ["malf"])
        for odd in (b"NaN", b'"\\ud83d"')
    ),
]


@pytest.mark.parametrize(("path", "body", "named"), REFUSED)
def test_a_faulty_request_is_refused_with_the_place_of_the_fault(
    ask: httpx.Client, path: str, body: Any, named: list[str]
):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()

    response = ask.post(path, content=content, headers=JSON)

    assert response.status_code == 422
    assert response.headers["Content-Type"] == "application/problem+json"
    about = {"type": "about:blank", "title": "Unprocessable Entity", "status": 422}
    assert response.json() == {**about, "detail": response.json()["detail"]}
    assert_refusal(response.json()["detail"], *named)
    assert len(response.json()["detail"]) < 400


# A reference that Python's json writes, and how its item is graded.
PYTHONS = [
    (b"NaN", "bad_reference"),
    (b"Infinity", "bad_reference"),
    (b"-Infinity", "bad_reference"),
    (b"1e999", "bad_reference"),
    (b'"\\ud83d"', "bad_reference"),
    (b'["7", NaN]', "correct"),
]


@pytest.mark.parametrize(("reference", "verdict"), PYTHONS)
def test_what_python_writes_and_json_has_not_costs_no_other_item_its_grade(
    ask: httpx.Client, reference: bytes, verdict: str
):
    def post(path: str, body: bytes) -> httpx.Response:
        response = ask.post(path, content=body, headers={"Content-Type": "application/json"})
        assert response.status_code == 200
        return response

    rows = [b'{"completion": "7", "reference": %b}' % one for one in (reference, b'"7"')]
    results = post("/v1/grade", b'{"items": [%b]}' % b", ".join(rows)).json()["results"]
    assert [result["verdict"] for result in results] == [verdict, "correct"]

    body = b'{"query": ["7", "7"], "prompts": ["", ""], "labels": [%b, "7"]}' % reference
    answer = post("/get_reward", body).json()
    assert answer["extra_logs"][f"verdict_{verdict}"][0] == 1
    assert answer["rewards"][1] == 1


@pytest.mark.parametrize(
    ("media_type", "status"),
    [("application/json; charset=utf-8", 200), ("application/problem+json", 200), ("text/plain", 415), ("", 415)],
)
def test_a_body_is_sent_as_json(ask: httpx.Client, media_type: str, status: int):
    """A page of another site may send text/plain without asking first."""
    response = ask.post("/v1/grade", content=b'{"items": []}', headers={"Content-Type": media_type})

    assert response.status_code == status
    assert status == 200 or "Content-Type: application/json" in response.json()["detail"]


def test_what_a_later_openrlhf_may_send_besides_is_no_fault(ask: httpx.Client):
    body = {"query": [r"1+1? \boxed{2}"], "prompts": ["1+1? "], "labels": ["2"], "images": [None]}

    assert ask.post("/get_reward", json=body).json()["rewards"] == 1.0


@pytest.mark.parametrize("path", ["/v1/grade", "/get_reward", "/v1/explain"])
@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer wrong", f"Bearer {TOKEN}x", TOKEN, f"Basic {TOKEN}", "Bearer é"]
)
def test_a_post_without_the_token_is_refused(guarded_server: Any, path: str, header: str | None):
    headers = {} if header is None else {"Authorization": header.encode()}

    response = guarded_server.client.post(path, content=b"not even read", headers=headers)

    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"] == "Bearer"
    which = ", not this one" if header else ""
    needs = f"This service needs its token{which}: send the header 'Authorization: Bearer <token>'."
    assert response.json()["detail"] == needs
    assert response.headers["Connection"] == "close"


@pytest.fixture
def ask_with_token(guarded_server: Any) -> Any:
    return functools.partial(guarded_server.client.post, headers={"Authorization": f"Bearer {TOKEN}"})


@pytest.mark.parametrize(
    ("path", "field", "body"),
    [
        ("/v1/grade", "items", {"items": [{"completion": "1", "reference": "1"}] * 4}),
        ("/get_reward", "query", {"query": ["1"] * 4, "prompts": [""] * 4, "labels": ["1"] * 4}),
    ],
)
def test_a_request_with_too_many_items_is_refused(ask_with_token: Any, path: str, field: str, body: Any):
    response = ask_with_token(path, json=body)

    assert response.status_code == 422
    assert_refusal(response.json()["detail"], f"At most 3 {field} ")


def chunks():
    """2,000 bytes may come; in chunks no header says how many will."""
    yield b'{"items": ['
    for _ in range(20):
        yield b" " * 1000


@pytest.mark.parametrize("content", [lambda: b" " * 3000, chunks], ids=["said", "not said"])
def test_a_body_that_is_too_big_is_refused_whether_it_says_so_or_not(guarded_server: Any, content: Callable[[], Any]):
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    response = guarded_server.client.post("/v1/grade", content=content(), headers=headers)

    assert response.status_code == 413
    assert_refusal(response.json()["detail"], "2,000")


def test_a_body_may_have_as_many_bytes_as_are_allowed(guarded_server: Any):
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    body = b'{"items": [{"completion": "42", "reference": "42"}]}'
    whole = body + b" " * (2000 - len(body))
    for content in (whole, iter([body, whole[len(body) :]])):
        response = guarded_server.client.post("/v1/grade", content=content, headers=headers)
        assert response.json()["results"][0]["verdict"] == "correct"


def test_an_answer_may_hold_half_a_surrogate_pair(ask: httpx.Client):
    item = {"completion": "\\boxed{\ud83d}", "reference": "4"}
    (result,) = ask.post("/v1/grade", content=json.dumps({"items": [item]}), headers=JSON).json()["results"]

    assert (result["verdict"], result["answer"]) == ("wrong", "\ud83d")


def test_pages_that_load_scripts_from_elsewhere_are_not_in_the_origin_of_a_token(
    ask: httpx.Client, guarded_server: Any
):
    assert "swagger" in ask.get("/docs").text
    assert [guarded_server.client.get(path).status_code for path in ("/docs", "/redoc")] == [404, 404]


def test_health_readiness_and_the_openapi_document_need_no_token(guarded_server: Any):
    client = guarded_server.client

    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ok"}
    document = client.get("/openapi.json").json()
    assert document["components"]["securitySchemes"] == {"HTTPBearer": {"type": "http", "scheme": "bearer"}}
    assert TOKEN not in str(document)


def test_the_examples_of_the_documentation_can_be_sent_and_are_answered_as_documented(ask: httpx.Client):
    schemas = ask.get("/openapi.json").json()["components"]["schemas"]

    for path, request, answer in (
        ("/v1/grade", "GradeRequest", GradeResponse),
        ("/get_reward", "RewardRequest", RewardResponse),
        ("/v1/explain", "GradeItem", ExplainResponse),
    ):
        (example,) = schemas[request]["examples"]
        assert answer.model_validate(ask.post(path, json=example).json())


def test_an_option_has_the_graders_own_words(ask: httpx.Client):
    options = ask.get("/openapi.json").json()["components"]["schemas"]["GradeOptions"]["properties"]

    said = {name: option["description"] for name, option in options.items()}
    assert said["rel_tol"].startswith("Numbers that")
    assert {text.lower() for text in said.values()} == {
        f"{field.metadata['help']}.".lower() for field in dataclasses.fields(Options) if field.name in said
    }
