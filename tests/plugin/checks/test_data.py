"""What is said of the files that a command line names: rows, prompt lengths; templates, positions, vocabularies."""

import json
import re
import shlex
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import huggingface_hub
import pytest

from openrlhf_gtpo import cli
from openrlhf_gtpo.checks import Finding, data
from openrlhf_gtpo.data import references

from ...refusals import assert_refusal

Write = Callable[..., Path]
Check = Callable[..., list[Finding]]
BOXED = r"What is 6 * 7? Put the answer within \boxed{}."
GOOD = {"input": BOXED, "label": "42"}


@pytest.fixture
def check(parse: Callable[..., dict[str, Any]], policy: Path) -> Check:
    """What is found about a file, or about the folder of a policy that is named too."""

    def checked(path: Path | str, *words: Any) -> list[Finding]:
        data._tokenizer.cache_clear()  # a test may have changed the folder
        data._seen.cache_clear()
        model = ["--actor.model_name_or_path", policy, "--data.max_len", 64, "--train.batch_size", 1]
        model += ["--actor.num_gpus_per_node", 1, "--algo.advantage.estimator", "gtpo", "--algo.kl.init_coef", 0]
        return list(data.check(parse("--data.prompt_dataset", path, "--data.label_key", "label", *model, *words)))

    return checked


def fault(found: list[Finding]) -> str:
    (sentence,) = [finding.sentence for finding in found if finding.state == "fault"]
    return sentence


def test_too_few_prompts_for_one_update_of_all_ranks_are_refused(check: Check, written: Write, policy: Path) -> None:
    two_ranks = ["--actor.num_gpus_per_node", 2, "--rollout.micro_batch_size", 4, "--train.batch_size", 4]
    sizes = [*two_ranks, "--rollout.n_samples_per_prompt", 4]
    path = written(*[GOOD] * 3)
    assert not [one for one in check(path, *sizes) if one.state == "fault"]
    for words, needed in (
        (["--data.max_samples", 1], "2 of"),
        (["--train.batch_size", 16], "4 of"),
        (["--rollout.n_samples_per_prompt", 5], "8 of"),  # five divide no update of eight
        (["--train.batch_size", 16, "--eval.dataset", path], "4 of"),  # whose rows are not trained on
    ):
        assert_refusal(fault(check(path, *sizes, *words)), "no step", f"the {needed} an update", "--train.batch_size")
    for words in (["--guide.model", policy], ["--data.prompt_probs", "1.0"]):  # filled; drawn again
        assert not [one for one in check(path, *sizes, "--train.batch_size", 16, *words) if one.state == "fault"]


REFUSED: list[tuple[Any, str]] = [
    ("six times seven", "JSON"),
    ('["6*7?", "42"]', "JSON"),
    ({"label": "42"}, "looked for 'input'"),
    ({"input": " ", "label": "42"}, "'input' is empty"),
    ({"input": [{"content": "6*7?"}], "label": "42"}, "'input'"),
    ({"input": "6*7?", "label": "  "}, "'label' is empty"),
    ({"input": "6*7?", "label": ["42", "forty-two"]}, "'label'"),
]


@pytest.mark.parametrize(("row", "what"), REFUSED)
def test_a_line_that_cannot_be_used_is_named(check: Check, written: Write, row: Any, what: str) -> None:
    path = written(GOOD, GOOD, row, GOOD)
    assert_refusal(fault(check(path)), str(path), "line 3", what)


def test_texts_and_chats_are_prompts_and_numbers_are_labels(check: Check, written: Write) -> None:
    chat = {"input": [{"role": "user", "content": BOXED}], "label": 49.0}
    path = written(GOOD, chat, {"input": BOXED + "?", "label": 0.5})
    assert {finding.state for finding in check(path, "--data.apply_chat_template")} == {"ok"}
    assert_refusal(fault(check(path)), f"{path}, line 2", "--data.apply_chat_template")


NOT_GRADABLE = "{" + "y" * 3000
"""Too long to be an answer."""


