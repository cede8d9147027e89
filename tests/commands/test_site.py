"""The documentation as a site: every link of it leads somewhere, and it loads nothing from elsewhere."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from conftest import BIN, ROOT

# What makes a browser load a file: an address of another host in one of these.
LOADS = re.compile(
    r"""<(?:script|img|iframe)[^>]*\ssrc=["']?(?:https?:)?//|<link[^>]*rel=["']?(?:stylesheet|preconnect)["']?[^>]*//"""
)


@pytest.mark.slow
def test_the_site_is_built_from_the_docs(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="needs the [docs] extra")
    done = subprocess.run(
        [
            str(BIN / "mkdocs"),
            "build",
            "--strict",
            "--quiet",
            "--config-file",
            str(ROOT / "mkdocs.yml"),
            "--site-dir",
            str(tmp_path),
        ],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    pages = list(tmp_path.rglob("*.html"))
    names = {path.parent.name for path in pages}
    assert names >= {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert "A table, or your own" in (tmp_path / "index.html").read_text(encoding="utf-8")
    assert (tmp_path / "examples" / "nightly.mk").is_file()
    for page in pages:
        assert not LOADS.search(page.read_text(encoding="utf-8")), page
    assert not list(tmp_path.rglob("make_*.py"))
