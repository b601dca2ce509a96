import pytest


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests are not to depend on the token of whoever runs them."""
    monkeypatch.delenv("MATH_REWARD_TOKEN", raising=False)
    monkeypatch.delenv("MATH_REWARD_TOKEN_FILE", raising=False)
