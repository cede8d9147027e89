"""Hooks of mkdocs.yml: the README is the first page, and files of the repository that pages link to come along.

Links are written for a reader of the repository (`../examples/nightly.mk`, `docs/search.md`) and are rewritten to where
the site has the file; a folder without a README is no place in the site, and its link becomes text.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"(?P<text>!?\[[^][]*(?:\[[^][]*\][^][]*)*\])\((?P<path>[^()#\s]+)(?P<anchor>#[^()\s]*)?\)")
FIRST = "README.md"


def place(path: str) -> str:
    """Where the site has a file of the repository."""
    return "index.md" if path == FIRST else path.removeprefix("docs/")


def target(page: str, link: str) -> str | None:
    """The file of the repository that a link of a page means, "" a folder, None something that is not in it."""
    if re.match(r"[a-z]+:", link):
        return None
    path = os.path.normpath(os.path.join(os.path.dirname(page), link))
    if (ROOT / path).is_dir():
        path = os.path.join(path, FIRST)
        return path if (ROOT / path).is_file() else ""
    return path if (ROOT / path).is_file() else None


def linked(pages: list[str]) -> Iterator[str]:
    """The pages, and all files that they and the pages among these link to."""
    seen = set(pages)
    while pages:
        page = pages.pop()
        yield page
        for link in LINK.finditer((ROOT / page).read_text(encoding="utf-8")) if page.endswith(".md") else ():
            path = target(page, link["path"])
            if path and path not in seen:
                seen.add(path)
                pages.append(path)


def on_files(files: Files, config: Any) -> Files:
    pages = [FIRST, *(f"docs/{file.src_uri}" for file in files.documentation_pages())]
    for path in linked(pages):
        if files.get_file_from_path(place(path)) is None:
            files.append(File.generated(config, place(path), abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    source = os.path.relpath(page.file.abs_src_path, ROOT)
    here = os.path.dirname(place(source))

    def rewritten(link: re.Match[str]) -> str:
        path = target(source, link["path"])
        if path is None:
            return link[0]
        if not path:
            return link["text"][1:-1]
        return f"{link['text']}({os.path.relpath(place(path), here or '.')}{link['anchor'] or ''})"

    return LINK.sub(rewritten, markdown)
