"""What benchmarks keep can be published: no folder of the machine that made it."""

import re

import pytest
from conftest import ROOT

FILES = sorted((ROOT / "benchmarks").rglob("*.jsonl"))
LIBRARIES = re.compile(r"/(?:[\w.+-]+/)*lib/python3[^\"\\ ]*")


@pytest.mark.parametrize("folder", sorted({file.relative_to(ROOT).parent.as_posix() for file in FILES}))
def test_kept_results_name_no_folder_of_a_machine(folder: str) -> None:
    for file in (ROOT / folder).glob("*.jsonl"):
        text = file.read_text(encoding="utf-8")
        found = [place for place in LIBRARIES.findall(text) if not place.startswith(("/lib/", "/usr/lib/"))]
        assert not found and str(ROOT) not in text, f"{file.name}: {found[:2]}"
