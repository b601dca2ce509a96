"""The words of both packages: no message broken into odd pieces, no word that a reader would have to look up."""

import ast
import functools
import re
import tokenize
from io import StringIO
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = (ROOT / "plugin" / "openrlhf_gtpo", ROOT / "reward_server" / "math_reward")
SOURCES = [path for package in PACKAGES for path in sorted(package.rglob("*.py"))]

AVOIDED = {
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\b(can|could|is|are|was|were)(not| not|n't)? (to )?be had\b": "say what failed",
    r"\b(is|are|be) gone on with\b": "continues",
    r"\bdoes not go with\b": "does not work with",
    r"\bleans on\b": "uses",
    r"\breckon(s|ed|ing)?\b": "estimate",
    r"\bIs told\b": "is called with",
}
"""Words that no message, help text or docstring has -> what to write instead."""


def broken_pieces(source: str) -> list[int]:
    """Lines of strings with an ``f`` but no placeholder, beside another string with which they are joined.

    ruff's F541 sees joined strings as one, so a single placeholder in any piece satisfies it.
    """
    found: list[int] = []
    joined: list[tuple[int, bool]] = []  # line of each piece, and whether it has an f for nothing
    opened: list[tuple[int, bool]] = []  # f-strings that have begun, from Python 3.12 on
    for token in tokenize.generate_tokens(StringIO(source).readline):
        kind = tokenize.tok_name[token.type]
        if kind == "FSTRING_START":
            opened.append((token.start[0], True))
        elif kind == "FSTRING_END":
            piece = opened.pop()
            if not opened:
                joined.append(piece)
        elif opened:
            if token.string == "{":
                opened[-1] = (opened[-1][0], False)
        elif kind == "STRING":
            prefix, _, text = token.string.partition(token.string.lstrip("rRbBfFuU")[0])
            joined.append((token.start[0], "f" in prefix.lower() and "{" not in text.replace("{{", "")))
        elif kind not in ("NL", "COMMENT"):
            found += [line for line, is_idle in joined if is_idle and len(joined) > 1]
            joined = []
    return found


@functools.cache
def texts(source: str) -> list[tuple[int, str]]:
    """Every string of a module, joined pieces as one and white space as single blanks, with its line.

    A placeholder becomes ``{}``.
    """
    tree = ast.parse(source)
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
            found.append((node.lineno, "".join(map(str, parts))))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            found.append((node.lineno, node.value))
    return [(line, " ".join(text.split())) for line, text in found]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_no_piece_of_a_message_is_an_f_string_without_a_placeholder(package: Path) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in SOURCES
        if path.is_relative_to(package)
        for line in broken_pieces(path.read_text(encoding="utf-8"))
    ]
    assert not found, "write these messages again, line by line"


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ('x = (f"a {y} "\n f"b")\n', [2]),
        ('x = (f"a "\n f"b {y}"\n "c")\n', [1]),
        ('x = (f"a {y} "\n "b")\n', []),
        ('x = f"{{a}}" f"{y}"\n', [1]),
        ('x = f"alone"\n', []),
        ('x = ("a",\n f"b {y}")\n', []),
    ],
)
def test_the_check_finds_such_a_piece_only_where_strings_are_joined(source: str, lines: list[int]) -> None:
    assert broken_pieces(source) == lines


@pytest.mark.parametrize("words", AVOIDED)
def test_texts_have_plain_words(words: str) -> None:
    pattern = re.compile(words)
    found = [
        f"{path.relative_to(ROOT)}:{line}: {match[0]!r}"
        for path in SOURCES
        for line, text in texts(path.read_text(encoding="utf-8"))
        if (match := pattern.search(text))
    ]
    assert not found, f"write {AVOIDED[words]!r}"


def test_a_word_is_found_across_the_pieces_of_a_message() -> None:
    ((line, text),) = texts('x = (f"it cannot "\n f"be had {y}")\n')
    assert (line, text) == (1, "it cannot be had {}")
    assert any(re.search(words, text) for words in AVOIDED)
