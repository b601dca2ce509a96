"""Which room may import which, and which packages a process never loads: read from the source, without importing it.

docs/architecture.md shows the same layers; tests compare the two. Module names in tables of strings do not count: a
command, an estimator or another process loads those.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"


@dataclass(frozen=True)
class Rules:
    """What one package's imports have to keep."""

    folder: Path
    """Of the package."""
    layers: Sequence[Sequence[str]]
    """Lowest first. A room, a folder or a file at the top, imports rooms of lower layers only: not those beside it.
    ``a with b`` is one room that has a public file of its own."""
    never: Mapping[str, Sequence[str]]
    """Room -> packages that neither it nor what it loads may import; ``*`` is every room."""
    allowed: Sequence[str] = ()
    """Modules of packages in ``never`` that every room may import all the same."""
    exceptions: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(module, what it imports) -> why it may."""
    within: str = ""
    """The package that this one is a room of."""

    @property
    def package(self) -> str:
        return f"{self.within}.{self.folder.name}".strip(".")

    def room_of(self, module: str) -> str:
        """The folder or file at the top of the package that a module belongs to."""
        return [*module.removeprefix(self.package).strip(".").split("."), ""][0] or "__init__"


PLUGIN = Rules(
    ROOT / "plugin" / "openrlhf_gtpo",
    layers=[
        ["__init__", "errors", "seeds", "tables"],
        ["parsing", "algorithms with shaping", "glossary"],
        ["engine with vllm_entropy with vllm_worker", "rewards", "openrlhf_internals", "sent_once", "batch"],
        ["settings", "data", "trainers"],
        ["guide"],
        ["rollout", "policy", "controller"],
        ["driver"],
        ["cpu", "checks"],
        ["train", "evaluation", "doctor", "report", "start"],
        ["selftest"],
        ["cli with __main__"],
    ],
    never={
        "*": ["math_reward", "fastapi"],
        "algorithms": ["openrlhf", "ray", "vllm", "transformers", "deepspeed"],
        "engine": ["ray", "deepspeed", "transformers"],
        "rewards": ["torch", "openrlhf", "ray", "vllm", "transformers", "deepspeed"],
        "settings": ["torch", "openrlhf", "ray", "vllm", "transformers", "deepspeed"],
        "trainers": ["openrlhf", "deepspeed"],
        "rollout": ["deepspeed"],
        "policy": ["vllm"],
        "controller": ["vllm", "deepspeed"],
        "report": ["torch", "openrlhf", "ray", "vllm", "transformers", "deepspeed"],
        "cli": ["torch", "openrlhf", "ray", "vllm", "transformers", "deepspeed"],
    },
    allowed=["math_reward.client", "math_reward.json_lines", "math_reward.nearest"],
)

SERVICE = Rules(
    ROOT / "reward_server" / "math_reward",
    layers=[
        ["__init__", "limits", "judge_settings", "tokens", "nearest", "json_lines"],
        ["settings", "grader", "client"],
        ["pool", "page"],
        ["judge"],
        ["http"],
        ["app", "adapters"],
        ["commands"],
        ["cli with __main__"],
    ],
    never={
        "*": ["torch", "openrlhf_gtpo", "openrlhf", "vllm", "transformers", "deepspeed", "ray"],
        "grader": ["fastapi", "starlette", "uvicorn", "pydantic", "httpx", "asyncio", "multiprocessing", "threading"],
        "pool": ["fastapi", "starlette", "uvicorn", "pydantic", "httpx"],
        "page": ["fastapi", "starlette", "uvicorn", "pydantic", "httpx"],
        "judge": ["fastapi", "starlette", "uvicorn", "pydantic"],
        "client": ["fastapi", "starlette", "uvicorn", "pydantic", "sympy"],
        "adapters": ["fastapi", "starlette", "uvicorn"],
    },
    exceptions={
        ("math_reward.commands.ray_serve", "ray"): "It deploys the service on Ray Serve; no other module imports it.",
        (
            "math_reward.commands.ray_replica",
            "ray",
        ): "It runs in the replicas of Ray Serve; only ray_serve imports it.",
    },
)

GRADER = Rules(
    SERVICE.folder / "grader",
    layers=[
        ["verdict", "errors", "memory"],
        ["words"],
        ["extraction"],
        ["notation"],
        ["mathematics"],
        ["rules"],
        ["reading"],
        ["in_words"],
        ["compared", "restated", "asked_form"],
        ["grading"],
        ["__init__"],
    ],
    never={},
    within="math_reward",
)


@dataclass(frozen=True)
class Import:
    """One import in a module."""

    imported: str
    """Dotted name: a module of the package as far as it is one, else as it is written."""
    line: int
    at_once: bool
    """Whether it happens when the module is imported: not in a function, nor for type checkers alone."""


def modules_of(rules: Rules) -> dict[str, Path]:
    """A package's modules by their dotted names. Stand-ins for other packages do not count."""
    paths = [path for path in rules.folder.rglob("*.py") if "stubs" not in path.parts]
    return {
        ".".join([rules.package, *path.relative_to(rules.folder).with_suffix("").parts]).removesuffix(
            ".__init__"
        ): path
        for path in paths
    }


