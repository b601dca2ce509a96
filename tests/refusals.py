"""What every refusal has in common, whichever part of the project says it."""


def assert_refusal(said: str, *named: str) -> None:
    """A refusal is one line, ends with a full stop or asks what was meant, and names the wrong flag or input."""
    assert "\n" not in said.strip(), f"more than one line: {said}"
    assert said.strip().endswith((".", "?")), f"no full stop: {said}"
    missing = [name for name in named if name not in said]
    assert not missing, f"does not name {missing}: {said}"
