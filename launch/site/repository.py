"""Puts under every page of the site the repository's address, `repo_url` of mkdocs.yml, and that of its private
reports. Without one pages stay as they are."""

from typing import Any


def on_config(config: Any) -> None:
    """MkDocs calls this once."""
    if config.repo_url:
        address = config.repo_url.rstrip("/")
        reports = f'<a href="{address}/security/advisories/new">Report a weakness privately</a>'
        config.copyright = f'<a href="{address}">Repository</a>, to <code>git clone {address}</code> · {reports}'
