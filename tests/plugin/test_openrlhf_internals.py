"""The check at start-up: an OpenRLHF that does not fit is named in one sentence before anything starts."""

import ast
import functools
import importlib
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

import openrlhf_gtpo
from openrlhf_gtpo import openrlhf_internals
from openrlhf_gtpo.errors import UserError
from openrlhf_gtpo.openrlhf_internals import OpenRLHFMismatch, check, rebuilt_as


def test_the_installed_openrlhf_fits() -> None:
    assert check().startswith("0.11.")


@pytest.mark.parametrize("found", ["0.11.1", "0.12.0", "1.0"])
def test_another_version_is_refused_with_the_one_to_install(found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openrlhf_internals, "version", lambda name: found)
    with pytest.raises(OpenRLHFMismatch) as caught:
        check()
    assert str(caught.value) == (
        f"Found OpenRLHF {found}, but the plugin fits 0.11.2 up to 0.12.0 (excluded): install one with "
        '`pip install "openrlhf>=0.11.2,<0.12.0"`.'
    )
    assert isinstance(caught.value, UserError)


@pytest.mark.parametrize("found", ["0.11.2", "0.11.2.post1", "0.11.9"])
def test_every_0_11_from_0_11_2_is_in_the_range(found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openrlhf_internals, "version", lambda name: found)
    assert check() == found


def test_a_missing_openrlhf_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(openrlhf_internals, "version", version)
    with pytest.raises(OpenRLHFMismatch, match="not installed"):
        check()


def test_a_changed_internal_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator

    monkeypatch.delattr(SamplesGenerator, "_generate_vllm")
    with pytest.raises(
        OpenRLHFMismatch, match=r"has no openrlhf\S*samples_generator\.SamplesGenerator\._generate_vllm"
    ):
        check()


def test_an_attribute_that_no_method_sets_any_more_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "openrlhf.trainer.ppo_utils.samples_generator"
    monkeypatch.setitem(openrlhf_internals._INTERNALS, module, ["SamplesGenerator._sample_buffer"])
    check()
    monkeypatch.setitem(openrlhf_internals._INTERNALS, module, ["SamplesGenerator._sample_buffers"])
    with pytest.raises(OpenRLHFMismatch, match=r"has no openrlhf\S*\.SamplesGenerator\._sample_buffers, which"):
        check()


def test_a_subclass_takes_over_an_objects_state_without_running_its_constructor() -> None:
    class Theirs:
        def __init__(self, value: int) -> None:
            self.value = value

    class Ours(Theirs):
        pass

    old = Theirs(3)
    new = rebuilt_as(Ours, old)
    assert isinstance(new, Ours)
    assert new.value == 3


OF_THE_SERVICE = ("math_reward.grader", "math_reward.pool", "math_reward.http")
"""What only grades."""

IMPORTS = {
    "openrlhf_gtpo.shaping": {"ray", "vllm", "deepspeed", "openrlhf", "transformers", *OF_THE_SERVICE},
    "openrlhf_gtpo.algorithms.table": {"torch", "ray", "vllm", "deepspeed", "openrlhf", *OF_THE_SERVICE},
    "openrlhf_gtpo.algorithms.entropy": {
        "ray",
        "vllm",
        "deepspeed",
        "openrlhf",
        "transformers",
        "triton",
        *OF_THE_SERVICE,
    },
    "openrlhf_gtpo.vllm_entropy": {"torch", "numpy", "ray", "vllm", "deepspeed", "openrlhf", *OF_THE_SERVICE},
    "openrlhf_gtpo.rewards.client": {"torch", "ray", "vllm", "deepspeed", "openrlhf", *OF_THE_SERVICE},
    "openrlhf_gtpo.settings": {"torch", "ray", "vllm", "deepspeed", "openrlhf", *OF_THE_SERVICE},
    "openrlhf_gtpo.rollout.actor": {"deepspeed", *OF_THE_SERVICE},
    "math_reward.app": {"torch", "openrlhf_gtpo", "ray", "vllm"},
}


