"""The README as a package index shows it, where links relative to the repository lead nowhere."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)]+)\)")


class ReadmeHook(MetadataHookInterface):
    """Makes the README's links absolute, with the address ``Repository`` of ``[project.urls]``."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the field ``readme``."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository = metadata.get("urls", {}).get("Repository")
        text = absolute_links(text, repository, f"v{metadata['version']}")
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def absolute_links(text: str, repository: str | None, tag: str) -> str:
    """Lead relative links to the files of a tag.

    Without a repository, links become plain text and pictures are left out.
    """

    def replace(link: re.Match[str]) -> str:
        picture, label, target = link.groups()
        if not repository:
            return "" if picture else label
        return f"{picture}[{label}]({repository.rstrip('/')}/{'raw' if picture else 'blob'}/{tag}/{target})"

    return RELATIVE_LINK.sub(replace, text)