def test_reference_answers_that_the_service_cannot_read_are_counted_and_the_first_is_named(
    check: Check, written: Write
) -> None:
    path = written(*[GOOD | {"label": label} for label in ("42", NOT_GRADABLE, "7", r"\frac{1}{2}", NOT_GRADABLE)])
    (found,) = [one for one in check(path) if one.check == "references"]
    assert found.state == "warning", "the others can be learned from"
    assert_refusal(found.sentence, str(path), "2 of 5", "line 2", "--drop-ungradable", "characters")
    own = check(path, "--reward.remote_url", str(path.with_name("mine.py")))
    assert not [one for one in own if one.check == "references"], "a function of one's own may read them"

    of_all = fault(check(written(*[GOOD | {"label": NOT_GRADABLE}] * 3)))
    assert_refusal(of_all, "3 of 3")


def test_of_very_many_answers_some_from_all_over_them_are_read(
    check: Check, written: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(references, "MOST", 3)
    hard = [f"\\frac{{{n}}}{{7}}" for n in range(1, 6)]
    path = written(*[GOOD | {"label": label} for label in ("42", NOT_GRADABLE, *hard)])
    (found,) = [one for one in check(path) if one.check == "references"]
    assert_refusal(found.sentence, "1 of 4")  # 42, this one, and two of five fractions


def test_labels_that_are_the_prompt_or_all_the_same_are_told(check: Check, written: Write) -> None:
    echo = written(*[{"input": f"{BOXED} {n}", "label": f"{BOXED} {n}"} for n in range(3)])
    assert_refusal(fault(check(echo)), str(echo), "--data.label_key")

    same = [one.sentence for one in check(written(*[GOOD] * 8)) if one.check == "references"]
    assert_refusal(same[0], "all 8 rows", "'42'", "--data.label_key")
    assert not [one for one in check(written(*[GOOD] * 7)) if one.check == "references"]


def test_a_proof_in_place_of_an_answer_teaches_nothing(check: Check, written: Write) -> None:
    path = written(*[GOOD | {"label": label} for label in ("42", "see proof", "Q.E.D.", "no solution")])
    (found,) = [one for one in check(path) if one.check == "references"]
    assert_refusal(found.sentence, str(path), "2 of 4", "line 2", "proof", "--drop-ungradable")


def test_one_prompt_with_two_answers_is_told(check: Check, written: Write) -> None:
    twice = [GOOD, GOOD, GOOD | {"label": "43"}]
    assert any("1 rows have the prompt of an earlier row" in one.sentence for one in check(written(*twice)))
    assert {one.state for one in check(written(*twice[:2], GOOD | {"label": "42.0"}))} == {"ok"}, "the same number"
    no_number = [GOOD, *[{"input": r"And \boxed{}?", "label": "nan"}] * 2]
    assert not any("earlier row" in one.sentence for one in check(written(*no_number)))


def test_rows_that_repeat_a_few_prompts_are_told(check: Check, written: Write) -> None:
    few = [{"input": f"{BOXED} {n}", "label": str(n)} for n in range(2)]
    assert any("20 rows have only 2 prompts" in one.sentence for one in check(written(*few * 10)))
    assert {one.state for one in check(written(*few * 9))} == {"ok"}


@pytest.mark.parametrize(
    ("row", "words", "split", "written_row"),
    [
        ({"problem": "No.", "answer": "0", "ask": BOXED, "sol": "1"}, ["ask", "sol"], None, (BOXED, "1")),
        ({"problem": "No.", "answer": "0", "ask": BOXED, "sol": "1"}, ["ask", "sol"], "train", (BOXED, "1")),
        ({"instruction": BOXED, "input": "1", "answer": "2"}, ["input", "answer"], None, (f"{BOXED}\n\n1", "2")),
    ],
)
def test_the_command_that_is_suggested_works_as_it_is_pasted(
    check: Check,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    row: dict[str, str],
    words: list[str],
    split: str | None,
    written_row: tuple[str, str],
) -> None:
    """It takes the columns and the split of the command line, and what it writes is trained on."""
    monkeypatch.chdir(tmp_path)
    bad, name = {**row, words[0]: f"{BOXED}?", words[1]: "see proof"}, "my data"
    if split:
        parts = {split: [row, bad], "test": [{**row, words[0]: "of the test"}] * 2}
        datasets.DatasetDict({name: datasets.Dataset.from_list(part) for name, part in parts.items()}).save_to_disk(
            tmp_path / name
        )
    else:
        name += ".jsonl"
        (tmp_path / name).write_text(f"{json.dumps(row)}\n{json.dumps(bad)}\n")
    keys = ["--data.input_key", words[0], "--data.label_key", words[1]]
    (said,) = [one.sentence for one in check(name, *keys) if one.check == "references"]
    command = re.search(r"`openrlhf-gtpo (.*)`", said)
    assert command
    assert cli.main(shlex.split(command[1])) == 0
    path = tmp_path / "data" / "my_data" / "other.jsonl"
    (made,) = map(json.loads, path.read_text().splitlines())
    assert (made["input"], made["label"]) == written_row
    again = check(path, "--data.input_key", "input", "--data.label_key", "label")
    assert {one.state for one in again} == {"ok"}


OF_FOUR = GOOD | {"choices": ["7", "11", "42", "13"]}


@pytest.mark.parametrize(
    ("row", "lacks"),
    [
        (GOOD | {"instruction": "Add:"}, "'instruction'"),
        (OF_FOUR | {"label": 2}, None),  # one of them is in the prompt
        (OF_FOUR | {"choices": ["apple", "B) pear"], "label": 1}, "its answer '1' stands for one of its choices"),
        (OF_FOUR | {"choices": {"text": ["apple", "pear"], "label": ["A", "B"]}, "label": "B"}, "'B'"),
        (OF_FOUR | {"choices": ["apple", "pear"], "input": f"A. apple, B. pear? {BOXED}", "label": "B"}, None),
        (OF_FOUR | {"choices": ["apple", "5"], "label": "5"}, None),  # the question became an open one
        (OF_FOUR | {"options": "A) 1 B) 2", "choices": None, "label": "B"}, None),
    ],
)
def test_what_a_prompt_lacks_of_its_row_is_told(
    check: Check, written: Write, row: dict[str, Any], lacks: str | None
) -> None:
    path = written({"input": f"1? {BOXED}", "label": "1"}, row)
    said = [one.sentence for one in check(path) if one.state == "warning" and "line 2" in one.sentence]
    assert len(said) == (lacks is not None)
    for sentence in said:
        assert_refusal(sentence, str(path), str(lacks))


def test_prompts_that_were_rendered_before_are_told_where_the_template_is_applied_again(
    check: Check, written: Write, policy: Path
) -> None:
    told = "--data.apply_chat_template"
    once = data.tokenizer.rendered(data.tokenizer.load(str(policy)), BOXED)
    path = written(GOOD, {"input": once, "label": "42"})
    (found,) = check(path, told)
    assert found.state == "warning"
    assert_refusal(found.sentence, str(path), "1 of 2 prompts, in line 2", "<user>", told)
    assert {one.state for one in check(path)} == {one.state for one in check(written(GOOD), told)} == {"ok"}


def test_a_message_of_parts_is_refused_where_the_template_prints_a_list(
    check: Check, written: Write, policy: Path
) -> None:
    parts = {"input": [{"role": "user", "content": [{"type": "text", "text": BOXED}]}], "label": "42"}
    path, told = written(GOOD, parts), "--data.apply_chat_template"
    assert_refusal(fault(check(path, told)), f"{path}, line 2", "one text")
    (template,) = policy.glob("*.jinja")
    texts = "{{ (m.content if m.content is string else m.content[0].text) + 'b' }}"
    template.write_text(
        f"{{% for m in messages %}}{texts}{{% endfor %}}{{% if add_generation_prompt %}}a{{% endif %}}"
    )
    assert {one.state for one in check(path, told)} == {"ok"}, "which reads them"


def test_prompts_that_do_not_ask_for_a_boxed_answer_are_told(check: Check, written: Write) -> None:
    path = written({"input": "What is 1 + 1?", "label": "2"})
    assert check(path)[0].state == "warning"
    assert check(path, "--reward.remote_url", "docs/examples/reward_function.py")[0].state == "ok", "who knows"


def prompt(n: int) -> dict[str, str]:
    """A row whose prompt has n characters, and 3 tokens more of the template."""
    return {"input": "boxed".ljust(n, "x"), "label": "1"}


@pytest.mark.parametrize(
    ("sizes", "flags", "named"),
    [
        ([7, 6], "--data.max_len 30 --rollout.max_new_tokens 20", []),
        (
            [6, 8, 5, 10],
            "--data.max_len 30 --rollout.max_new_tokens 20",
            ["2 of 4 ", " 10 tokens", "--data.max_len 30", "new_tokens 20", "lines 2 and 4", "13 in line 4"],
        ),
        ([7], "--data.max_len 11", []),
        ([7], "--data.max_len 10", ["--data.max_len 10", "10 in line 1"]),
    ],
)
def test_a_prompt_may_have_as_many_tokens_as_the_response_leaves_and_a_longer_one_is_named(
    check: Check, written: Write, sizes: list[int], flags: str, named: list[str]
) -> None:
    path = written(*map(prompt, sizes))
    (found,) = check(path, "--data.apply_chat_template", *flags.split())
    assert (found.check, found.state) == ("data", "fault" if named else "ok")
    if named:
        assert_refusal(found.sentence, str(path), *named)


def test_lengths_that_a_plan_tells_are_of_prompts_from_all_over_a_long_file(
    check: Check, written: Write, parse: Callable[..., dict[str, Any]], policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "SAMPLE", 8)
    for count in (3, 8, 40):
        path = written(*[{"input": "x" * n, "label": "1"} for n in range(1, count + 1)])
        check(path)  # which reads the file of this turn
        words = ["--data.prompt_dataset", path, "--data.label_key", "label", "--actor.model_name_or_path", policy]
        ((name, rows, lengths),) = data.prompt_lengths(parse(*words))
        assert (name, rows, len(lengths)) == (str(path), count, min(count, 8))
        assert len(set(lengths)) == len(lengths), "each at most once"
        assert set(lengths) <= set(range(1, count + 1))
        assert max(lengths) > 3 * count / 4, "and not the first ones"


@pytest.fixture
def snapshot(policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The policy's folder in a cache of the hub, as ``org/policy``; the hub itself must not be asked."""

    def asked(*address: Any, **_: Any) -> None:
        pytest.fail(f"{address} was asked")

    monkeypatch.setattr(socket, "getaddrinfo", asked)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_TELEMETRY", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    cached = tmp_path / "hub" / "models--org--policy"
    shutil.copytree(policy, cached / "snapshots" / "c0ffee")
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("c0ffee")
    return cached / "snapshots" / "c0ffee"


FITS_SIX = ["--data.apply_chat_template", "--data.max_len", 30, "--rollout.max_new_tokens", 20]
FITS_SIX += ["--actor.model_name_or_path", "org/policy"]


def test_of_a_hub_id_in_the_cache_prompts_are_measured_and_the_template_is_tried(
    check: Check, written: Write, snapshot: Path
) -> None:
    path = written(prompt(6), prompt(8))
    assert_refusal(fault(check(path, *FITS_SIX)), "1 of 2 ", "line 2", "--data.max_len 30")
    (snapshot / "chat_template.jinja").unlink()
    assert_refusal(fault(check(path, *FITS_SIX)), "org/policy", "no chat template")


@pytest.mark.parametrize("has", ["nothing", "its config.json"])
def test_without_the_tokenizer_of_a_hub_id_nobody_says_that_the_prompts_fit(
    check: Check, written: Write, snapshot: Path, has: str
) -> None:
    for file in snapshot.iterdir():
        if has == "nothing" or file.name != "config.json":
            file.unlink()
    path = written(prompt(6), prompt(8))
    (found,) = check(path, *FITS_SIX)
    assert found.state == "warning", found
    assert_refusal(found.sentence, str(path), "2 rows has a prompt and a label", "--data.max_len", "org/policy")
    assert {one.state for one in check(written({"input": "?", "label": "1"}), *FITS_SIX)} == {"warning"}


TEMPLATES = [
    (None, "no chat template"),
    ("{% for m in messages %}{{ m['content'] }}{% endfor %}", "add_generation_prompt"),
    ("{% if add_generation_prompt %}<assistant>{% endif %}", "question out"),
    ("{{ raise_exception('only tools') }}", "(only tools)"),
]


@pytest.mark.parametrize(("template", "named"), TEMPLATES)
def test_a_template_that_does_not_ask_the_model_is_refused(
    check: Check, written: Write, policy: Path, tokenizer: Any, template: str | None, named: str
) -> None:
    for file in policy.glob("chat_template*"):
        file.unlink()
    tokenizer.chat_template = template
    tokenizer.save_pretrained(policy)
    assert_refusal(fault(check(written(GOOD), "--data.apply_chat_template")), str(policy), named)


def test_a_tokenizer_without_an_end_or_one_that_loses_the_question_is_refused(
    check: Check, written: Write, policy: Path, tokenizer: Any
) -> None:
    path, told = written(GOOD), "--data.apply_chat_template"
    tokenizer.eos_token = None
    tokenizer.save_pretrained(policy)
    assert_refusal(fault(check(path, told)), "eos_token", "tokenizer_config.json")

    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"<unk>": 0, "<end>": 1}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="<unk>", eos_token="<end>", chat_template=tokenizer.chat_template
    ).save_pretrained(policy)
    assert_refusal(fault(check(path, told)), "tokenizer_class")


