"""What the metadata of both distributions do not know by themselves.

**Where the service comes from.** Until its owner has registered `math-reward` at a package index a stranger may do so,
and `pip install .` would fetch that. So outside a release (RELEASE=1, by launch/release.sh) the plugin depends on the
folder beside it. (uv takes it from the workspace.)

**Whose repository this is**: REPOSITORY_URL, where that is set.

No owner is written anywhere. .github/workflows/release.yml sets the variable to the address of the repository that it
runs in; without it there are no links to a repository, and README.md is as it stands.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class OfTheRepository(MetadataHookInterface):
    """Hatchling finds it by ``[tool.hatch.metadata.hooks.custom]``."""

    def update(self, metadata: dict[str, Any]) -> None:
        readme = Path(self.root, "README.md").read_text(encoding="utf-8")
        repository = os.environ.get("REPOSITORY_URL", "").rstrip("/")
        metadata["urls"] = {}
        if repository:
            metadata["urls"] = {"Repository": repository, "Issues": f"{repository}/issues"}
            readme = absolute(readme, repository, f"v{metadata['version']}")
        metadata["readme"] = {"content-type": "text/markdown", "text": readme}
        service = Path(self.root, "reward_server")
        if service.is_dir() and "RELEASE" not in os.environ:
            metadata["dependencies"] = [from_folder(one, service) for one in metadata["dependencies"]]


def from_folder(requirement: str, service: Path) -> str:
    """A requirement; one of `math-reward` as a direct reference to the folder."""
    return f"{requirement} @ {service.as_uri()}" if requirement.startswith("math-reward") else requirement


def absolute(text: str, repository: str, tag: str) -> str:
    """Links to the repository's files as they are at this tag: a package index has none of them."""
    text = re.sub(r"(!\[[^\]]*\]\()(?!\w+:)", rf"\g<1>{repository}/raw/{tag}/", text)
    return re.sub(r"(\]\()(?!\w+:|#)", rf"\g<1>{repository}/blob/{tag}/", text)