@pytest.mark.parametrize("module", IMPORTS)
def test_each_role_imports_no_more_than_its_process_needs(module: str) -> None:
    program = (
        f"import sys, {module}; print('loaded', *(name for name in {sorted(IMPORTS[module])} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "loaded"  # vLLM has its own lines before


PLUGIN = Path(openrlhf_gtpo.__file__).parent
OURS = {"_on_cpu"}
"""What the plugin writes into OpenRLHF's modules for itself."""


def modules() -> list[tuple[str, ast.Module]]:
    """The plugin's modules by their names, but for the stand-ins of other packages and what is for other trainers."""
    paths = (path for path in PLUGIN.rglob("*.py") if not {"stubs", "trainers"} & {*path.parts})
    return [
        (".".join(path.relative_to(PLUGIN.parent).with_suffix("").parts).removesuffix(".__init__"), parse(path))
        for path in paths
    ]


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def named(tree: ast.Module) -> set[tuple[str, str]]:
    """Names that a module imports from OpenRLHF, reads of its modules and classes, or binds there."""
    found: set[tuple[str, str]] = set()
    aliases: dict[str, tuple[str, str]] = {}  # of modules and of what is imported from them
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            aliases |= {a.asname: (a.name, "") for a in node.names if a.asname and a.name.startswith("openrlhf.")}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("openrlhf."):
            found |= {(node.module or "", a.name) for a in node.names}
            aliases |= {a.asname or a.name: (node.module or "", f"{a.name}.") for a in node.names}
        elif isinstance(node, ast.Call) and getattr(node.func, "id", None) == "bind":
            module, name = (argument.value for argument in node.args[:2] if isinstance(argument, ast.Constant))
            found.add((str(module), str(name)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            module, prefix = aliases[node.value.id]
            found.add((module, prefix + node.attr))
    return {(module, name) for module, name in found if name not in OURS}


@functools.cache
def gives(cls: type) -> set[str]:
    """The methods and attributes that a class of OpenRLHF's has by its own code."""
    tree = parse(Path(str(sys.modules[cls.__module__].__file__)))
    (body,) = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == cls.__name__)
    methods = {node.name for node in body.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    stored = (node for node in ast.walk(body) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store))
    return methods | {node.attr for node in stored if getattr(node.value, "id", None) == "self"}


def inherited(module: str, tree: ast.Module) -> set[tuple[str, str]]:
    """What the plugin's classes override, or read of themselves, that they have from a class of OpenRLHF's."""
    found = set()
    bodies = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    classes = [cls for name in bodies if isinstance(cls := getattr(importlib.import_module(module), name, None), type)]
    for cls in classes:
        names = {
            node.attr
            for ours in cls.__mro__
            if ours.__module__ == module and ours.__name__ in bodies
            for node in ast.walk(bodies[ours.__name__])
            if isinstance(node, ast.Attribute)
            and (getattr(node.value, "id", None) == "self" or ast.unparse(node.value) == "super()")
        } | {name for name in vars(cls) if not name.startswith("__")}
        for theirs in cls.__mro__:
            if theirs.__module__.startswith("openrlhf."):
                found |= {(theirs.__module__, f"{theirs.__name__}.{name}") for name in names if name in gives(theirs)}
    return {(module, name) for module, name in found if not name.endswith(".__init__")}


def test_the_list_of_internals_has_every_name_that_the_plugin_uses() -> None:
    used = set().union(*(named(tree) | inherited(module, tree) for module, tree in modules()))
    listed = {(module, name) for module, names in openrlhf_internals._INTERNALS.items() for name in names}
    listed |= {(module, name.split(".")[0]) for module, name in listed}  # a class, by what is used of it
    missing = sorted(f"{module}.{name}" for module, name in used - listed)
    assert missing == [], "\n".join(missing)
    assert len(used) > 40, "else this test has found nothing"
