"""The site: it builds with every link good, and its API page has what can be imported."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import analysis
import raypfrl

ROOT = Path(__file__).parent.parent


def test_the_site_builds_and_its_links_are_good(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="no mkdocs-material: pip install -c constraints.txt -e '.[docs]'")
    pytest.importorskip("mkdocstrings")
    site = tmp_path / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(site)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all((site / path.stem / "index.html").is_file() for path in (ROOT / "docs").glob("*.md"))
    page = (site / "api" / "index.html").read_text(encoding="utf-8")
    described = set(re.findall(r'<h\d id="[\w.]*?\.(\w+)" class="doc doc-heading"', page))
    wanted = {*analysis.__all__, "RunConfig", "Sweep", "Training", "sweep", "train"} - {"statistics", "ResultsError"}
    assert wanted <= described, wanted - described
    assert {"quantile_interval", "paired", "holm"} <= described
    assert set(raypfrl.__all__) - {"AgentError", "Diverged", "SettingsError"} <= described
    front = (site / "index.html").read_text(encoding="utf-8")
    assert not re.findall(
        r'<(?:script|link|img)[^>]*(?:src|href)="https?://', front
    )  # nothing is loaded from elsewhere
