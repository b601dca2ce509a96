"""Entropies over HTTP: vLLM's own server with the plugin, and its answers against a forward pass in float32."""

import ast
import http.server
import json
import math
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import httpx
import pytest

from openrlhf_gtpo.engine import plugin
from openrlhf_gtpo.engine.hook import EntropyHookError
from openrlhf_gtpo.vllm_entropy import HTTP_FIELDS, EntropyMissing, Served, check_server, read_http

from ... import preloaded
from ...docs.blocks import block
from ...refusals import assert_refusal
from ...vllm_server import DidNotStart, vllm_server
from ..conftest import characters_and
from .programs import expected

PROMPT = [5, 17, 300]
ON = {plugin.VARIABLE: "1"}
ENTRY_POINT = "openrlhf_gtpo_entropy"
"""As the documentation names it for vLLM's VLLM_PLUGINS."""


@pytest.fixture(scope="module")
def model(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a tokenizer in which many tokens share one text, that of token 0 among them."""
    folder = tmp_path_factory.mktemp("served") / "model"
    shutil.copytree(tiny_model, folder)
    characters_and(backwards=True).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def url(model: Path) -> Iterator[str]:
    with vllm_server(model, ON, served_model_name="m", max_model_len=128, logprobs_mode="processed_logprobs") as url:
        yield url


def complete(url: str, **body: Any) -> Any:
    asked = {"model": "m", "prompt": PROMPT, "max_tokens": 24, "ignore_eos": True, **body}
    answer = httpx.post(f"{url}/v1/completions", json=asked, timeout=120)
    assert answer.status_code == 200, answer.text
    return answer.json()


def compare(model: Path, served: Served, **how: Any) -> None:
    """Raises unless what was read is that of float64."""
    assert len(served.tokens) == 24
    exact = expected(model, PROMPT, served.tokens, end_is_masked=False, **how)
    assert served.logprobs == pytest.approx(exact["logprob"], abs=5e-5)
    assert served.entropies == pytest.approx(exact["entropy"], abs=5e-5)


@pytest.mark.engine
def test_each_choice_of_a_completion_has_the_entropies_of_what_its_tokens_were_sampled_from(
    url: str, model: Path
) -> None:
    for how in ({"temperature": 0.7}, {"temperature": 1.2, "top_k": 20}):
        choices = read_http(complete(url, n=3, **how, **HTTP_FIELDS))
        assert len({tuple(served.tokens) for served in choices}) == 3
        for served in choices:
            compare(model, served, **how)
    # More log-probabilities than the entropy: vLLM's own stand behind it.
    (served,) = read_http(complete(url, **{**HTTP_FIELDS, "logprobs": 5}))
    compare(model, served)
    # Tokens 0 and 1 name the entropy's place; with two, a log-probability often stands under the entropy's id.
    for beside in (1, 2):
        (served,) = read_http(complete(url, allowed_token_ids=[0, 1, 2], **{**HTTP_FIELDS, "logprobs": beside}))
        assert set(served.tokens) == {0, 1, 2}
        assert all(0.0 < entropy <= 1.0986124 for entropy in served.entropies), "three tokens: at most ln 3"


@pytest.mark.engine
def test_a_request_that_asks_for_something_else_is_served_as_ever_and_the_reader_says_what_to_ask_for(
    url: str, model: Path
) -> None:
    echoed, silent = complete(url, echo=True, **HTTP_FIELDS), complete(url)
    # By text these tokens are bytes that are no character by themselves, all three alike.
    by_text = complete(url, allowed_token_ids=[0, 1, 2], logprobs=1)
    said = (
        (echoed, "leave echo out"),
        (silent, "add HTTP_FIELDS"),
        (by_text, r"Token 1 .*return_tokens_as_token_ids"),
    )
    for answer, named in said:
        with pytest.raises(EntropyMissing, match=named):
            read_http(answer)
    assert silent["choices"][0]["logprobs"] is None
    of_prompt = echoed["choices"][0]["logprobs"]["top_logprobs"][1 : len(PROMPT)]
    likeliest = expected(model, PROMPT[:1], PROMPT[1:], end_is_masked=False)["logp"].amax(dim=-1).tolist()
    assert [max(top.values()) for top in of_prompt] == pytest.approx(likeliest, abs=5e-5)


@pytest.mark.engine
def test_a_running_server_is_checked_and_the_documentations_lines_print_what_it_sampled(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    check_server(f"{url}/v1/", model="m")
    with pytest.raises(EntropyMissing, match=r"HTTP 404 .*another"):
        check_server(url, model="another")
    text = block("docs/entropies.md", "check_server(url :=")
    text = text.replace("http://localhost:8001", url).replace("Qwen/Qwen2.5-0.5B-Instruct", "m")
    exec(text, {})
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 4
    for line in printed:
        tokens, logprobs, entropies = ast.literal_eval("[" + line.replace("] [", "], [") + "]")
        assert len(tokens) == len(logprobs) == len(entropies) > 0
        assert max(logprobs) <= 0.0 <= min(entropies)


@pytest.mark.engine
def test_a_server_that_would_return_something_else_ends_before_it_loads_weights_and_says_why(model: Path) -> None:
    with pytest.raises(DidNotStart) as told, vllm_server(model, ON):
        pass
    assert "EntropyHookError: vLLM's --logprobs-mode is raw_logprobs" in str(told.value)
    assert "Loading weights" not in str(told.value)


def test_vllm_finds_the_plugin_which_imports_nothing_that_could_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = entry_points(group="vllm.general_plugins", name=ENTRY_POINT)
    assert found.value == "openrlhf_gtpo.engine.plugin:install"
    program = """
import sys
from openrlhf_gtpo.engine import plugin
plugin.install()
print({"torch", "vllm", "openrlhf_gtpo.engine.hook"} & set(sys.modules))
"""
    without = {name: value for name, value in os.environ.items() if name != plugin.VARIABLE}
    for environment in (without, {**without, plugin.VARIABLE: "0"}):
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        assert (done.stdout, done.stderr) == ("set()\n", "")
    monkeypatch.setenv(plugin.VARIABLE, "yes")
    with pytest.raises(EntropyHookError, match="OPENRLHF_GTPO_ENTROPY is 'yes'"):
        plugin.install()


@pytest.mark.parametrize("before", ["", "MINE, OTHER"])
def test_ray_takes_the_variable_to_workers_on_other_nodes(before: str) -> None:
    program = """
from openrlhf_gtpo.engine import plugin
plugin.install()
plugin.install()  # in the next process, which inherits the environment
from vllm.ray.ray_env import get_env_vars_to_copy
print("COPIED", *sorted({"MINE", "OTHER", plugin.VARIABLE} & get_env_vars_to_copy()))
import os
print("LIST", os.environ[plugin.COPIED_BY_RAY].count(plugin.VARIABLE))
"""
    environment = {**os.environ, **ON, plugin.COPIED_BY_RAY: before}
    done = subprocess.run([preloaded.python(), "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert " ".join(["COPIED", *sorted([*before.replace(",", "").split(), plugin.VARIABLE])]) in done.stdout
    assert "LIST 1" in done.stdout


def completion(*positions: dict[str, float | None]) -> dict[str, Any]:
    """An answer of ``/v1/completions``; the sampled token is the first of each position's."""
    first = [next(iter(top.items())) for top in positions]
    tokens, values = [name for name, _ in first], [value for _, value in first]
    logprobs = {"tokens": tokens, "token_logprobs": values, "top_logprobs": list(positions)}
    return {"choices": [{"index": 0, "text": "a", "logprobs": logprobs}]}


def test_entropies_are_read_at_the_place_of_another_token_and_choices_in_the_order_of_their_indices() -> None:
    more = {"token_id:0": -0.25, "token_id:1": 0.0, "token_id:9": -3.0}
    (first,) = completion({"token_id:7": -0.5, "token_id:0": 1.25}, more)["choices"]
    (second,) = completion({"token_id:8": -0.25, "token_id:0": 0.5})["choices"]
    found = read_http({"choices": [{**second, "index": 1}, first]})
    assert found == [Served([7, 0], [-0.5, -0.25], [1.25, 0.0]), Served([8], [-0.25], [0.5])]
    assert read_http(completion()) == [Served()]


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        # Without the hook: the most likely token, or nothing where that was sampled.
        (completion({"token_id:7": -0.5, "token_id:0": -1.0}), ["Token 1 (token_id:7)", "OPENRLHF_GTPO_ENTROPY=1"]),
        (completion({"token_id:7": -0.5}), ["OPENRLHF_GTPO_ENTROPY=1"]),
        (completion({"token_id:7": -0.5, "token_id:9": 0.0}), ["OPENRLHF_GTPO_ENTROPY=1"]),
        (completion({"token_id:7": 4.0, "token_id:0": 1.0}), ["OPENRLHF_GTPO_ENTROPY=1"]),  # logits
        (completion({"b": -0.5, "!": 1.0}), ["Token 1 (b)", "return_tokens_as_token_ids"]),
        (completion({"token_id:7": None, "token_id:0": None}), ["NaN"]),
        (completion({"token_id:7": -0.5, "token_id:0": math.nan}), ["NaN"]),
        ({"error": {"message": "No such model."}}, ['{"error": {"message": "No such model."']),
    ],
)
def test_an_answer_without_entropies_is_refused_with_what_to_do(answer: dict[str, Any], named: list[str]) -> None:
    with pytest.raises(EntropyMissing) as refused:
        read_http(answer)
    assert_refusal(str(refused.value), *named)


def test_a_server_whose_entropies_are_of_another_distribution_is_found_out() -> None:
    """At p = 1/2 a choice between two has ln 2 = 0.6931 nats; this one says 5, as of a whole vocabulary."""

    class Handler(http.server.BaseHTTPRequestHandler):
        entropy: float

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert (asked["top_k"], asked["logprobs"], self.headers["Authorization"]) == (2, 1, "Bearer k")
            self.answer(completion(*[{"token_id:7": -math.log(2), "token_id:0": self.entropy}] * 8))

        def do_GET(self) -> None:
            self.answer({"status": "ok"})

        def answer(self, said: dict[str, Any]) -> None:
            body = json.dumps(said).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        Handler.entropy = 0.6931
        check_server(url, model="m", api_key="k")
        Handler.entropy = 5.0
        with pytest.raises(EntropyMissing, match=r"4\.3 nats .*processed_logprobs"):
            check_server(url, model="m", api_key="k")
        with pytest.raises(EntropyMissing, match=r'/v1/models .*\{"status": "ok"\}'):
            check_server(url)
        server.shutdown()