def test_what_stands_around_a_prompt_and_a_model_may_not_expect_is_told(
    check: Check, written: Write, policy: Path
) -> None:
    def warned(*words: str) -> list[str]:
        return [one.sentence for one in check(path, *words) if one.check == "prompts"]

    path, chat = written(GOOD), "--data.apply_chat_template"
    assert warned() == warned(chat) == []

    template = policy / "chat_template.jinja"
    plain = template.read_text()
    for opened in ("<think>\n", "<seed:think>", "[THINK]"):
        template.write_text(plain + "{% if add_generation_prompt %}{{ " + json.dumps(opened) + " }}{% endif %}")
        assert_refusal(warned(chat)[0], str(policy), opened.strip(), "--rollout.max_new_tokens")
    template.write_text("{{ strftime_now('%Y') }}" + plain)
    assert_refusal(warned(chat)[0], str(policy), "date")
    template.write_text(plain)

    tokens = data.tokenizer.load(str(policy))
    tokens.bos_token = tokens.eos_token
    from tokenizers.processors import TemplateProcessing

    first = TemplateProcessing(
        single=f"{tokens.bos_token} $A", special_tokens=[(tokens.bos_token, tokens.bos_token_id)]
    )
    tokens.backend_tokenizer.post_processor = first
    tokens.save_pretrained(policy)
    assert_refusal(warned()[0], str(policy), f"--data.input_template '{tokens.bos_token}{{}}'")
    assert warned("--data.input_template", f"{tokens.bos_token}{{}}") == []
    assert warned(chat) == [], "which writes it itself"
    (found,) = check(written(prompt(7)), chat, "--data.max_len", 11, "--rollout.max_new_tokens", 1)
    assert found.state == "ok", "the template's prompt is sent without a further token"


def test_a_model_needs_a_position_for_each_token(
    check: Check, written: Write, policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = json.loads((policy / "config.json").read_text())["max_position_embeddings"]
    path = written(GOOD)
    assert not any(finding.state == "fault" for finding in check(path, "--data.max_len", most))
    said = fault(check(path, "--data.max_len", most + 1))
    assert_refusal(said, f"--data.max_len is {most + 1:,}", str(policy), f"{most:,} positions")
    monkeypatch.setenv("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "1")
    assert not any(finding.state == "fault" for finding in check(path, "--data.max_len", most + 1))
