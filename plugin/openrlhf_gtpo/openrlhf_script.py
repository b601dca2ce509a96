"""OpenRLHF's parser, and what checks and completes its flags. They are in the ``__main__`` block of its script and in
its ``train``, which until they train need the standard library alone: `Script` runs them without the rest."""

import argparse
import ast
import builtins
import importlib.util
import runpy
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from openrlhf_gtpo.errors import SettingsError


class Script:
    """OpenRLHF's script, which runs here as it is, but without the imports that its training needs. It ends where it
    would parse its command line, or train."""

    def __init__(self) -> None:
        spec = importlib.util.find_spec("openrlhf")
        if spec is None or not spec.submodule_search_locations:
            raise SettingsError("OpenRLHF is not installed, and training needs it: the README says how to install it.")
        self._package = Path(spec.submodule_search_locations[0])
        self.path = self._package / "cli" / "train_ppo_ray.py"

    def parser(self) -> argparse.ArgumentParser:
        return self._run(None)

    def completed(self, flags: Namespace) -> SimpleNamespace:
        return self._run(flags)

    def _run(self, flags: Namespace | None) -> Any:
        """The script's parser; with flags, which then come from that parser, what it calls ``train`` with."""

        def imported(name: str, *rest: Any) -> Any:
            if name == "argparse":
                return SimpleNamespace(**vars(argparse) | {"ArgumentParser": parsing})
            if name == "openrlhf.utils.config":  # importing its package would import DeepSpeed
                return SimpleNamespace(**runpy.run_path(str(self._package / "utils" / "config.py")))
            if name.partition(".")[0] in (*sys.stdlib_module_names, "modelscope"):
                return __import__(name, *rest)
            return SimpleNamespace(**dict.fromkeys(rest[2] or ()))

        parsing = type("parsing", (argparse.ArgumentParser,), {"parse_args": lambda made: flags or sys.exit(made)})
        script = ast.parse(self.path.read_text(encoding="utf-8"))
        for statement in script.body:
            if isinstance(statement, ast.FunctionDef) and statement.name == "train":
                statement.body = [*_assertions(statement.body), *ast.parse("exit(args)").body]
        doors = {"exit": sys.exit, "__builtins__": vars(builtins) | {"__import__": imported}}
        try:
            exec(compile(script, self.path, "exec"), {"__name__": "__main__", **doors})
        except SystemExit as ended:
            return ended.code
        raise SettingsError(
            f"{self.path} does not parse and train as OpenRLHF 0.11's does: install OpenRLHF's released version."
        )


def _assertions(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Those of a function about its arguments, with the conditions around them."""
    kept = list[ast.stmt]()
    for statement in body:
        if isinstance(statement, ast.If):
            statement.body, statement.orelse = _assertions(statement.body), _assertions(statement.orelse)
            if statement.body or statement.orelse:
                statement.body = statement.body or [ast.Pass()]
                kept.append(statement)
        elif isinstance(statement, ast.Assert):
            kept.append(statement)
    return kept
