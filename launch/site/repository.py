"""Puts the repository's address, `repo_url` of mkdocs.yml, where a page says REPOSITORY_URL; without one it stays."""

from typing import Any


def on_page_markdown(text: str, config: Any, **_: Any) -> str:
    """MkDocs calls this with each page's Markdown."""
    return text.replace("REPOSITORY_URL", config.repo_url or "REPOSITORY_URL")
