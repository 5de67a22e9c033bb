"""What makes a site of the repository's Markdown: README.md is the front page, and links to files that are no pages of
the site (sources, settings) become plain text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
GENERATED = {"index.md": "README.md", "contributing.md": "CONTRIBUTING.md"}
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])+)\]\((?!https?:|#)([^)#]+)(#[^)]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that lie at the top of the repository, their links as seen from docs/."""
    for page, source in GENERATED.items():
        text = (ROOT / source).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, page, content=text.replace("](CONTRIBUTING.md", "](contributing.md")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """A link to what is no file of the site as its text alone."""

    def kept(link: re.Match[str]) -> str:
        target = link[2].replace("../README.md", "index.md").replace("../CONTRIBUTING.md", "contributing.md")
        known = files.get_file_from_path(target) is not None
        return f"[{link[1]}]({target}{link[3] or ''})" if known else link[1]

    return LINK.sub(kept, markdown)
