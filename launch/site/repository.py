"""Puts the repository's address, `repo_url` of mkdocs.yml, where a page says REPOSITORY_URL, and under every page that
of its private reports. Without one pages stay as they are."""

from typing import Any


def on_config(config: Any) -> None:
    """MkDocs calls this once."""
    if config.repo_url:
        reports = f"{config.repo_url.rstrip('/')}/security/advisories/new"
        config.copyright = f'<a href="{reports}">Report a weakness privately</a>'


def on_page_markdown(text: str, config: Any, **_: Any) -> str:
    """MkDocs calls this with each page's Markdown."""
    return text.replace("REPOSITORY_URL", config.repo_url or "REPOSITORY_URL")
