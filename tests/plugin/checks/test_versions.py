"""Packages that a flag alone needs are asked for before training imports them."""

from collections.abc import Callable
from importlib import metadata
from typing import Any

import pytest

from openrlhf_gtpo.checks import versions

from ...refusals import assert_refusal


@pytest.mark.parametrize(
    ("flag", "package"), [("--ds.load_in_4bit", "bitsandbytes"), ("--ds.use_liger_kernel", "liger-kernel")]
)
def test_a_package_that_a_flag_needs_has_to_be_there(
    parse: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch, flag: str, package: str
) -> None:
    def faults(*words: str) -> list[str]:
        given = parse("--device", "gpu", *words)
        return [one.sentence for one in versions.check(given) if one.state == "fault" and one.check == package]

    known = metadata.version
    installed: set[str] = set()

    def version(name: str) -> str:
        if name == package and name not in installed:
            raise metadata.PackageNotFoundError(name)
        return "1.0" if name == package else known(name)

    monkeypatch.setattr(versions, "version", version)
    (said,) = faults(flag)
    assert_refusal(said, package, f"pip install {package}")
    assert faults() == []
    installed.add(package)
    assert faults(flag) == []