def imports_of(name: str, path: Path, known: Mapping[str, Path]) -> Iterator[Import]:
    """Every import of a module, wherever it stands, ``importlib.import_module("...")`` too."""

    def found(module: str, node: ast.AST, at_once: bool, member: str = "") -> Import:
        longer = f"{module}.{member}"
        return Import(longer if longer in known else module, getattr(node, "lineno", 0), at_once)

    def walk(node: ast.AST, at_once: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            yield from (found(alias.name, node, at_once) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                parts = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
                module = ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [module])])
            yield from (found(module, node, at_once, alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            names = [argument.value for argument in node.args[:1] if isinstance(argument, ast.Constant)]
            yield from (found(str(module), node, at_once) for module in names)
        late = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
        if isinstance(node, late) or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            at_once = False
        for child in ast.iter_child_nodes(node):
            yield from walk(child, at_once)

    yield from walk(ast.parse(path.read_text(encoding="utf-8")), True)


def is_of(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def complaints(rules: Rules) -> list[str]:
    """One sentence for each import that the rules forbid, and for each exception that nothing needs."""
    modules = modules_of(rules)
    imports = {name: list(imports_of(name, path, modules)) for name, path in modules.items()}
    return [
        *_unknown_rooms(rules, modules),
        *_arrows_up(rules, imports),
        *_forbidden_packages(rules, imports),
        *_idle_exceptions(rules, imports),
    ]


def _places(rules: Rules) -> dict[str, tuple[int, str]]:
    """Room -> number of its layer, and its name in the table."""
    return {
        room: (number, entry)
        for number, layer in enumerate(rules.layers, 1)
        for entry in layer
        for room in entry.split(" with ")
    }


def _unknown_rooms(rules: Rules, modules: Mapping[str, Path]) -> Iterator[str]:
    found, known = {rules.room_of(name) for name in modules}, set(_places(rules))
    yield from (f"{room} is in no layer: give it one in this test and in the page." for room in sorted(found - known))
    yield from (f"The table has {room}, which is not there." for room in sorted(known - found))


def _arrows_up(rules: Rules, imports: Mapping[str, list[Import]]) -> Iterator[str]:
    places = _places(rules)
    for name, own in imports.items():
        for one in own:
            ours, theirs = places.get(rules.room_of(name)), places.get(rules.room_of(one.imported))
            if not is_of(one.imported, rules.package) or not ours or not theirs or ours[1] == theirs[1]:
                continue
            if theirs[0] >= ours[0] and (name, one.imported) not in rules.exceptions:
                where = "beside it" if theirs[0] == ours[0] else "above it"
                yield f"{name}, line {one.line}, imports {one.imported}, which is {where}."


def _forbidden_packages(rules: Rules, imports: Mapping[str, list[Import]]) -> Iterator[str]:
    for name in imports:
        table_name = _places(rules).get(rules.room_of(name), (0, rules.room_of(name)))[1]
        never = {*rules.never.get("*", ())}.union(*(rules.never.get(room, ()) for room in table_name.split(" with ")))
        for way, one in _loaded(name, imports):
            package = one.imported.split(".")[0]
            allowed = any(is_of(one.imported, module) for module in rules.allowed)
            if package in never and not allowed and (name, package) not in rules.exceptions:
                through = f" through {', '.join(way[1:])}" if way[1:] else f", line {one.line},"
                yield f"{name}{through} imports {package}, which it may not."


def _loaded(name: str, imports: Mapping[str, list[Import]]) -> Iterator[tuple[list[str], Import]]:
    """All that a module imports itself, and what the package's modules that it loads import at once; with the way."""
    waiting, seen = [[name]], {name}
    while waiting:
        way = waiting.pop()
        for one in imports[way[-1]]:
            if way[1:] and not one.at_once:
                continue
            yield way, one
            parents = one.imported.split(".")
            for length in range(1, len(parents) + 1):  # Python imports a module's packages first
                module = ".".join(parents[:length])
                if one.at_once and module in imports and module not in seen:
                    seen.add(module)
                    waiting.append([*way, module])


def _idle_exceptions(rules: Rules, imports: Mapping[str, list[Import]]) -> Iterator[str]:
    for (name, imported), reason in rules.exceptions.items():
        if not any(is_of(one.imported, imported) for one in imports.get(name, ())):
            yield f"{name} does not import {imported}: take the exception out. ({reason})"


@pytest.mark.parametrize("rules", [PLUGIN, SERVICE, GRADER], ids=["plugin", "service", "grader"])
def test_every_import_keeps_the_layers(rules: Rules) -> None:
    assert complaints(rules) == []


TREE = {
    "house/__init__.py": "",
    "house/words.py": "",
    "house/pure/__init__.py": "",
    "house/pure/sums.py": "import math\nfrom house.pure import products\nfrom house.words import what\n",
    "house/pure/products.py": "",
    "house/left/__init__.py": "",
    "house/left/door.py": "from house.pure import sums\n",
    "house/right.py": "import importlib\nfrom house.pure.sums import one\nimport heavy.engine\n",
    "house/main.py": "from house.left.door import it\n\ndef run():\n    from house import right\n",
}
LAYERS = [["__init__", "words"], ["pure"], ["left", "right"], ["main"]]
NEVER = {"*": ["rival"], "left": ["heavy"]}


def made_up(folder: Path, changes: Mapping[str, str]) -> Rules:
    for name, text in {**TREE, **changes}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Rules(folder / "house", LAYERS, NEVER)


def test_a_tree_in_order_has_no_complaint(tmp_path: Path) -> None:
    assert complaints(made_up(tmp_path, {})) == []


WRONG = [
    ("pure/sums.py", "import house.left.door", "house.pure.sums, line 1, imports house.left.door, which is above it."),
    ("pure/sums.py", "from house import main", "house.pure.sums, line 1, imports house.main, which is above it."),
    ("pure/__init__.py", "from ..left import door", "house.pure, line 1, imports house.left.door, which is above it."),
    ("pure/sums.py", "from .. import main as m", "house.pure.sums, line 1, imports house.main, which is above it."),
    (
        "pure/sums.py",
        "class A:\n    def f(self):\n        from house.left import door",
        "house.pure.sums, line 3, imports house.left.door, which is above it.",
    ),
    (
        "pure/sums.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from house.right import Thing",
        "house.pure.sums, line 3, imports house.right, which is above it.",
    ),
    (
        "pure/sums.py",
        "import importlib\nf = lambda: importlib.import_module('house.main')",
        "house.pure.sums, line 2, imports house.main, which is above it.",
    ),
    ("left/door.py", "import house.right", "house.left.door, line 1, imports house.right, which is beside it."),
    ("left/door.py", "from heavy.engine import go", "house.left.door, line 1, imports heavy, which it may not."),
    ("words.py", "def f():\n    import rival", "house.words, line 2, imports rival, which it may not."),
    (
        "pure/products.py",
        "import heavy",
        "house.left.door through house.pure.sums, house.pure.products imports heavy, which it may not.",
    ),
    (
        "pure/__init__.py",
        "import heavy",
        "house.left.door through house.pure imports heavy, which it may not.",
    ),
    ("cellar.py", "", "cellar is in no layer: give it one in this test and in the page."),
]


@pytest.mark.parametrize(("file", "source", "complaint"), WRONG)
def test_a_wrong_import_is_named(file: str, source: str, complaint: str, tmp_path: Path) -> None:
    assert complaint in complaints(made_up(tmp_path, {f"house/{file}": f"{source}\n"}))


def test_a_function_that_loads_a_package_late_does_not_bring_it_to_who_imports_the_function(tmp_path: Path) -> None:
    assert complaints(made_up(tmp_path, {"house/pure/sums.py": "def f():\n    import heavy\n"})) == []


def test_a_module_of_a_forbidden_package_can_be_allowed(tmp_path: Path) -> None:
    lines = "import rival.client\nfrom rival.client.parts import one\nimport rival.clients\nfrom rival import client\n"
    rules = made_up(tmp_path, {"house/words.py": lines})
    said = complaints(Rules(rules.folder, rules.layers, rules.never, allowed=["rival.client"]))
    assert [one for one in said if one.startswith("house.words,")] == [
        f"house.words, line {line}, imports rival, which it may not." for line in (3, 4)
    ]


def test_an_exception_allows_one_import_and_is_named_when_nothing_needs_it(tmp_path: Path) -> None:
    why = {("house.left.door", "heavy"): "Its door is heavy."}
    rules = made_up(tmp_path, {"house/left/door.py": "import heavy.engine\n", "house/left/two.py": "import heavy\n"})
    excused = Rules(rules.folder, rules.layers, rules.never, exceptions=why)
    assert complaints(excused) == ["house.left.two, line 1, imports heavy, which it may not."]
    (rules.folder / "left" / "two.py").unlink()
    (rules.folder / "left" / "door.py").write_text("")
    assert complaints(excused) == [
        "house.left.door does not import heavy: take the exception out. (Its door is heavy.)"
    ]


def section(heading: str) -> str:
    """The text below a heading of the page, up to the next one."""
    found = re.search(rf"^#+ {re.escape(heading)}$\n(.*?)(?=^#|\Z)", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert found, f"{PAGE.name} has no heading {heading!r}"
    return found[1]


def cells(text: str) -> list[list[str]]:
    """The rows of a Markdown table, without its head."""
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in re.findall(r"^\|.*\|$", text, re.M)][2:]


def plain(name: str) -> str:
    """``shaping`` for `shaping.py` and `shaping/` in Markdown."""
    return re.sub(r"`([\w]+)(?:/|\.py)?`", r"\1", name.strip())


def layers_on_the_page(heading: str) -> list[list[str]]:
    rows = cells(section(heading))
    assert [row[0] for row in rows] == [str(number + 1) for number in range(len(rows))]
    return [[plain(entry) for entry in row[1].split(",")] for row in rows]


@pytest.mark.parametrize(("name", "rules"), [("plugin", PLUGIN), ("service", SERVICE), ("grader", GRADER)])
def test_the_page_shows_the_layers_that_are_held(name: str, rules: Rules) -> None:
    assert layers_on_the_page(f"Layers of the {name}") == [list(layer) for layer in rules.layers]


@pytest.mark.parametrize(("name", "rules"), [("plugin", PLUGIN), ("service", SERVICE)])
def test_the_page_shows_the_packages_that_are_never_loaded(name: str, rules: Rules) -> None:
    rows = cells(section(f"What the {name} never loads"))
    shown = {
        plain(room).replace("every room", "*"): [plain(cell) for cell in packages.split(",")]
        for room, packages in rows
    }
    assert shown == {room: list(packages) for room, packages in rules.never.items()}


def test_the_page_shows_what_the_plugin_may_import_of_the_service() -> None:
    (sentence,) = re.findall(r"^Of `math_reward` .*?\.$", section("What the plugin never loads"), re.M | re.S)
    assert re.findall(r"`(math_reward\.\w+)`", sentence) == list(PLUGIN.allowed)


@pytest.mark.parametrize(("name", "rules"), [("plugin", PLUGIN), ("service", SERVICE)])
def test_the_page_says_where_each_folder_runs(name: str, rules: Rules) -> None:
    """A row ``| `folder/` | process | what | tests |`` for each folder, whose tests are there."""
    rows = {row[0].strip("`/"): row for row in cells(section(f"Rooms of the {name}"))}
    folders = {path.parent.name for path in rules.folder.glob("*/__init__.py")}
    assert folders <= set(rows)
    for room, row in rows.items():
        assert len(row) == 4, room
        assert all(row), room
        tests = re.findall(r"`(tests/[\w./]+)`", row[3])
        assert tests, f"{room} names no tests"
        assert [test for test in tests if not (ROOT / test).exists()] == [], room


NAMED = re.findall(r"`([\w/]+\.py): ([\w.]+)`", PAGE.read_text(encoding="utf-8"))


def defines(path: Path, name: str) -> bool:
    """Whether a file has a function or class of this name, or a class such a method."""
    nodes: list[ast.stmt] = ast.parse(path.read_text(encoding="utf-8")).body if path.exists() else []
    for part in name.split("."):
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        found = [node for node in nodes if isinstance(node, kinds) and node.name == part]
        if not found:
            return False
        nodes = found[0].body
    return True


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_what_the_page_names_in_a_file_is_defined_there(file: str, name: str) -> None:
    assert any(defines(rules.folder / file, name) for rules in (PLUGIN, SERVICE))


FOLDERS = [path for rules in (PLUGIN, SERVICE) for path in modules_of(rules).values() if path.stem == "__init__"]


@pytest.mark.parametrize("path", FOLDERS, ids=lambda path: str(path.parent.relative_to(ROOT)))
def test_every_folder_says_what_lives_there(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
